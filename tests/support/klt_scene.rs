//! The frozen synthetic scene of the tracker's tests: random Gaussians and a smooth checker, warped bilinearly.

use trackweave::numerics::SplitMix64;
use trackweave::picture::GrayImage;

/// 640 x 360, 400 Gaussians.
pub fn scene() -> GrayImage {
    textured(640, 360, 400, 1)
}

/// Gray 0.5, `n_gaussians` of random place, size (sigma 3 to 12 px) and sign, a checker of period 11 px.
pub fn textured(width: usize, height: usize, n_gaussians: usize, seed: u64) -> GrayImage {
    let mut rng = SplitMix64::new(seed, 0);
    let mut image = from_function(width, height, |x, y| {
        let wave = std::f32::consts::TAU / 11.0;
        0.5 + 0.07 * (wave * x).sin() * (wave * y).sin()
    });
    for _ in 0..n_gaussians {
        let (cx, cy) = (rng.unit() as f32 * width as f32, rng.unit() as f32 * height as f32);
        let sigma = 3.0 + 9.0 * rng.unit() as f32;
        let amplitude = 0.5 * rng.unit() as f32 - 0.25;
        add_gaussian(&mut image, [cx, cy], sigma, amplitude);
    }
    for value in &mut image.data {
        *value = value.clamp(0.0, 1.0);
    }
    image
}

/// Samples `value` at every pixel.
pub fn from_function(width: usize, height: usize, value: impl Fn(f32, f32) -> f32) -> GrayImage {
    let mut image = GrayImage::new(width, height);
    for (i, pixel) in image.data.iter_mut().enumerate() {
        *pixel = value((i % width) as f32, (i / width) as f32);
    }
    image
}

fn add_gaussian(image: &mut GrayImage, [cx, cy]: [f32; 2], sigma: f32, amplitude: f32) {
    let reach = 4.0 * sigma;
    let from = |c: f32| (c - reach).max(0.0) as usize;
    for y in from(cy)..((cy + reach) as usize).min(image.height) {
        for x in from(cx)..((cx + reach) as usize).min(image.width) {
            let r2 = (x as f32 - cx).powi(2) + (y as f32 - cy).powi(2);
            image.data[y * image.width + x] += amplitude * (-r2 / (2.0 * sigma * sigma)).exp();
        }
    }
}

/// The value at a non-integer place, clamped to the border.
pub fn bilinear(image: &GrayImage, x: f64, y: f64) -> f64 {
    let (x0, y0) = (x.floor(), y.floor());
    let (ax, ay) = (x - x0, y - y0);
    let at = |column: f64, row: f64| {
        let column = column.clamp(0.0, image.width as f64 - 1.0) as usize;
        let row = row.clamp(0.0, image.height as f64 - 1.0) as usize;
        image.at(column, row) as f64
    };
    let above = (1.0 - ax) * at(x0, y0) + ax * at(x0 + 1.0, y0);
    let below = (1.0 - ax) * at(x0, y0 + 1.0) + ax * at(x0 + 1.0, y0 + 1.0);
    (1.0 - ay) * above + ay * below
}

/// A motion of the whole picture with its inverse.
#[derive(Clone, Copy, Debug)]
pub enum Warp {
    /// By (x, y) pixels.
    Shift(f64, f64),
    /// By an angle in degrees about the centre of a 640 x 360 picture, times a scale.
    Similarity { degrees: f64, scale: f64 },
}

impl Warp {
    const CENTRE: [f64; 2] = [320.0, 180.0];

    /// Where a point goes.
    pub fn forward(self, [x, y]: [f64; 2]) -> [f64; 2] {
        match self {
            Warp::Shift(dx, dy) => [x + dx, y + dy],
            Warp::Similarity { degrees, scale } => turn([x, y], degrees, scale),
        }
    }

    /// The second frame.
    pub fn apply(self, image: &GrayImage) -> GrayImage {
        from_function(image.width, image.height, |x, y| {
            let [x, y] = match self {
                Warp::Shift(dx, dy) => [x as f64 - dx, y as f64 - dy],
                Warp::Similarity { degrees, scale } => turn([x as f64, y as f64], -degrees, 1.0 / scale),
            };
            bilinear(image, x, y) as f32
        })
    }
}

fn turn([x, y]: [f64; 2], degrees: f64, scale: f64) -> [f64; 2] {
    let (sin, cos) = degrees.to_radians().sin_cos();
    let (dx, dy) = (x - Warp::CENTRE[0], y - Warp::CENTRE[1]);
    [Warp::CENTRE[0] + scale * (cos * dx - sin * dy), Warp::CENTRE[1] + scale * (sin * dx + cos * dy)]
}

/// gain * image + offset, clipped to [0, 1].
pub fn relit(image: &GrayImage, gain: f32, offset: f32) -> GrayImage {
    let data = image.data.iter().map(|v| (gain * v + offset).clamp(0.0, 1.0)).collect();
    GrayImage { data, ..*image }
}

/// A grid of `columns` x `rows` points between margins.
pub fn grid(image: &GrayImage, columns: usize, rows: usize, [margin_x, margin_y]: [f32; 2]) -> Vec<[f32; 2]> {
    let span = [image.width as f32 - 2.0 * margin_x, image.height as f32 - 2.0 * margin_y];
    let at = |i: usize| {
        let (column, row) = (i % columns, i / columns);
        let share = [column as f32 / (columns - 1) as f32, row as f32 / (rows - 1) as f32];
        [margin_x + share[0] * span[0], margin_y + share[1] * span[1]]
    };
    (0..columns * rows).map(at).collect()
}
