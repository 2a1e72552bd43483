//! What a camera does to the pictures it takes: motion blur, exposure that changes, noise. All of it works on the
//! display values 0..=255, without a response curve.

use image::RgbImage;
use rayon::prelude::*;
use serde::Deserialize;

use super::{Intrinsics, Pose, Scene};
use crate::numerics::SplitMix64;

/// Renders that an exposure with an open shutter is the mean of: odd, so that one is at the frame's own time.
const SUBFRAMES: usize = 9;

/// The effects on a video's pictures. The default has none: it gives what `Scene::render` gives.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Film {
    /// Seconds the shutter is open, the frame's time in their middle, so that the frame's pose stays the true one. Longer
    /// blurs more.
    pub shutter_s: f64,
    /// Factor on the brightness every second, above 0: an exposure that drifts. 1 keeps it.
    pub gain_a_second: f64,
    /// The gain of each frame is drawn evenly from 1 - this to 1 + this: an automatic exposure that hunts. 0..=1.
    pub gain_jitter: f64,
    /// Levels added to a whole frame, drawn evenly from minus this to plus this.
    pub offset_jitter: f64,
    /// Standard deviation of the noise in levels, normal, the same in red, green and blue.
    pub noise: f64,
    /// Seed of all that is drawn.
    pub seed: u64,
}

impl Default for Film {
    fn default() -> Film {
        Film { shutter_s: 0.0, gain_a_second: 1.0, gain_jitter: 0.0, offset_jitter: 0.0, noise: 0.0, seed: 1 }
    }
}

impl Film {
    /// The picture of frame `frame` at `frame` / `fps` seconds by a camera whose pose at a time in seconds `pose_at` tells.
    /// The same on any number of threads.
    pub fn expose(
        &self,
        scene: &Scene,
        intrinsics: &Intrinsics,
        pose_at: impl Fn(f64) -> Pose,
        frame: usize,
        fps: f64,
    ) -> RgbImage {
        let seconds = frame as f64 / fps;
        let n_subframes = if self.shutter_s > 0.0 { SUBFRAMES } else { 1 };
        let mut sums = vec![0u16; 3 * (intrinsics.width * intrinsics.height) as usize];
        for subframe in 0..n_subframes {
            let share = (subframe as f64 + 0.5) / n_subframes as f64 - 0.5;
            let render = scene.render(&pose_at(seconds + share * self.shutter_s), intrinsics);
            sums.iter_mut().zip(render.as_raw()).for_each(|(sum, &value)| *sum += value as u16);
        }
        let (gain, offset) = self.exposure(frame, seconds);
        let scale = gain / n_subframes as f64;
        let mut picture = RgbImage::new(intrinsics.width, intrinsics.height);
        let row_len = 3 * intrinsics.width.max(1) as usize;
        picture.par_chunks_mut(row_len).zip(sums.par_chunks(row_len)).enumerate().for_each(
            |(row, (pixels, sums))| {
                let mut rng = SplitMix64::new(self.seed, (frame as u64) << 32 | row as u64);
                for (pixel, sums) in pixels.chunks_exact_mut(3).zip(sums.chunks_exact(3)) {
                    let noise = if self.noise > 0.0 { self.noise * normal(&mut rng) } else { 0.0 };
                    for (value, &sum) in pixel.iter_mut().zip(sums) {
                        *value = (sum as f64 * scale + offset + noise).round().clamp(0.0, 255.0) as u8;
                    }
                }
            },
        );
        picture
    }

    /// Gain and offset in levels of a frame.
    fn exposure(&self, frame: usize, seconds: f64) -> (f64, f64) {
        let mut rng = SplitMix64::new(self.seed, (frame as u64) << 32 | u32::MAX as u64);
        let mut around_zero = || 2.0 * rng.unit() - 1.0;
        let gain = libm::pow(self.gain_a_second, seconds) * (1.0 + self.gain_jitter * around_zero());
        (gain, self.offset_jitter * around_zero())
    }
}

