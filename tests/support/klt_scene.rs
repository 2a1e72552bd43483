//! The frozen scene of the tracker's tests: random Gaussians and a smooth checker, warped bilinearly and relit. Its
//! sines and exponentials are `libm`'s, so its bits are the same everywhere.
#![allow(dead_code)] // each user takes a part

use trackweave::numerics::SplitMix64;
use trackweave::picture::GrayImage;

/// The sizes the scene exists in.
pub const SIZES: [(usize, usize); 5] = [(640, 360), (1280, 720), (320, 200), (360, 640), (720, 1280)];

/// What a scene is drawn from: a mid gray, a checker of period 11 px, Gaussians of random place, size and height; clipped
/// to [0, 1].
struct Texture {
    base: f64,
    checker: f64,
    sigma_px: [f64; 2],
    amplitude: f64,
}

/// The best of some eight thousand random draws: of those on which the design's tracker does no better than the design
/// reports, at every figure (`hardness.rs`), the one whose figures are nearest. The tracker in use had no say.
const HARD: Texture = Texture { base: 0.562, checker: 0.048, sigma_px: [2.6, 9.9], amplitude: 0.344 };

/// On `HARD` the design's tracker errs 2.6 times as much at small shifts as the design reports. This is the nearest of 350
/// draws on which it does no better at the four shifts, 12 points each; the tracker in use had no say here either.
const FIRM: Texture = Texture { base: 0.5, checker: 0.1, sigma_px: [3.0, 12.0], amplitude: 0.2 };

/// The scene: 400 Gaussians at 640 x 360, 1200 at 1280 x 720, at 320 x 200 as many an area as at 640. Seeds of the other
/// sizes are the first that are as hard too.
pub fn scene(width: usize, height: usize) -> GrayImage {
    let (n_gaussians, seed) = match width.max(height) {
        320 => (111, 195),
        640 => (400, 10),
        _ => (1200, 2),
    };
    drawn(&HARD, [width, height], n_gaussians, seed)
}

/// The scene of the shifts, 640 x 360.
pub fn scene_of_shifts() -> GrayImage {
    drawn(&FIRM, [640, 360], 400, 62)
}

/// A picture of any size with the scene's texture.
pub fn textured(width: usize, height: usize, n_gaussians: usize, seed: u64) -> GrayImage {
    drawn(&HARD, [width, height], n_gaussians, seed)
}

fn drawn(texture: &Texture, [width, height]: [usize; 2], n_gaussians: usize, seed: u64) -> GrayImage {
    let mut rng = SplitMix64::new(seed, 0);
    let wave = |v: usize| libm::sin(std::f64::consts::TAU / 11.0 * v as f64);
    let checker = |i: usize| texture.checker * wave(i % width) * wave(i / width);
    let mut sums: Vec<f64> = (0..width * height).map(|i| texture.base + checker(i)).collect();
    let [smallest, largest] = texture.sigma_px;
    for _ in 0..n_gaussians {
        let centre = [rng.unit() * width as f64, rng.unit() * height as f64];
        let sigma = smallest + (largest - smallest) * rng.unit();
        let amplitude = texture.amplitude * (2.0 * rng.unit() - 1.0);
        add_gaussian(&mut sums, [width, height], centre, sigma, amplitude);
    }
    let mut image = GrayImage::new(width, height);
    for (pixel, sum) in image.data.iter_mut().zip(sums) {
        *pixel = sum.clamp(0.0, 1.0) as f32;
    }
    image
}

fn add_gaussian(sums: &mut [f64], size: [usize; 2], centre: [f64; 2], sigma: f64, amplitude: f64) {
    // The product of its two axes: as many exponentials as rows and columns.
    let axis = |i: usize| {
        let from = (centre[i] - 4.0 * sigma).max(0.0) as usize;
        let to = ((centre[i] + 4.0 * sigma) as usize).min(size[i]);
        let fall = move |v: usize| libm::exp(-(v as f64 - centre[i]).powi(2) / (2.0 * sigma * sigma));
        (from..to).map(move |v| (v, fall(v))).collect::<Vec<_>>()
    };
    let columns = axis(0);
    for (y, down) in axis(1) {
        for &(x, across) in &columns {
            sums[y * size[0] + x] += amplitude * down * across;
        }
    }
}

/// FNV-1a of the bits.
pub fn digest(image: &GrayImage) -> u64 {
    let bytes = image.data.iter().flat_map(|v| v.to_bits().to_le_bytes());
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ byte as u64).wrapping_mul(0x100_0000_01B3))
}

/// Samples `value` at every pixel.
pub fn from_function(width: usize, height: usize, value: impl Fn(f32, f32) -> f32) -> GrayImage {
    let mut image = GrayImage::new(width, height);
    for (i, pixel) in image.data.iter_mut().enumerate() {
        *pixel = value((i % width) as f32, (i / width) as f32);
    }
    image
}

/// Overwrites a square.
pub fn paint(
    image: &mut GrayImage,
    [left, top]: [usize; 2],
    side: usize,
    value: impl Fn(usize, usize) -> f32,
) {
    for y in top..top + side {
        for x in left..left + side {
            image.data[y * image.width + x] = value(x, y);
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Warp {
    /// By (x, y) pixels.
    Shift(f64, f64),
    /// By an angle in degrees about the picture's centre.
    Turn(f64),
    /// Times a factor from the picture's centre.
    Scale(f64),
}

impl Warp {
    /// Nothing moves.
    pub const NONE: Warp = Warp::Shift(0.0, 0.0);

    /// Where a point of a `width` x `height` picture goes.
    pub fn forward(self, [width, height]: [usize; 2], [x, y]: [f64; 2]) -> [f64; 2] {
        let centre = [width as f64 / 2.0, height as f64 / 2.0];
        let (dx, dy) = (x - centre[0], y - centre[1]);
        match self {
            Warp::Shift(right, down) => [x + right, y + down],
            Warp::Turn(degrees) => {
                let angle = degrees.to_radians();
                let (sin, cos) = (libm::sin(angle), libm::cos(angle));
                [centre[0] + cos * dx - sin * dy, centre[1] + sin * dx + cos * dy]
            }
            Warp::Scale(factor) => [centre[0] + factor * dx, centre[1] + factor * dy],
        }
    }

    fn inverse(self) -> Warp {
        match self {
            Warp::Shift(right, down) => Warp::Shift(-right, -down),
            Warp::Turn(degrees) => Warp::Turn(-degrees),
            Warp::Scale(factor) => Warp::Scale(1.0 / factor),
        }
    }

    /// The second frame.
    pub fn apply(self, image: &GrayImage) -> GrayImage {
        from_function(image.width, image.height, |x, y| {
            let [x, y] = self.inverse().forward([image.width, image.height], [x as f64, y as f64]);
            bilinear(image, x, y) as f32
        })
    }
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
