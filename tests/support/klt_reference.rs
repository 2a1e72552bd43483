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

/// The gray at an integer pixel, the nearest of the border where there is none.
fn gray(image: &GrayImage, x: i64, y: i64) -> f64 {
    bilinear(image, x as f64, y as f64)
}

/// Scharr gradient at an integer pixel, zero where there is none.
fn gradient(image: &GrayImage, x: i64, y: i64) -> [f64; 2] {
    if x < 0 || y < 0 || x >= image.width as i64 || y >= image.height as i64 {
        return [0.0; 2];
    }
    let mut sums = [0.0; 2];
    for (offset, weight) in [(-1, 3.0), (0, 10.0), (1, 3.0)] {
        sums[0] += weight / 32.0 * (gray(image, x + 1, y + offset) - gray(image, x - 1, y + offset));
        sums[1] += weight / 32.0 * (gray(image, x + offset, y + 1) - gray(image, x + offset, y - 1));
    }
    sums
}

/// The quadratic B-spline.
fn spline(distance: f64) -> f64 {
    let d = distance.abs();
    if d < 0.5 { 0.75 - d * d } else { 0.5 * (1.5 - d).max(0.0).powi(2) }
}

/// A picture between its pixels: the sum of splines, one about every pixel.
fn between<const N: usize>(pixel: impl Fn(i64, i64) -> [f64; N], x: f64, y: f64) -> [f64; N] {
    let mut sum = [0.0; N];
    for row in y as i64 - 3..=y as i64 + 3 {
        for column in x as i64 - 3..=x as i64 + 3 {
            let weight = spline(x - column as f64) * spline(y - row as f64);
            if weight > 0.0 {
                let value = pixel(column, row);
                (0..N).for_each(|i| sum[i] += weight * value[i]);
            }
        }
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
    let reach = (options.window_px / 2 + 1) as f64;
    let across = |d: f64| 1.0 - (d / reach).powi(2);
    let weights: Vec<f64> = samples.iter().map(|[dx, dy]| across(*dx) * across(*dy)).collect();
    let read = |image: &GrayImage, [x, y]: [f64; 2]| -> Vec<f64> {
        samples.iter().map(|[dx, dy]| between(|x, y| [gray(image, x, y)], x + dx, y + dy)[0]).collect()
    };
    let mut d = [0.0, 0.0];
    let mut converged = false;
    for level in (0..template.len()).rev() {
        d = [2.0 * d[0], 2.0 * d[1]];
        let u = point.map(|v| v as f64 / f64::powi(2.0, level as i32));
        let t = without_mean(&read(&template[level], u));
        let gradients = samples
            .iter()
            .map(|[dx, dy]| between(|x, y| gradient(&template[level], x, y), u[0] + dx, u[1] + dy));
        let g: Vec<_> = gradients.collect();
        let sum = |f: &dyn Fn([f64; 2]) -> f64| g.iter().zip(&weights).map(|(&g, w)| w * f(g)).sum::<f64>();
        let (xx, xy, yy) = (sum(&|g| g[0] * g[0]), sum(&|g| g[0] * g[1]), sum(&|g| g[1] * g[1]));
        for _ in 0..options.max_iterations {
            let j = without_mean(&read(&target[level], [u[0] + d[0], u[1] + d[1]]));
            let gain = norm(&t) / norm(&j);
            let (mut bx, mut by) = (0.0, 0.0);
            for i in 0..samples.len() {
                let difference = weights[i] * (t[i] - gain * j[i]);
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
