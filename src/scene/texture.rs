//! Photographs as textures: mip levels by averaging 2 x 2, read trilinearly.

use image::{ImageError, RgbImage};

/// One mip level: R, G, B and one byte of padding a texel, row by row.
#[derive(Clone, Debug)]
struct Level {
    width: usize,
    height: usize,
    texels: Vec<[u8; 4]>,
}

/// A photograph with its mip levels. Positions run from 0 to 1 across the picture; beyond, it is mirrored.
#[derive(Clone, Debug)]
pub struct Texture {
    levels: Vec<Level>,
}

impl Texture {
    /// Decodes a JPEG or PNG.
    pub fn decode(bytes: &[u8]) -> Result<Texture, ImageError> {
        Ok(Texture::new(&image::load_from_memory(bytes)?.into_rgb8()))
    }

    /// Levels are halved as long as both sides are even, so that a level's texels are exactly four of the one before.
    pub fn new(picture: &RgbImage) -> Texture {
        let (width, height) = (picture.width() as usize, picture.height() as usize);
        let texels = picture.pixels().map(|p| [p[0], p[1], p[2], 0]).collect();
        let mut levels = vec![Level { width, height, texels }];
        while let Some(half) = levels.last().and_then(Level::halved) {
            levels.push(half);
        }
        Texture { levels }
    }

    /// Width and height in texels.
    pub fn size(&self) -> (usize, usize) {
        (self.levels[0].width, self.levels[0].height)
    }

    /// Red, green, blue (0..=255) and the byte of padding at (u, v), for a sample that is `texels` texels of level 0 wide.
    #[inline(always)]
    pub fn sample(&self, u: f32, v: f32, texels: f32) -> [f32; 4] {
        let (u, v) = (mirrored(u), mirrored(v));
        let level = log2(texels).clamp(0.0, (self.levels.len() - 1) as f32);
        let fine = level as usize;
        let blend = level - fine as f32;
        let color = self.levels[fine].bilinear(u, v);
        if blend == 0.0 {
            return color;
        }
        let coarse = self.levels[fine + 1].bilinear(u, v);
        std::array::from_fn(|c| color[c] + blend * (coarse[c] - color[c]))
    }
}

impl Level {
    fn halved(&self) -> Option<Level> {
        let (width, height) = (self.width / 2, self.height / 2);
        if self.width % 2 == 1 || self.height % 2 == 1 || width == 0 || height == 0 {
            return None;
        }
        let mean = |i: usize| {
            let at = 2 * (i / width) * self.width + 2 * (i % width);
            let four = [at, at + 1, at + self.width, at + self.width + 1].map(|i| self.texels[i]);
            std::array::from_fn(|c| ((four.iter().map(|t| t[c] as u32).sum::<u32>() + 2) / 4) as u8)
        };
        Some(Level { width, height, texels: (0..width * height).map(mean).collect() })
    }

    /// Bilinear at (u, v) in [0, 1], texel centres at half integers; what lies beyond the border is the border.
    #[inline(always)]
    fn bilinear(&self, u: f32, v: f32) -> [f32; 4] {
        let (x, dx) = cell(u, self.width);
        let (y, dy) = cell(v, self.height);
        let right = (x + 1).min(self.width - 1);
        let below = (y + 1).min(self.height - 1) * self.width;
        let above = y * self.width;
        let (a, b) = (self.texels[above + x], self.texels[above + right]);
        let (c, d) = (self.texels[below + x], self.texels[below + right]);
        std::array::from_fn(|i| {
            let (a, b, c, d) = (a[i] as f32, b[i] as f32, c[i] as f32, d[i] as f32);
            let (top, bottom) = (a + dx * (b - a), c + dx * (d - c));
            top + dy * (bottom - top)
        })
    }
}

/// The texel left of (above) a position in [0, 1] and the share of the next one.
#[inline(always)]
fn cell(position: f32, n_texels: usize) -> (usize, f32) {
    let texel = (position * n_texels as f32 - 0.5).clamp(0.0, (n_texels - 1) as f32);
    (texel as usize, texel - texel.floor())
}

/// Folds the line into [0, 1], every other unit backwards.
#[inline(always)]
fn mirrored(position: f32) -> f32 {
    let in_two = position - 2.0 * (position * 0.5).floor();
    if in_two > 1.0 { 2.0 - in_two } else { in_two }
}

/// log2 of a positive number, exact at powers of two and linear between: enough to blend mip levels.
#[inline(always)]
fn log2(x: f32) -> f32 {
    let bits = x.to_bits();
    let exponent = (bits >> 23) as i32 - 127;
    exponent as f32 + (f32::from_bits(bits & 0x007F_FFFF | 0x3F80_0000) - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp() -> Texture {
        Texture::new(&RgbImage::from_fn(16, 8, |x, y| image::Rgb([x as u8 * 10, y as u8 * 20, 7])))
    }

    #[test]
    fn a_ramp_is_read_exactly_at_every_level() {
        let texture = ramp();
        assert_eq!(texture.levels.len(), 4, "16 x 8, 8 x 4, 4 x 2, 2 x 1");
        for texels in [0.3, 1.0, 1.5, 2.0, 2.7] {
            // Away from the border, texel x + 0.5 is at position (x + 0.5) / width whatever the level.
            let [r, g, b, _] = texture.sample(7.25 / 16.0, 4.5 / 8.0, texels);
            assert!((r - 67.5).abs() < 0.5 && (g - 80.0).abs() < 0.5 && b == 7.0, "{r} {g} {b} at {texels}");
        }
    }

    #[test]
    fn beyond_the_border_the_picture_is_mirrored() {
        let texture = ramp();
        for (beyond, inside) in [(1.2, 0.8), (-0.3, 0.3), (2.4, 0.4), (-1.9, 0.1)] {
            let (a, b) = (texture.sample(beyond, 0.5, 1.0), texture.sample(inside, 0.5, 1.0));
            assert!((a[0] - b[0]).abs() < 1e-3, "{beyond}: {} and {}", a[0], b[0]);
        }
    }

    #[test]
    fn coarse_samples_average() {
        let board = RgbImage::from_fn(64, 64, |x, y| image::Rgb([if (x + y) % 2 == 0 { 0 } else { 200 }; 3]));
        let texture = Texture::new(&board);
        assert_eq!(texture.sample(0.4, 0.6, 2.0), [100.0, 100.0, 100.0, 0.0]);
        assert!(texture.sample(0.5 / 64.0, 0.5 / 64.0, 1.0)[0] < 1.0);
    }
}
