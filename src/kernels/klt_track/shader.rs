//! The shader: forward, backward and the check in one dispatch, made for one window and for what the adapter can do.

use super::super::pyramid_down::PyramidShape;
use super::super::unroll::unrolled;
use super::TrackParams;
use super::window::weights;
use crate::device::{Binding, Buffer, DeviceError, Gpu, Kernel, KernelSource, params_layout};
use crate::klt::{KltOptions, MAX_WINDOW_PX};
use crate::numerics::fold16;

/// Lanes of a track, a workgroup, on any adapter.
const LANES: usize = 16;
/// Lanes of a track where it has a subgroup.
const SUBGROUP: usize = 32;

const ROWS: &str = include_str!("../../../shaders/shared/klt_rows.wgsl");
const COLUMNS: &str = include_str!("../../../shaders/shared/klt_columns.wgsl");

/// The shader for a window of 15 on any adapter.
pub const SHADER: KernelSource = KernelSource {
    name: "klt_track",
    wgsl: concat!(
        "const WINDOW = 15u;\n",
        include_str!("../../../shaders/shared/pyramid.wgsl"),
        include_str!("../../../shaders/shared/taps.wgsl"),
        include_str!("../../../shaders/shared/min_eigenvalue.wgsl"),
        include_str!("../../../shaders/shared/track_record.wgsl"),
        include_str!("../../../shaders/shared/checked_record.wgsl"),
        include_str!("../../../shaders/shared/klt_rows.wgsl"),
        include_str!("../../../shaders/klt_track.wgsl")
    ),
    workgroup: [LANES as u32, 1, 1],
    params: params_layout!(
        KltTrackParams: shape, first, n_tracks, n_records, n_levels, previous, frame_len, count, max_iterations,
        photometric, epsilon_px, min_eigen, total_weight, forward_backward_px, min_ncc, infinity
    ),
    bindings: &[
        Binding::read("weights"),
        Binding::read("gray"),
        Binding::read("gradient_x"),
        Binding::read("gradient_y"),
        Binding::read("starts"),
        Binding::read_write("records"),
    ],
};

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct KltTrackParams {
    /// All levels of either frame.
    pub shape: PyramidShape,
    /// First track.
    pub first: u32,
    /// Tracks from there on, 1 or more.
    pub n_tracks: u32,
    /// Records of each of the three runs.
    pub n_records: u32,
    /// Levels of the pyramids.
    pub n_levels: u32,
    /// The frame, 0 or 1, that the tracks start in.
    pub previous: u32,
    /// Pixels of a frame's pyramid.
    pub frame_len: u32,
    /// Samples of a window. The shader knows them too, but compilers multiply by the reciprocal of a constant.
    pub count: f32,
    /// As in `TrackParams`.
    pub max_iterations: u32,
    /// As in `TrackParams`.
    pub photometric: u32,
    /// As in `TrackParams`.
    pub epsilon_px: f32,
    /// As in `TrackParams`.
    pub min_eigen: f32,
    /// Sum of the window's weights.
    pub total_weight: f32,
    /// Longest way back from the start that counts as a return.
    pub forward_backward_px: f32,
    /// Smallest correlation.
    pub min_ncc: f32,
    /// `f32::INFINITY`, which the shader language cannot say.
    pub infinity: f32,
}

impl KltTrackParams {
    /// For tracks `first` to `first + n_tracks` of `n_records` from frame `previous` to the other, both of
    /// `width` x `height`.
    pub fn new(
        options: &KltOptions,
        [width, height]: [usize; 2],
        previous: usize,
        first: usize,
        n_tracks: usize,
        n_records: usize,
    ) -> KltTrackParams {
        let shape = PyramidShape::new(width, height, options.levels as usize);
        let TrackParams { window_px, max_iterations, epsilon_px, min_eigen, photometric } =
            options.track_params();
        KltTrackParams {
            shape,
            first: first as u32,
            n_tracks: n_tracks as u32,
            n_records: n_records as u32,
            n_levels: options.levels,
            previous: previous as u32,
            frame_len: shape.pixels() as u32,
            count: (window_px * window_px) as f32,
            max_iterations,
            photometric,
            epsilon_px,
            min_eigen,
            total_weight: total_weight(window_px),
            forward_backward_px: options.forward_backward_px,
            min_ncc: options.min_ncc,
            infinity: f32::INFINITY,
        }
    }

