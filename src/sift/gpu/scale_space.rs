//! The Gaussian layers of a section in a buffer, and what fills them.

use super::section::Section;
use crate::device::{Bound, Buffer, DeviceError, Gpu, Recording};
use crate::kernels::gaussian_blur::{self, BlurJob};
use crate::kernels::sift_point::{MAX_OCTAVES, OctaveShape};
use crate::kernels::upsample::{self, UpsampleParams};
use crate::sift::SiftOptions;
use crate::sift::octaves::{OctaveSize, doubling, layer_taps};

/// Dispatches that make the octaves of a section.
#[derive(Debug)]
pub struct GpuScaleSpace {
    /// What it makes.
    pub section: Section,
    /// Where the octaves lie in `gaussians`. Those that are not the section's have no pixels.
    pub shapes: [OctaveShape; MAX_OCTAVES],
    /// The Gaussian layers.
    pub gaussians: Buffer<f32>,
    /// What it is made of: rows of a layer or, where there is none, of the picture. They go to a layer that is made later.
    source: Rows<Option<Buffer<f32>>>,
    upsample: Option<(Bound, [u32; 3])>,
    blurs: Vec<(Bound, [u32; 3])>,
    /// Rows of the octave behind the section's.
    next: Option<Rows<Buffer<f32>>>,
}

/// Rows of the first layer of an octave: `len` values from `begin` on go to `at`.
#[derive(Debug)]
struct Rows<L> {
    /// The buffer that is not the section's own.
    layer: L,
    begin: usize,
    len: usize,
    at: usize,
}

impl GpuScaleSpace {
    /// A section of `octaves` on `gaussians`, which has room for it. It is made of the layer `before` or, where there is none,
    /// of the picture, and leaves its rows of the octave behind it in `next`.
    pub fn new(
        gpu: &Gpu,
        options: &SiftOptions,
        octaves: &[OctaveSize],
        section: &Section,
        gaussians: &Buffer<f32>,
        [before, next]: [Option<&Buffer<f32>>; 2],
    ) -> Result<GpuScaleSpace, DeviceError> {
        let plan = Plan::new(options, octaves, section);
        let steps = plan.steps().into_iter();
        let blurs = steps.map(|jobs| gaussian_blur::bind(gpu, &jobs, gaussians));
        let blurs = blurs.collect::<Result<_, DeviceError>>()?;
        let source = plan.source(before);
        let upsample = || {
            let size = plan.sizes[0];
            let [width, height] = [size.width / 2, size.height / 2];
            let params = UpsampleParams {
                source: source.at as u32,
                doubled: size.pixels() as u32,
                width: width as u32,
                height: height as u32,
            };
            let bound = gpu.kernel(&upsample::SHADER, &[])?.bind(&params, &[gaussians])?;
            Ok((bound, upsample::SHADER.groups([width, height, 1])))
        };
        Ok(GpuScaleSpace {
            section: section.clone(),
            shapes: plan.shapes,
            gaussians: gaussians.clone(),
            upsample: plan.doubles().then(upsample).transpose()?,
            next: next.map(|layer| plan.next(layer)),
            source,
            blurs,
        })
    }

    /// Values of the layers of a section.
    pub fn values(options: &SiftOptions, octaves: &[OctaveSize], section: &Section) -> usize {
        Plan::new(options, octaves, section).n_values
    }

    /// Records what makes the layers; the picture's `gray` where the section is made of it.
    pub fn record(&self, recording: &mut Recording, gray: &Buffer<f32>) {
        let Rows { layer, begin, len, at } = &self.source;
        let from = layer.as_ref().unwrap_or(gray);
        recording.copy(from, *begin..begin + len, &self.gaussians, *at).pass("doubling");
        if let Some((bound, groups)) = &self.upsample {
            recording.dispatch(bound, *groups);
        }
        recording.pass("blurs");
        for (bound, groups) in &self.blurs {
            recording.dispatch(bound, *groups);
        }
        if let Some(Rows { layer, begin, len, at }) = &self.next {
            recording.copy(&self.gaussians, *begin..begin + len, layer, *at);
        }
    }
}

/// Which layer is made of which.
struct Plan<'a> {
    section: &'a Section,
    /// Of the section's octaves.
    sizes: Vec<OctaveSize>,
    shapes: [OctaveShape; MAX_OCTAVES],
    n_layers: usize,
    scales: usize,
    /// Where the octave behind the last begins, if the picture has one.
    next_begin: Option<usize>,
    n_values: usize,
    options: &'a SiftOptions,
}

