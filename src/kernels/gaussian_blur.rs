//! Gaussian blur: y, then x, each rounded to f32; a sum begins with the centre and adds the pairs of equal taps
//! outwards. Taps reach to 4 sigma and sum to 1. Border clamped; centres stay where they are.
//! One invocation: a block of rows. On the device one dispatch blurs a layer of each of two octaves.

use super::unroll::unrolled;
use crate::device::{Binding, Bound, Buffer, DeviceError, Gpu, KernelSource, params_layout};

/// The shader for radii up to 8, its loops not written out: see `bind`.
pub const SHADER: KernelSource = KernelSource {
    name: "gaussian_blur",
    wgsl: concat!(
        include_str!("../../shaders/shared/flat_index.wgsl"),
        include_str!("../../shaders/gaussian_blur.wgsl")
    ),
    workgroup: [256, 1, 1],
    params: params_layout!(GaussianBlurParams: jobs),
    bindings: &[Binding::read_write("layers")],
};

/// Columns that a workgroup of the shader reads.
const COLUMNS: usize = 128;
/// Rows of what a workgroup of the shader blurs.
const TILE_ROWS: usize = 16;
/// Pixels of a column that a lane blurs at once.
const RUN_Y: usize = 8;
/// Lanes that share a row.
const LANES_A_ROW: usize = 16;

/// Columns of what a workgroup blurs with a radius.
const fn tile_columns(radius: usize) -> usize {
    (COLUMNS - 2 * radius) / LANES_A_ROW * LANES_A_ROW
}

/// A layer to blur.
#[derive(Clone, Debug)]
pub struct BlurJob {
    /// Width and height.
    pub size: [usize; 2],
    /// First values of the layer it reads and of the one it makes.
    pub layers: [usize; 2],
    /// First value of what gets every second pixel of every second row, if anything does.
    pub halved: Option<usize>,
    /// The filter.
    pub taps: GaussianTaps,
}

/// Ties the shader to one job or two, neither of which reads what the other writes, in `layers`; with its workgroups.
///
/// # Errors
/// The shader does not compile, or the device has no memory.
///
/// # Panics
/// There are more jobs.
pub fn bind(gpu: &Gpu, jobs: &[BlurJob], layers: &Buffer<f32>) -> Result<(Bound, [u32; 3]), DeviceError> {
    let radius = jobs.iter().map(|job| job.taps.radius).max().unwrap_or(1);
    let params = GaussianBlurParams::new(jobs, radius);
    let bound = gpu.kernel_of_text(&SHADER, &text(radius))?.bind(&params, &[layers])?;
    let n_tiles: u32 = params.jobs.iter().map(|job| job.n_tiles).sum();
    Ok((bound, SHADER.flat_groups(n_tiles as usize * SHADER.workgroup[0] as usize)))
}

/// The shader with its loops written out for a radius.
fn text(radius: usize) -> String {
    let columns = tile_columns(radius);
    let run_x = columns / LANES_A_ROW;
    let constants = [("RADIUS", 8, radius), ("TILE_COLUMNS", 112, columns), ("RUN_X", 7, run_x)];
    let text = constants.iter().fold(SHADER.wgsl.to_owned(), |text, (name, usual, value)| {
        text.replacen(&format!("const {name} = {usual}u;"), &format!("const {name} = {value}u;"), 1)
    });
    let bounds = [
        ("RADIUS", radius),
        ("RUN_Y", RUN_Y),
        ("SPAN_Y", RUN_Y + 2 * radius),
        ("RUN_X", run_x),
        ("SPAN_X", run_x + 2 * radius),
        ("OUTS", TILE_ROWS * COLUMNS / SHADER.workgroup[0] as usize),
    ];
    unrolled(text, &bounds)
}

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct GaussianBlurParams {
    jobs: [JobParams; 2],
}

/// A `BlurJob` as the shader has it.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct JobParams {
    taps: [[f32; 4]; MAX_RADIUS / 4 + 1],
    finer: u32,
    coarser: u32,
    halved: u32,
    width: u32,
    height: u32,
    tiles_a_row: u32,
    n_tiles: u32,
    is_halved: u32,
}