    /// Workgroups for the tracks.
    pub fn groups(&self) -> [u32; 3] {
        [self.n_tracks, 1, 1]
    }
}

const MOST_CHUNKS: usize = chunks(MAX_WINDOW_PX as usize);

fn total_weight(window_px: usize) -> f32 {
    let mut total = [0.0; 16];
    for chunk in weights::<MOST_CHUNKS>(window_px) {
        for lane in 0..16 {
            total[lane] += chunk[lane];
        }
    }
    fold16(total)
}

/// What the samples of a window of `window_px` count, up to a multiple of sixteen.
pub fn weights_on_device(gpu: &Gpu, window_px: usize) -> Result<Buffer<f32>, DeviceError> {
    let used = LANES * chunks(window_px);
    gpu.buffer_with("weights", &weights::<MOST_CHUNKS>(window_px).as_flattened()[..used])
}

/// The kernel for a window of `window_px`: a column a lane where the adapter's subgroups hold it, else rows in workgroup
/// memory.
///
/// # Errors
/// The window needs more workgroup memory than the adapter has, or the shader does not compile.
pub fn kernel(gpu: &Gpu, window_px: usize) -> Result<Kernel, DeviceError> {
    if gpu.smallest_subgroup().is_some_and(|size| size >= SUBGROUP) && window_px <= SUBGROUP {
        return gpu.kernel_of_text(&SHADER, &text_by_columns(window_px));
    }
    gpu.check_workgroup_memory(SHADER.name, workgroup_bytes(window_px))?;
    gpu.kernel_of_text(&SHADER, &text_by_rows(window_px))
}

/// Chunks of sixteen samples of a window.
const fn chunks(window_px: usize) -> usize {
    (window_px * window_px).div_ceil(LANES)
}

fn text_by_rows(window_px: usize) -> String {
    SHADER.wgsl.replacen("WINDOW = 15u", &format!("WINDOW = {window_px}u"), 1)
}

fn text_by_columns(window_px: usize) -> String {
    let span = window_px.next_power_of_two();
    let band_rows = window_px.div_ceil(SUBGROUP / span);
    let constants =
        format!("const WINDOW = {window_px}u;\nconst SPAN = {span}u;\nconst BAND_ROWS = {band_rows}u;");
    let text = SHADER.wgsl.replacen("const WINDOW = 15u;", &constants, 1).replacen(ROWS, COLUMNS, 1);
    unrolled(text, &[("BAND_ROWS", band_rows)])
}

/// Bytes of `rows`, and of what the sums and the lanes' agreement go through.
fn workgroup_bytes(window_px: usize) -> usize {
    let rows = LANES * chunks(window_px) + 2 * window_px + LANES;
    rows * size_of::<f32>() + 16 * LANES + 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::validate;

    #[test]
    fn both_forms_are_valid_for_every_window() {
        for (text, is_by_columns) in [(text_by_rows(21), false), (text_by_columns(21), true)] {
            assert_eq!(text.contains("subgroupShuffleXor"), is_by_columns);
        }
        for window_px in (3..=MAX_WINDOW_PX as usize).step_by(2) {
            let columns = (window_px <= SUBGROUP).then(|| text_by_columns(window_px));
            for text in [Some(text_by_rows(window_px)), columns].into_iter().flatten() {
                assert!(!text.contains("// unroll"));
                validate(&text).unwrap_or_else(|error| panic!("window {window_px}: {error}"));
            }
        }
    }
}