impl<'a> Plan<'a> {
    fn new(options: &'a SiftOptions, octaves: &[OctaveSize], section: &'a Section) -> Plan<'a> {
        let scales = options.scales_per_octave as usize;
        let n_layers = scales + 3;
        let sizes = section.sizes(octaves);
        let mut shapes = [OctaveShape::default(); MAX_OCTAVES];
        let pixels: Vec<_> = sizes.iter().map(|octave| (octave.width, octave.height)).collect();
        shapes[section.octaves.clone()]
            .copy_from_slice(&OctaveShape::table(&pixels, n_layers)[..sizes.len()]);
        let layers: usize = sizes.iter().map(|size| n_layers * size.pixels()).sum();
        let has_next = section.octaves.end < octaves.len();
        let next_begin = has_next.then_some(layers);
        let next_values = |size: &OctaveSize| size.width.div_ceil(2) * size.height.div_ceil(2);
        let n_values = layers + sizes.last().filter(|_| has_next).map_or(0, next_values);
        if let Some(first) = shapes.get_mut(section.octaves.start) {
            first.first_row = section.rows.start as u32;
        }
        Plan { section, sizes, shapes, n_layers, scales, next_begin, n_values, options }
    }

    /// Whether it begins with the picture.
    fn is_first(&self) -> bool {
        self.section.octaves.start == 0
    }

    fn doubles(&self) -> bool {
        self.is_first() && doubling(self.options) == 2 && !self.sizes.is_empty()
    }

    fn source(&self, before: Option<&Buffer<f32>>) -> Rows<Option<Buffer<f32>>> {
        let rows = &self.section.rows;
        let size = self.sizes.first().copied().unwrap_or_default();
        let layer = before.cloned();
        if self.doubles() {
            let width = size.width / 2;
            return Rows {
                layer,
                begin: rows.start / 2 * width,
                len: rows.len() / 2 * width,
                at: 2 * size.pixels(),
            };
        }
        // The first blur reads the picture in layer 1.
        let at = if self.is_first() { size.pixels() } else { 0 };
        Rows { layer, begin: rows.start * size.width, len: size.pixels(), at }
    }

    fn next(&self, layer: &Buffer<f32>) -> Rows<Buffer<f32>> {
        let (begin, size) = (self.next_begin.unwrap_or(0), self.sizes.last().copied().unwrap_or_default());
        let (own, width) = (&self.section.own, size.width.div_ceil(2));
        let rows = own.start / 2..own.end.div_ceil(2);
        let skipped = rows.start - self.section.rows.start / 2;
        Rows {
            layer: layer.clone(),
            begin: begin + skipped * width,
            len: rows.len() * width,
            at: rows.start * width,
        }
    }

    /// The jobs of each dispatch. An octave's first layer is made with layer `scales` of the one before, so that each
    /// octave follows the one before by so many dispatches, and up to two of them are under way.
    fn steps(&self) -> Vec<Vec<BlurJob>> {
        let n_octaves = self.sizes.len();
        let n_steps = if n_octaves == 0 { 0 } else { self.scales * (n_octaves - 1) + self.n_layers };
        let jobs = |step: usize| {
            let layer = |octave: usize| step.checked_sub(self.scales * octave);
            let is_made = |&(octave, layer): &(usize, usize)| {
                layer < self.n_layers && (layer > 0 || octave == 0 && self.is_first())
            };
            let made = (0..n_octaves).filter_map(|octave| Some((octave, layer(octave)?))).filter(is_made);
            made.map(|(octave, layer)| self.job(octave, layer)).collect()
        };
        (0..n_steps).map(jobs).filter(|jobs: &Vec<_>| !jobs.is_empty()).collect()
    }

    /// What makes a layer of the section's octave `octave`.
    fn job(&self, octave: usize, layer: usize) -> BlurJob {
        let size = self.sizes[octave];
        let octave_begin = |octave: usize| self.shapes[self.section.octaves.start + octave].begin as usize;
        let begin = |layer: usize| octave_begin(octave) + layer * size.pixels();
        // The picture, doubled or not, waits in layer 1.
        let finer = if layer == 0 { begin(1) } else { begin(layer - 1) };
        let is_last = octave + 1 == self.sizes.len();
        let next = if is_last { self.next_begin } else { Some(octave_begin(octave + 1)) };
        let halved = next.filter(|_| layer == self.scales);
        BlurJob {
            size: [size.width, size.height],
            layers: [finer, begin(layer)],
            halved,
            taps: layer_taps(layer, self.options),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sift::octaves::octave_sizes;

    #[test]
    fn every_layer_is_made_once_behind_what_it_is_made_of() {
        for scales_per_octave in 2..=8 {
            let options = SiftOptions { scales_per_octave, octaves: 16, ..Default::default() };
            let octaves = octave_sizes((201, 134), &options);
            let section = Section { octaves: 0..5, rows: 0..268, own: 0..268 };
            let plan = Plan::new(&options, &octaves, &section);
            assert_eq!(octaves.len(), 5);
            let first = octaves[0].pixels();
            let mut made = vec![first];
            let mut n_jobs = 0;
            for jobs in plan.steps() {
                assert!((1..=2).contains(&jobs.len()), "{} jobs", jobs.len());
                let mut now = Vec::new();
                for job in jobs {
                    let [finer, coarser] = job.layers;
                    assert!(made.contains(&finer), "{finer} of {made:?}");
                    now.push(coarser);
                    now.extend(job.halved);
                    n_jobs += 1;
                }
                // What waits in layer 1 is read before the layer is made.
                made.retain(|begin| !now.contains(begin));
                made.extend(now);
            }
            let mut expected: Vec<usize> = Vec::new();
            for (octave, shape) in octaves.iter().zip(plan.shapes) {
                expected.extend((0..plan.n_layers).map(|l| shape.begin as usize + l * octave.pixels()));
            }
            made.sort_unstable();
            assert_eq!(made, expected);
            assert_eq!(n_jobs, octaves.len() * plan.n_layers - (octaves.len() - 1));
        }
    }
}
