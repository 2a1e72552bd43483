//! A slow and clear pyramidal Lucas-Kanade tracker in f64, straight from the papers: Bouguet 2000 for the pyramid,
//! Baker and Matthews 2004 for the inverse compositional step. One point, one direction.

use trackweave::klt::KltOptions;
use trackweave::picture::GrayImage;

use super::klt_scene::bilinear;

/// Levels of an image, the finest first.
pub fn pyramid(image: &GrayImage, levels: usize) -> Vec<GrayImage> {
    let mut pyramid = vec![image.clone()];
    while pyramid.len() < levels {
        pyramid.push(halved(&pyramid[pyramid.len() - 1]));
    }
    pyramid
}

fn halved(image: &GrayImage) -> GrayImage {
    const TAPS: [f64; 5] = [1.0 / 16.0, 4.0 / 16.0, 6.0 / 16.0, 4.0 / 16.0, 1.0 / 16.0];
    super::klt_scene::from_function(image.width.div_ceil(2), image.height.div_ceil(2), |x, y| {
        let mut sum = 0.0;
        for (i, a) in TAPS.iter().enumerate() {
            for (j, b) in TAPS.iter().enumerate() {
                sum +=
                    a * b * bilinear(image, 2.0 * x as f64 + i as f64 - 2.0, 2.0 * y as f64 + j as f64 - 2.0);
            }
        }
        sum as f32
    })
}

/// Scharr gradient at an integer pixel.
fn gradient(image: &GrayImage, x: f64, y: f64) -> [f64; 2] {
    let x = x.clamp(0.0, image.width as f64 - 1.0);
    let y = y.clamp(0.0, image.height as f64 - 1.0);
    let at = |dx: f64, dy: f64| bilinear(image, x + dx, y + dy);
    let mut sums = [0.0; 2];
    for (offset, weight) in [(-1.0, 3.0), (0.0, 10.0), (1.0, 3.0)] {
        sums[0] += weight / 32.0 * (at(1.0, offset) - at(-1.0, offset));
        sums[1] += weight / 32.0 * (at(offset, 1.0) - at(offset, -1.0));
    }
    sums
}

/// The gradient image read bilinearly.
fn gradient_between(image: &GrayImage, x: f64, y: f64) -> [f64; 2] {
    let (x0, y0) = (x.floor(), y.floor());
    let (ax, ay) = (x - x0, y - y0);
    let corners = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)];
    let mut sum = [0.0; 2];
    for (dx, dy) in corners {
        let weight = (if dx == 0.0 { 1.0 - ax } else { ax }) * (if dy == 0.0 { 1.0 - ay } else { ay });
        let [gx, gy] = gradient(image, x0 + dx, y0 + dy);
        sum = [sum[0] + weight * gx, sum[1] + weight * gy];
    }
    sum
}

/// The offsets of a window's samples from its centre.
fn window(options: &KltOptions) -> Vec<[f64; 2]> {
    let half = (options.window_px / 2) as i32;
    (-half..=half).flat_map(|y| (-half..=half).map(move |x| [x as f64, y as f64])).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn without_mean(values: &[f64]) -> Vec<f64> {
    let mean = mean(values);
    values.iter().map(|v| v - mean).collect()
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// Where the point goes and whether the last step at level 0 was short, by `photometric` 2.
pub fn track(
    template: &[GrayImage],
    target: &[GrayImage],
    options: &KltOptions,
    point: [f32; 2],
) -> ([f64; 2], bool) {
    let samples = window(options);
    let read = |image: &GrayImage, [x, y]: [f64; 2]| -> Vec<f64> {
        samples.iter().map(|[dx, dy]| bilinear(image, x + dx, y + dy)).collect()
    };
    let mut d = [0.0, 0.0];
    let mut converged = false;
    for level in (0..template.len()).rev() {
        d = [2.0 * d[0], 2.0 * d[1]];
        let u = point.map(|v| v as f64 / f64::powi(2.0, level as i32));
        let t = without_mean(&read(&template[level], u));
        let g: Vec<_> =
            samples.iter().map(|[dx, dy]| gradient_between(&template[level], u[0] + dx, u[1] + dy)).collect();
        let sum = |f: &dyn Fn([f64; 2]) -> f64| g.iter().map(|&g| f(g)).sum::<f64>();
        let (xx, xy, yy) = (sum(&|g| g[0] * g[0]), sum(&|g| g[0] * g[1]), sum(&|g| g[1] * g[1]));
        for _ in 0..options.max_iterations {
            let j = without_mean(&read(&target[level], [u[0] + d[0], u[1] + d[1]]));
            let gain = norm(&t) / norm(&j);
            let (mut bx, mut by) = (0.0, 0.0);
            for i in 0..samples.len() {
                let difference = t[i] - gain * j[i];
                bx += difference * g[i][0];
                by += difference * g[i][1];
            }
            let determinant = xx * yy - xy * xy;
            let step = [(yy * bx - xy * by) / determinant, (xx * by - xy * bx) / determinant];
            d = [d[0] + step[0], d[1] + step[1]];
            converged = step[0].hypot(step[1]) < options.epsilon_px as f64;
            if converged {
                break;
            }
        }
    }
    ([point[0] as f64 + d[0], point[1] as f64 + d[1]], converged)
}