impl GaussianBlurParams {
    /// For tiles of the shader for `radius`.
    fn new(jobs: &[BlurJob], radius: usize) -> GaussianBlurParams {
        let mut params = GaussianBlurParams::default();
        for (params, BlurJob { size, layers, halved, taps }) in params.jobs[..jobs.len()].iter_mut().zip(jobs)
        {
            let tiles = [size[0].div_ceil(tile_columns(radius)), size[1].div_ceil(TILE_ROWS)];
            let mut all_taps = [[0.0; 4]; MAX_RADIUS / 4 + 1];
            all_taps.as_flattened_mut()[..=taps.radius].copy_from_slice(taps.one_side());
            *params = JobParams {
                taps: all_taps,
                finer: layers[0] as u32,
                coarser: layers[1] as u32,
                halved: halved.unwrap_or(0) as u32,
                width: size[0] as u32,
                height: size[1] as u32,
                tiles_a_row: tiles[0] as u32,
                n_tiles: (tiles[0] * tiles[1]) as u32,
                is_halved: halved.is_some() as u32,
            };
        }
        params
    }
}

/// Largest radius of a blur in pixels: sigma up to 8.
pub const MAX_RADIUS: usize = 32;

/// Pixels that are summed at once.
const SPAN: usize = 64;

/// One side of a symmetric filter, the centre first.
#[derive(Clone, Debug, PartialEq)]
pub struct GaussianTaps {
    radius: usize,
    taps: [f32; MAX_RADIUS + 1],
}

impl GaussianTaps {
    /// The taps of a Gaussian of `sigma` pixels, 0 < sigma <= 8.
    pub fn new(sigma: f64) -> Self {
        let radius = (libm::ceil(4.0 * sigma) as usize).clamp(1, MAX_RADIUS);
        let weight = |i: usize| libm::exp(-0.5 * (i as f64 / sigma) * (i as f64 / sigma));
        let sum = 1.0 + 2.0 * (1..=radius).map(weight).sum::<f64>();
        let mut taps = [0.0; MAX_RADIUS + 1];
        for (i, tap) in taps[..=radius].iter_mut().enumerate() {
            *tap = (weight(i) / sum) as f32;
        }
        GaussianTaps { radius, taps }
    }

    /// The centre's tap and those to one side.
    pub fn one_side(&self) -> &[f32] {
        &self.taps[..=self.radius]
    }

    /// Pixels to either side of the centre.
    pub fn radius(&self) -> usize {
        self.radius
    }
}

/// Writes the rows from `first_row` on of the blurred image to `target`. `scratch`: `width + 2 * MAX_RADIUS` values.
#[inline(always)]
pub fn gaussian_blur(
    source: &[f32],
    width: usize,
    height: usize,
    taps: &GaussianTaps,
    first_row: usize,
    scratch: &mut [f32],
    target: &mut [f32],
) {
    let radius = taps.radius;
    let padded = &mut scratch[..width + 2 * radius];
    for (block_row, target_row) in target.chunks_exact_mut(width).enumerate() {
        let mut rows = [&source[..0]; 2 * MAX_RADIUS + 1];
        for (i, row) in rows[..=2 * radius].iter_mut().enumerate() {
            let y = (first_row + block_row + i).saturating_sub(radius).min(height - 1);
            *row = &source[y * width..][..width];
        }
        filter_row(
            taps,
            #[inline(always)]
            |i| rows[i],
            &mut padded[radius..radius + width],
        );
        let (first, last) = (padded[radius], padded[radius + width - 1]);
        padded[..radius].fill(first);
        padded[radius + width..].fill(last);
        filter_row(
            taps,
            #[inline(always)]
            |i| &padded[i..i + width],
            target_row,
        );
    }
}

/// Filters a row; `source(i)` are the samples under tap `i - radius`, for all pixels of the row.
#[inline(always)]
fn filter_row<'a>(taps: &GaussianTaps, source: impl Fn(usize) -> &'a [f32], target: &mut [f32]) {
    let width = target.len();
    if width < SPAN {
        for x in 0..width {
            filter_span::<1>(taps, x, &source, target);
        }
        return;
    }
    // The last span overlaps the one before it, so that every span is full.
    for start in (0..width).step_by(SPAN) {
        filter_span::<SPAN>(taps, start.min(width - SPAN), &source, target);
    }
}

