//! Records of tracks.

use image::RgbImage;
use trackweave::device::{AnyBuffer, Gpu};
use trackweave::kernels::klt_check::{self, KltCheckParams};
use trackweave::kernels::klt_track::TrackRecord;
use trackweave::message::EndReason;
use trackweave::numerics::SplitMix64;

use crate::Outcome;
use crate::comparison::{Cpu, Dev, compare};

/// As many tracks as the picture is wide: returns near the limit, every reason, no way back.
pub fn klt_check(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let n_tracks = picture.width() as usize;
    let mut rng = SplitMix64::new(11, n_tracks as u64);
    let mut record = |around: Option<TrackRecord>| {
        let centre = around.map_or([300.0, 200.0], |seed| [seed.x, seed.y]);
        let spread = if around.is_some() { 1.0 } else { 400.0 };
        let [x, y] = centre.map(|centre| centre + spread * (rng.unit() as f32 - 0.5));
        let reason = EndReason::from_number(rng.below(20) as u8);
        TrackRecord::new(x, y, rng.unit() as f32, reason, rng.below(256))
    };
    let seeds: Vec<TrackRecord> = (0..n_tracks).map(|_| record(None)).collect();
    let forward: Vec<TrackRecord> = (0..n_tracks).map(|_| record(None)).collect();
    let backward: Vec<TrackRecord> = seeds.iter().map(|&seed| record(Some(seed))).collect();
    let mut expected = vec![TrackRecord::default(); n_tracks];
    klt_check::klt_check(&seeds, &forward, &backward, 0.4, 0.3, &mut expected);
    let checked = gpu.buffer::<TrackRecord>("checked", n_tracks)?;
    let params = KltCheckParams {
        n_tracks: n_tracks as u32,
        forward_backward_px: 0.4,
        min_ncc: 0.3,
        infinity: f32::INFINITY,
    };
    let seeds = gpu.buffer_with("seeds", &seeds)?;
    let forward = gpu.buffer_with("forward", &forward)?;
    let backward = gpu.buffer_with("backward", &backward)?;
    let buffers: [&dyn AnyBuffer; 4] = [&seeds, &forward, &backward, &checked];
    let bound = gpu.kernel(&klt_check::SHADER, &[])?.bind(&params, &buffers)?;
    let mut recording = gpu.record("klt_check");
    recording.dispatch(&bound, klt_check::SHADER.groups([n_tracks, 1, 1]));
    recording.submit()?.wait()?;
    let found = gpu.download(&checked)?;
    compare(gpu, "checked", Dev(bytemuck::cast_slice(&found)), Cpu(bytemuck::cast_slice(&expected)), 1e-5)
}