/// A number with mean 0 and deviation 1 (Box and Muller 1958).
fn normal(rng: &mut SplitMix64) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(1.0 - rng.unit()));
    radius * libm::cos(std::f64::consts::TAU * rng.unit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::CameraPath;

    const FPS: f64 = 10.0;

    fn shot(film: &Film, path: CameraPath, frame: usize) -> Vec<f64> {
        let intrinsics = Intrinsics::centered(96, 54);
        let picture = film.expose(&Scene::demo(), &intrinsics, |seconds| path.at(seconds), frame, FPS);
        picture.into_raw().into_iter().map(f64::from).collect()
    }

    fn sharp(path: CameraPath, seconds: f64) -> Vec<f64> {
        let picture = Scene::demo().render(&path.at(seconds), &Intrinsics::centered(96, 54));
        picture.into_raw().into_iter().map(f64::from).collect()
    }

    fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
        let n = values.len() as f64;
        values.sum::<f64>() / n
    }

    #[test]
    fn without_effects_it_is_the_render() {
        assert_eq!(shot(&Film::default(), CameraPath::HandHeld, 3), sharp(CameraPath::HandHeld, 0.3));
    }

    #[test]
    fn an_open_shutter_takes_the_mean_about_the_frames_time() {
        let film = Film { shutter_s: 0.09, ..Film::default() };
        assert_eq!(shot(&film, CameraPath::Still, 2), sharp(CameraPath::Still, 0.2));
        let renders: Vec<_> = (-4..=4).map(|k| sharp(CameraPath::FastPan, 0.2 + 0.01 * k as f64)).collect();
        let blurred = shot(&film, CameraPath::FastPan, 2);
        for (i, value) in blurred.iter().enumerate() {
            let expected = mean(renders.iter().map(|render| render[i]));
            assert!((value - expected).abs() <= 0.5 + 1e-9, "value {i}: {value}, {expected}");
        }
        let unlike =
            blurred.iter().zip(sharp(CameraPath::FastPan, 0.2)).filter(|(a, b)| (*a - b).abs() > 10.0);
        assert!(unlike.count() > blurred.len() / 20, "a pan blurs");
    }

    #[test]
    fn noise_has_its_deviation_and_repeats() {
        let film = Film { noise: 6.0, ..Film::default() };
        let clean = sharp(CameraPath::Still, 0.0);
        let noisy = shot(&film, CameraPath::Still, 1);
        // Where neither end of the range clips.
        let inside: Vec<usize> =
            (0..clean.len()).step_by(3).filter(|&i| (40.0..215.0).contains(&clean[i])).collect();
        assert!(inside.len() > 2000);
        let average = mean(inside.iter().map(|&i| noisy[i] - clean[i]));
        let deviation = mean(inside.iter().map(|&i| (noisy[i] - clean[i]).powi(2))).sqrt();
        assert!(average.abs() < 0.5 && (deviation - 6.0).abs() < 0.4, "{average}, {deviation}");
        assert_eq!(noisy, shot(&film, CameraPath::Still, 1));
        assert_ne!(noisy, shot(&film, CameraPath::Still, 2));
        assert_ne!(noisy, shot(&Film { seed: 2, ..film }, CameraPath::Still, 1));
    }

    #[test]
    fn exposure_drifts_and_hunts() {
        let clean = sharp(CameraPath::Still, 0.0);
        let dim = shot(&Film { gain_a_second: 0.5, ..Film::default() }, CameraPath::Still, 20);
        assert!(clean.iter().zip(&dim).all(|(a, b)| (a / 4.0 - b).abs() <= 0.5));
        let film = Film { gain_jitter: 0.2, offset_jitter: 12.0, ..Film::default() };
        let exposures: Vec<_> = (0..200).map(|frame| film.exposure(frame, 0.0)).collect();
        let range = |values: Vec<f64>| {
            values.iter().fold((f64::MAX, f64::MIN), |(low, high), &v| (low.min(v), high.max(v)))
        };
        let (low, high) = range(exposures.iter().map(|e| e.0).collect());
        assert!((0.8..0.82).contains(&low) && (1.18..1.2).contains(&high), "{low}..{high}");
        let (low, high) = range(exposures.iter().map(|e| e.1).collect());
        assert!((-12.0..-11.5).contains(&low) && (11.5..12.0).contains(&high), "{low}..{high}");
        let (gain, offset) = exposures[7];
        for (a, b) in clean.iter().zip(shot(&film, CameraPath::Still, 7)) {
            assert!(((gain * a + offset).clamp(0.0, 255.0) - b).abs() <= 0.5 + 1e-9);
        }
    }
}
