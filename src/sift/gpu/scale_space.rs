//! The Gaussian layers of all octaves in one buffer, and what fills them.

use crate::device::{Bound, Buffer, DeviceError, Gpu, Recording};
use crate::gray::DeviceGray;
use crate::kernels::gaussian_blur::{self, BlurJob, GaussianBlurParams};
use crate::kernels::sift_point::{MAX_OCTAVES, OctaveShape};
use crate::kernels::upsample::{self, UpsampleParams};
use crate::sift::SiftOptions;
use crate::sift::octaves::{OctaveSize, doubling, layer_taps};

/// Dispatches that make octaves of a picture.
#[derive(Debug)]
pub struct GpuScaleSpace {
    /// Where the octaves lie in `gaussians`.
    pub shapes: [OctaveShape; MAX_OCTAVES],
    /// How many there are.
    pub n_octaves: usize,
    /// The Gaussian layers.
    pub gaussians: Buffer<f32>,
    /// Where the picture goes: to a layer that is made later.
    gray_begin: usize,
    upsample: Option<(Bound, [u32; 3])>,
    blurs: Vec<(Bound, [u32; 3])>,
}

impl GpuScaleSpace {
    /// For pictures of `size` and their `octaves`.
    pub fn new(
        gpu: &Gpu,
        options: &SiftOptions,
        size: (usize, usize),
        octaves: &[OctaveSize],
    ) -> Result<GpuScaleSpace, DeviceError> {
        let plan = Plan::new(options, octaves);
        let n_pixels: usize = octaves.iter().map(OctaveSize::pixels).sum();
        let gaussians = gpu.buffer::<f32>("gaussians", plan.n_layers * n_pixels)?;
        let taps = gpu.buffer_with("taps", &plan.taps)?;
        let kernel = gpu.kernel(&gaussian_blur::SHADER, &[])?;
        let blurs = plan.steps().into_iter().map(|jobs| {
            let params = GaussianBlurParams::new(&jobs);
            Ok((kernel.bind(&params, &[&taps, &gaussians])?, params.groups()))
        });
        let blurs = blurs.collect::<Result<_, DeviceError>>()?;
        let doubles = doubling(options) == 2 && !octaves.is_empty();
        // The first blur reads layer 1.
        let gray_begin = octaves.first().map_or(0, |octave| if doubles { 2 } else { 1 } * octave.pixels());
        let upsample = || {
            let params = UpsampleParams {
                source: gray_begin as u32,
                doubled: octaves[0].pixels() as u32,
                width: size.0 as u32,
                height: size.1 as u32,
            };
            let bound = gpu.kernel(&upsample::SHADER, &[])?.bind(&params, &[&gaussians])?;
            Ok((bound, upsample::SHADER.groups([size.0, size.1, 1])))
        };
        Ok(GpuScaleSpace {
            shapes: plan.shapes,
            n_octaves: octaves.len(),
            gray_begin,
            upsample: doubles.then(upsample).transpose()?,
            blurs,
            gaussians,
        })
    }

    /// Records what makes the layers of `gray`.
    pub fn record(&self, recording: &mut Recording, gray: &DeviceGray) {
        let values = gray.values();
        recording.copy(values, 0..values.len(), &self.gaussians, self.gray_begin).pass("doubling");
        if let Some((bound, groups)) = &self.upsample {
            recording.dispatch(bound, *groups);
        }
        recording.pass("blurs");
        for (bound, groups) in &self.blurs {
            recording.dispatch(bound, *groups);
        }
    }
}

/// Which layer is made of which.
struct Plan<'a> {
    octaves: &'a [OctaveSize],
    shapes: [OctaveShape; MAX_OCTAVES],
    n_layers: usize,
    scales: usize,
    /// Of all layers, one behind the other.
    taps: Vec<f32>,
    options: &'a SiftOptions,
}

impl<'a> Plan<'a> {
    fn new(options: &'a SiftOptions, octaves: &'a [OctaveSize]) -> Plan<'a> {
        let scales = options.scales_per_octave as usize;
        let n_layers = scales + 3;
        let sizes: Vec<_> = octaves.iter().map(|octave| (octave.width, octave.height)).collect();
        let shapes = OctaveShape::table(&sizes, n_layers);
        let taps = (0..n_layers).flat_map(|layer| layer_taps(layer, options).one_side().to_vec()).collect();
        Plan { octaves, shapes, n_layers, scales, taps, options }
    }

    /// The jobs of each dispatch. An octave's first layer is made with layer `scales` of the one before, so that each
    /// octave follows the one before by so many dispatches, and up to two of them are under way.
    fn steps(&self) -> Vec<Vec<BlurJob>> {
        let n_octaves = self.octaves.len();
        let n_steps = if n_octaves == 0 { 0 } else { self.scales * (n_octaves - 1) + self.n_layers };
        let jobs = |step: usize| {
            let layer = |octave: usize| step.checked_sub(self.scales * octave);
            let is_made =
                |&(octave, layer): &(usize, usize)| layer < self.n_layers && (layer > 0 || octave == 0);
            let made = (0..n_octaves).filter_map(|octave| Some((octave, layer(octave)?))).filter(is_made);
            made.map(|(octave, layer)| self.job(octave, layer)).collect()
        };
        (0..n_steps).map(jobs).collect()
    }

    fn job(&self, octave: usize, layer: usize) -> BlurJob {
        let size = self.octaves[octave];
        let begin = |layer: usize| self.shapes[octave].begin as usize + layer * size.pixels();
        // The picture, doubled or not, waits in layer 1.
        let finer = if layer == 0 { begin(1) } else { begin(layer - 1) };
        let is_halved = layer == self.scales && octave + 1 < self.octaves.len();
        let halved = is_halved.then(|| self.shapes[octave + 1].begin as usize);
        let first_tap = (0..layer).map(|before| layer_taps(before, self.options).radius() + 1).sum();
        let taps = layer_taps(layer, self.options);
        BlurJob::new([size.width, size.height], [finer, begin(layer)], halved, &taps, first_tap)
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
            let plan = Plan::new(&options, &octaves);
            assert_eq!(octaves.len(), 5);
            let first = octaves[0].pixels();
            let mut made = vec![first];
            let mut n_jobs = 0;
            for jobs in plan.steps() {
                assert!((1..=2).contains(&jobs.len()), "{} jobs", jobs.len());
                let mut now = Vec::new();
                for job in jobs {
                    let [finer, coarser] = job.layers();
                    assert!(made.contains(&finer), "{finer} of {made:?}");
                    now.push(coarser);
                    now.extend(job.halved());
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
