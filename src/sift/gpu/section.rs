//! Sections: what of the octaves lies on the device at once. An octave whose layers are too large for that is cut into strips
//! of rows, each with so many rows more on either side that all that is read around its own is as it is in the whole octave.

use std::ops::Range;

use crate::kernels::{descriptor, orientation, refine};
use crate::sift::SiftOptions;
use crate::sift::octaves::{OctaveSize, doubling, layer_taps};

/// Octaves whose layers lie on the device at once, or a strip of one of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Which of the picture's octaves.
    pub octaves: Range<usize>,
    /// Rows of the first of them that it holds.
    pub rows: Range<usize>,
    /// Rows among them whose extrema are the section's. Whole octaves have fewer rows than their first.
    pub own: Range<usize>,
}

impl Section {
    /// Sections of the octaves, finest first, whose layers take no more than `most_values` if strips of two rows, with those
    /// around them, do.
    pub fn cut(octaves: &[OctaveSize], options: &SiftOptions, most_values: usize) -> Vec<Section> {
        let mut sections = Vec::new();
        let fits = |first: &usize| {
            octaves[*first..].iter().map(|o| values(o, options)).sum::<usize>() <= most_values
        };
        let first_whole = (0..octaves.len()).find(fits).unwrap_or(octaves.len());
        for (index, octave) in octaves[..first_whole].iter().enumerate() {
            sections.extend(strips(index, octave, options, most_values));
        }
        if let Some(octave) = octaves.get(first_whole) {
            let rows = 0..octave.height;
            sections.push(Section { octaves: first_whole..octaves.len(), own: rows.clone(), rows });
        }
        sections
    }

    /// Sizes of its octaves, as many rows of the first as it holds.
    pub fn sizes(&self, octaves: &[OctaveSize]) -> Vec<OctaveSize> {
        let mut sizes = octaves[self.octaves.clone()].to_vec();
        if let Some(first) = sizes.first_mut() {
            first.height = self.rows.len();
        }
        sizes
    }

    /// Its own rows, counted from its first.
    pub fn own_within(&self) -> Range<usize> {
        self.own.start - self.rows.start..self.own.end - self.rows.start
    }

    /// Whether an extremum in that row of that octave is the section's.
    pub fn owns(&self, octave: u32, row: u32) -> bool {
        self.octaves.contains(&(octave as usize)) && self.own.contains(&(row as usize))
    }
}

/// Values of an octave's layers, and of the next octave's first.
fn values(octave: &OctaveSize, options: &SiftOptions) -> usize {
    let n_layers = options.scales_per_octave as usize + 3;
    n_layers * octave.pixels() + octave.width.div_ceil(2) * octave.height.div_ceil(2)
}

/// Strips of an octave. Their rows begin at even rows, which are those that the next octave takes.
fn strips(index: usize, octave: &OctaveSize, options: &SiftOptions, most_values: usize) -> Vec<Section> {
    let two_rows = values(&OctaveSize { height: 2, ..*octave }, options);
    let n_rows = 2 * (most_values / two_rows);
    let reach = reach(options).next_multiple_of(2);
    let n_own = n_rows.saturating_sub(2 * reach).max(2);
    let strip = |start: usize| {
        let own = start..octave.height.min(start + n_own);
        let rows = start.saturating_sub(reach)..octave.height.min(own.end + reach);
        Section { octaves: index..index + 1, rows, own }
    };
    (0..octave.height).step_by(n_own).map(strip).collect()
}

/// How many rows away from an extremum's its features depend on, in pixels of its octave.
fn reach(options: &SiftOptions) -> usize {
    let blurs =
        |n_layers: usize| (0..n_layers).map(|layer| layer_taps(layer, options).radius()).sum::<usize>();
    let scales = options.scales_per_octave as usize;
    let found = blurs(scales + 3) + refine::REACH;
    let largest_scale =
        options.base_sigma_px * libm::exp2f((scales as f32 + refine::MOVE_OFFSET) / scales as f32);
    let cell = options.magnification * largest_scale;
    let around = orientation::REACH.max(descriptor::reach(cell));
    let described = blurs(scales + 1) + around;
    found.max(described) + (doubling(options) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sift::octaves::octave_sizes;

    #[test]
    fn what_fits_is_one_section() {
        let options = SiftOptions::default();
        let octaves = octave_sizes((64, 48), &options);
        let most: usize = octaves.iter().map(|octave| values(octave, &options)).sum();
        let whole = Section { octaves: 0..4, rows: 0..96, own: 0..96 };
        assert_eq!(octaves.len(), 4);
        assert_eq!(Section::cut(&octaves, &options, most), [whole]);
        let cut = Section::cut(&octaves, &options, most - 1);
        assert!(cut.len() > 1 && cut.last().unwrap().octaves == (1..4), "{cut:?}");
        assert_eq!(Section::cut(&[], &options, most), []);
    }

    #[test]
    fn strips_share_all_rows_and_stay_within_their_room() {
        let options = SiftOptions::default();
        let octaves = octave_sizes((1000, 777), &options);
        let most = values(&OctaveSize { height: 400, ..octaves[0] }, &options);
        let sections = Section::cut(&octaves, &options, most);
        let of_first: Vec<&Section> = sections.iter().filter(|section| section.octaves == (0..1)).collect();
        assert!(of_first.len() > 3 && sections.len() > of_first.len());
        let mut end = 0;
        for section in of_first {
            assert_eq!((section.own.start, section.own.start % 2, section.rows.start % 2), (end, 0, 0));
            assert!(values(&section.sizes(&octaves)[0], &options) <= most);
            let reach = reach(&options);
            assert!(section.rows.start == 0 || section.own.start - section.rows.start >= reach);
            assert!(section.rows.end == 1554 || section.rows.end - section.own.end >= reach);
            end = section.own.end;
        }
        assert_eq!(end, 1554);
    }
}