#[inline(always)]
fn filter_span<'a, const N: usize>(
    taps: &GaussianTaps,
    x: usize,
    source: impl Fn(usize) -> &'a [f32],
    target: &mut [f32],
) {
    let radius = taps.radius;
    let centre = &source(radius)[x..x + N];
    let mut sum = [0.0; N];
    for i in 0..N {
        sum[i] = taps.taps[0] * centre[i];
    }
    for t in 1..=radius {
        let (before, after) = (&source(radius - t)[x..x + N], &source(radius + t)[x..x + N]);
        for i in 0..N {
            sum[i] += taps.taps[t] * (before[i] + after[i]);
        }
    }
    target[x..x + N].copy_from_slice(&sum);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::validate;
    use crate::numerics::SplitMix64;

    fn blurred(source: &[f32], width: usize, height: usize, sigma: f64) -> Vec<f32> {
        let mut target = vec![0.0; source.len()];
        let mut scratch = vec![0.0; width + 2 * MAX_RADIUS];
        gaussian_blur(source, width, height, &GaussianTaps::new(sigma), 0, &mut scratch, &mut target);
        target
    }

    #[test]
    fn the_shader_is_valid_for_every_radius() {
        for radius in 1..=MAX_RADIUS {
            let text = text(radius);
            let columns = tile_columns(radius);
            for (name, value) in
                [("RADIUS", radius), ("TILE_COLUMNS", columns), ("RUN_X", columns / LANES_A_ROW)]
            {
                assert!(text.contains(&format!("const {name} = {value}u;")), "{name} for radius {radius}");
            }
            assert!(!text.contains("// unroll"));
            validate(&text).unwrap_or_else(|error| panic!("radius {radius}: {error}"));
        }
    }

    #[test]
    fn an_impulse_becomes_a_gaussian_of_sigma_where_it_was() {
        for (width, sigma) in [(97, 1.2), (97, 3.1), (31, 1.6)] {
            let (x, y, height) = (width / 2, 33, 71);
            let mut source = vec![0.0; width * height];
            source[y * width + x] = 1.0;
            let target = blurred(&source, width, height, sigma);
            let moment = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
                let at = |i: usize| f((i % width) as f64 - x as f64, (i / width) as f64 - y as f64);
                target.iter().enumerate().map(|(i, v)| *v as f64 * at(i)).sum()
            };
            assert!((moment(&|_, _| 1.0) - 1.0).abs() < 1e-5);
            assert!(moment(&|dx, _| dx).abs() < 1e-5 && moment(&|_, dy| dy).abs() < 1e-5);
            for variance in [moment(&|dx, _| dx * dx), moment(&|_, dy| dy * dy)] {
                assert!((variance / (sigma * sigma) - 1.0).abs() < 0.01, "{variance} for sigma {sigma}");
            }
        }
    }

    #[test]
    fn borders_are_clamped_at_any_width() {
        let mut rng = SplitMix64::new(3, 0);
        for (width, height) in [(1, 1), (5, 3), (33, 40), (100, 9)] {
            let source: Vec<f32> = (0..width * height).map(|_| rng.unit() as f32).collect();
            let taps = GaussianTaps::new(2.5);
            let target = blurred(&source, width, height, 2.5);
            let radius = taps.radius() as isize;
            for (i, value) in target.iter().enumerate() {
                let mut sum = 0.0;
                for dy in -radius..=radius {
                    for dx in -radius..=radius {
                        let x = (i % width).saturating_add_signed(dx).min(width - 1);
                        let y = (i / width).saturating_add_signed(dy).min(height - 1);
                        let weight = taps.taps[dx.unsigned_abs()] * taps.taps[dy.unsigned_abs()];
                        sum += weight as f64 * source[y * width + x] as f64;
                    }
                }
                assert!((*value as f64 - sum).abs() < 1e-6);
            }
        }
    }
}
