//! Bilinear windows about non-integer points, rows one behind the other without gaps.

/// A window's top left sample: the pixel before it and the fraction to the next.
pub struct Place {
    width: usize,
    height: usize,
    x: isize,
    y: isize,
    fraction: [f32; 2],
    /// Every pixel that reading touches, whole vectors included, is in the image.
    is_inside: bool,
}

impl Place {
    /// The window of `n` x `n` samples centred at `at` in a picture of `width` x `height`, read in rows of `row`.
    #[inline(always)]
    pub fn new(width: usize, height: usize, at: [f32; 2], n: usize, row: usize) -> Place {
        // Far outside every sample is a border pixel: where exactly does not matter.
        let [left, top] = at.map(|v| (v - (n / 2) as f32).clamp(-FAR, FAR));
        let (x, y) = (left.floor() as isize, top.floor() as isize);
        let fraction = [left - left.floor(), top - top.floor()];
        let is_inside = x >= 0
            && y >= 0
            && x as usize + n < width
            && y as usize + n < height
            && (y as usize + n) * width + x as usize + row < width * height;
        Place { width, height, x, y, fraction, is_inside }
    }
}

const FAR: f32 = 1e6;

/// Pixels of the largest patch.
pub const PATCH: usize = 64 * 65;

/// Reads the window at `place` into `out`, row by row. What is left of the last sixteen is `rest`. Pixels outside are
/// those of the border. `ROW` is at least `n`.
#[inline(always)]
pub fn read<const ROW: usize, const CHUNKS: usize>(
    image: &[f32],
    place: &Place,
    n: usize,
    rest: f32,
    patch: &mut [f32],
    out: &mut [[f32; 16]; CHUNKS],
) {
    let out = out.as_flattened_mut();
    if place.is_inside {
        let start = place.y as usize * place.width + place.x as usize;
        interpolate::<ROW>(&image[start..], place.width, n, place.fraction, out);
    } else {
        copy_clamped::<ROW>(image, place, n, patch);
        interpolate::<ROW>(patch, ROW + 1, n, place.fraction, out);
    }
    let end = (n * n).next_multiple_of(16);
    out[n * n..end].fill(rest);
}

/// `n` rows of `ROW` samples, of which the next row covers all but `n`.
#[inline(always)]
fn interpolate<const ROW: usize>(
    image: &[f32],
    stride: usize,
    n: usize,
    [ax, ay]: [f32; 2],
    out: &mut [f32],
) {
    let mut above = interpolate_row::<ROW>(image, ax);
    for row in 0..n {
        let below = interpolate_row::<ROW>(&image[(row + 1) * stride..], ax);
        let out = &mut out[row * n..row * n + ROW];
        for x in 0..ROW {
            out[x] = above[x] + ay * (below[x] - above[x]);
        }
        above = below;
    }
}

#[inline(always)]
fn interpolate_row<const ROW: usize>(image: &[f32], ax: f32) -> [f32; ROW] {
    let (left, right) = (&image[..ROW], &image[1..ROW + 1]);
    let mut row = [0.0; ROW];
    for x in 0..ROW {
        row[x] = left[x] + ax * (right[x] - left[x]);
    }
    row
}

/// Copies the (n + 1) x (n + 1) pixels under a window that reaches over the border, rows of `ROW` + 1.
#[inline(always)]
fn copy_clamped<const ROW: usize>(image: &[f32], place: &Place, n: usize, patch: &mut [f32]) {
    let (last_x, last_y) = (place.width as isize - 1, place.height as isize - 1);
    for (row, patch) in patch.chunks_exact_mut(ROW + 1).take(n + 1).enumerate() {
        let y = (place.y + row as isize).clamp(0, last_y) as usize;
        let pixels = &image[y * place.width..(y + 1) * place.width];
        for (column, patch) in patch.iter_mut().take(n + 1).enumerate() {
            *patch = pixels[(place.x + column as isize).clamp(0, last_x) as usize];
        }
    }
}
