//! The alignment of a patch about a seed, slow and clear, in f64: the inverse compositional algorithm of Baker and
//! Matthews 2004 with an affine warp as a 3 x 3 matrix. Gain and offset are two more unknowns of every step.

use nalgebra::{DMatrix, DVector, Matrix3, RowDVector, Vector3};
use trackweave::picture::GrayImage;

/// The window's size, what its samples count and when a step is the last.
pub struct Patch {
    pub window_px: i64,
    pub max_iterations: usize,
    pub epsilon_px: f64,
}

/// The warp of `target` after steps from `start`, warps of offsets from `seed`; none where they do not settle.
pub fn align(
    patch: &Patch,
    template: &GrayImage,
    seed: [f64; 2],
    target: &GrayImage,
    start: Matrix3<f64>,
) -> Option<Matrix3<f64>> {
    let half = patch.window_px / 2;
    let offsets: Vec<[f64; 2]> =
        (-half..=half).flat_map(|y| (-half..=half).map(move |x| [x as f64, y as f64])).collect();
    let mut warp = start;
    let mut before = [0.0; 2];
    for _ in 0..patch.max_iterations {
        let step = step(patch, template, seed, target, &warp, &offsets)?;
        let turns_back = step[0] * before[0] + step[1] * before[1] < 0.0;
        let length = if turns_back { 0.5 } else { 1.0 };
        before = [length * step[0], length * step[1]];
        let moved = Matrix3::new(step[2], step[3], step[0], step[4], step[5], step[1], 0.0, 0.0, 0.0);
        warp *= (Matrix3::identity() + length * moved).try_inverse()?;
        let rim = half as f64;
        let squared = step[0] * step[0] + step[1] * step[1] + rim * rim * step.rows(2, 4).norm_squared();
        if squared.sqrt() < patch.epsilon_px {
            return Some(warp);
        }
    }
    None
}

/// The increment of the warp of the template that explains the window, by weighted least squares over the samples that
/// the picture shows: J = a (T + D step) + b.
fn step(
    patch: &Patch,
    template: &GrayImage,
    seed: [f64; 2],
    target: &GrayImage,
    warp: &Matrix3<f64>,
    offsets: &[[f64; 2]],
) -> Option<DVector<f64>> {
    let (mut rows, mut shown, mut right, mut gray) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for &[x, y] in offsets {
        let place = warp * Vector3::new(x, y, 1.0);
        let weight = weight(patch, x) * weight(patch, y);
        let (at_x, at_y) = (seed[0] + x, seed[1] + y);
        let value = between(at_x, at_y, |x, y| pixel(template, x, y));
        let [gx, gy] = [0, 1].map(|axis| between(at_x, at_y, |x, y| gradient(template, x, y)[axis]));
        rows.push(RowDVector::from_vec(vec![gx, gy, x * gx, y * gx, x * gy, y * gy, value, 1.0]));
        gray.push(value);
        right.push(between(place.x, place.y, |x, y| pixel(target, x, y)));
        let inside = |at: f64, size: usize| at >= -0.5 && at <= size as f64 - 0.5;
        let is_shown = inside(place.x, target.width) && inside(place.y, target.height);
        shown.push(if is_shown { weight } else { 0.0 });
    }
    let weights = DVector::from_vec(shown);
    let (gray, right) = (DVector::from_vec(gray), DVector::from_vec(right));
    let gain = covariance(&weights, &gray, &right) / covariance(&weights, &gray, &gray);
    let columns = DMatrix::from_rows(&rows);
    let weighted = DMatrix::from_diagonal(&weights) * &columns;
    let unknowns = (columns.transpose() * &weighted).lu().solve(&(weighted.transpose() * right))?;
    Some(unknowns.rows(0, 6) / gain)
}

fn covariance(weights: &DVector<f64>, a: &DVector<f64>, b: &DVector<f64>) -> f64 {
    let mean = |values: &DVector<f64>| values.dot(weights) / weights.sum();
    (a.add_scalar(-mean(a))).component_mul(&b.add_scalar(-mean(b))).dot(weights)
}

/// Of Tomasi and Kanade 1991: 1 at the centre, 0 a pixel beyond the rim.
fn weight(patch: &Patch, offset: f64) -> f64 {
    let u = offset / (patch.window_px / 2 + 1) as f64;
    1.0 - u * u
}

/// The pixel, the nearest of the border where there is none.
fn pixel(image: &GrayImage, x: i64, y: i64) -> f64 {
    let (x, y) = (x.clamp(0, image.width as i64 - 1), y.clamp(0, image.height as i64 - 1));
    image.data[y as usize * image.width + x as usize] as f64
}

/// Scharr's, zero where there is no pixel.
fn gradient(image: &GrayImage, x: i64, y: i64) -> [f64; 2] {
    if x < 0 || y < 0 || x >= image.width as i64 || y >= image.height as i64 {
        return [0.0; 2];
    }
    let across = [(-1, 3.0 / 32.0), (0, 10.0 / 32.0), (1, 3.0 / 32.0)];
    [
        across.iter().map(|(i, w)| w * (pixel(image, x + 1, y + i) - pixel(image, x - 1, y + i))).sum(),
        across.iter().map(|(i, w)| w * (pixel(image, x + i, y + 1) - pixel(image, x + i, y - 1))).sum(),
    ]
}

/// The sum of quadratic B-splines, one about every pixel.
fn between(x: f64, y: f64, pixel: impl Fn(i64, i64) -> f64) -> f64 {
    let spline = |distance: f64| match distance.abs() {
        d if d < 0.5 => 0.75 - d * d,
        d => 0.5 * (1.5 - d).max(0.0).powi(2),
    };
    let near = |at: f64| at.floor() as i64 - 2..=at.floor() as i64 + 3;
    let row = |j: i64| near(x).map(|i| spline(x - i as f64) * pixel(i, j)).sum::<f64>();
    near(y).map(|j| spline(y - j as f64) * row(j)).sum()
}
