//! The renderer. Rectangles are drawn scan line by scan line into a line of inverse depths (exact: all three
//! coordinates of `SeenSurface` are linear along a line), then every sample is shaded. A pixel is the mean of 2 x 2
//! samples, each trilinear, so textures stay sharp and do not alias.

use image::RgbImage;
use nalgebra::Vector3;
use rayon::prelude::*;

use super::surface::{Layer, SeenSurface, Surface};
use super::texture::Texture;
use super::{Intrinsics, Pose, Scene};
use crate::numerics::vectorized;

/// Samples of a pixel in x and in y.
const SAMPLES: usize = 2;

/// No surface.
const NOTHING: u16 = u16::MAX;

/// A surface ready to be drawn: `SeenSurface` by pixel.
struct Drawn<'a> {
    surface: &'a Surface,
    normal: Vector3<f64>,
    /// q = `dx` x + `dy` y + `at_zero` at pixel (x, y), q = (a, b, 1) / depth.
    dx: Vector3<f64>,
    dy: Vector3<f64>,
    at_zero: Vector3<f64>,
}

impl<'a> Drawn<'a> {
    fn new(surface: &'a Surface, seen: &SeenSurface, intrinsics: &Intrinsics) -> Self {
        let columns = seen.plane_from_ray;
        let (dx, dy) = (columns.column(0) / intrinsics.f, columns.column(1) / intrinsics.f);
        let at_zero = columns * intrinsics.ray(0.0, 0.0);
        Drawn { surface, normal: surface.normal(), dx, dy, at_zero }
    }

    /// q at x = 0 of a line.
    #[inline(always)]
    fn line(&self, y: f64) -> Vector3<f64> {
        self.at_zero + self.dy * y
    }

    /// The positions of a line that lie on the rectangle: from, to.
    fn span(&self, line: &Vector3<f64>) -> (f64, f64) {
        let edges = [
            (self.dx.x, line.x),
            (self.dx.y, line.y),
            (self.dx.z - self.dx.x, line.z - line.x),
            (self.dx.z - self.dx.y, line.z - line.y),
        ];
        edges.iter().fold((f64::NEG_INFINITY, f64::INFINITY), |(from, to), &(slope, value)| {
            if slope > 0.0 {
                (from.max(-value / slope), to)
            } else if slope < 0.0 {
                (from, to.min(-value / slope))
            } else if value < 0.0 {
                (f64::INFINITY, to)
            } else {
                (from, to)
            }
        })
    }

    /// Light and stain at q, a factor on the colour.
    #[inline(always)]
    fn light(&self, scene: &Scene, q: &Vector3<f64>, sample_px: f64) -> f32 {
        let (a, b) = (q.x / q.z, q.y / q.z);
        let light = scene.lamp.on(&self.surface.point(a, b), &self.normal);
        match &self.surface.material.stain {
            Some((layer, share)) => {
                light * (1.0 + share * (self.read(scene, layer, q, sample_px)[1] / 127.5 - 1.0))
            }
            None => light,
        }
    }

    /// The colour at q without light, 0..=255 a channel.
    #[inline(always)]
    fn color(&self, scene: &Scene, q: &Vector3<f64>, sample_px: f64) -> [f32; 4] {
        let [red, green, blue, _] = self.read(scene, &self.surface.material.base, q, sample_px);
        let tint = self.surface.material.tint;
        [tint[0] * red, tint[1] * green, tint[2] * blue, 0.0]
    }

    /// Reads a layer for a sample that is `sample_px` pixels wide.
    #[inline(always)]
    fn read(&self, scene: &Scene, layer: &Layer, q: &Vector3<f64>, sample_px: f64) -> [f32; 4] {
        let depth = 1.0 / q.z;
        let (a, b) = (q.x * depth, q.y * depth);
        let slopes = [self.dx, self.dy].map(|d| {
            let scale = depth * sample_px;
            [((d.x - a * d.z) * scale) as f32, ((d.y - b * d.z) * scale) as f32]
        });
        let texture = &scene.textures[layer.texture];
        let u = a as f32 * layer.repeats[0] + layer.offset[0];
        let v = b as f32 * layer.repeats[1] + layer.offset[1];
        texture.sample(u, v, footprint(layer, texture, &slopes))
    }
}

/// Size of a sample in texels of a layer: the longer side of its footprint. `slopes`: change of (a, b) a sample in x
/// and in y.
#[inline(always)]
fn footprint(layer: &Layer, texture: &Texture, slopes: &[[f32; 2]; 2]) -> f32 {
    let (width, height) = texture.size();
    let (su, sv) = (layer.repeats[0] * width as f32, layer.repeats[1] * height as f32);
    let length2 = slopes.map(|[a, b]| (a * su) * (a * su) + (b * sv) * (b * sv));
    length2[0].max(length2[1]).sqrt()
}

fn drawn<'a>(scene: &'a Scene, pose: &Pose, intrinsics: &Intrinsics) -> Vec<Drawn<'a>> {
    let seen = scene.surfaces.iter().filter_map(|surface| Some((surface, surface.seen_from(pose)?)));
    seen.map(|(surface, seen)| Drawn::new(surface, &seen, intrinsics)).collect()
}

/// What is nearest at every sample of a line.
#[derive(Clone)]
struct Line {
    inverse_depth: Vec<f64>,
    nearest: Vec<u16>,
}

impl Line {
    fn new(n_samples: usize) -> Line {
        Line { inverse_depth: vec![0.0; n_samples], nearest: vec![NOTHING; n_samples] }
    }

    /// Fills the line at `y`; sample i lies at x = `first` + i `step`.
    fn draw(&mut self, surfaces: &[Drawn], y: f64, first: f64, step: f64) {
        self.inverse_depth.fill(0.0);
        self.nearest.fill(NOTHING);
        let n_samples = self.nearest.len();
        for (surface_idx, surface) in surfaces.iter().enumerate() {
            let line = surface.line(y);
            let (from, to) = surface.span(&line);
            let begin = ((from - first) / step).ceil().clamp(0.0, n_samples as f64) as usize;
            let end = (((to - first) / step).floor() + 1.0).clamp(0.0, n_samples as f64) as usize;
            for i in begin..end {
                let inverse = line.z + surface.dx.z * (first + i as f64 * step);
                if inverse > self.inverse_depth[i] {
                    self.inverse_depth[i] = inverse;
                    self.nearest[i] = surface_idx as u16;
                }
            }
        }
    }
}

/// See `Scene::render`.
pub(super) fn picture(scene: &Scene, pose: &Pose, intrinsics: &Intrinsics) -> RgbImage {
    let surfaces = drawn(scene, pose, intrinsics);
    let width = intrinsics.width as usize;
    let step = 1.0 / SAMPLES as f64;
    let first = (step - 1.0) / 2.0;
    let mut picture = RgbImage::new(intrinsics.width, intrinsics.height);
    let scratch = || (Line::new(width * SAMPLES), vec![[0f32; 4]; width]);
    picture.par_chunks_mut(3 * width.max(1)).enumerate().for_each_init(
        scratch,
        |(line, sums), (row, pixels)| {
            sums.fill([0.0; 4]);
            for sample in 0..SAMPLES {
                let y = row as f64 + first + sample as f64 * step;
                line.draw(&surfaces, y, first, step);
                vectorized(
                    #[inline(always)]
                    || shade(scene, &surfaces, line, sums, y, first, step),
                );
            }
            for (pixel, sum) in pixels.chunks_exact_mut(3).zip(sums) {
                for (value, sum) in pixel.iter_mut().zip(sum) {
                    *value = (*sum * (step * step) as f32 + 0.5) as u8;
                }
            }
        },
    );
    picture
}

/// Adds the colours of a line's samples to the pixels they belong to. Light changes slowly: it is read once a pixel and
/// surface, in the middle of the pixel's samples on the line.
#[inline(always)]
fn shade(
    scene: &Scene,
    surfaces: &[Drawn],
    line: &Line,
    sums: &mut [[f32; 4]],
    y: f64,
    first: f64,
    step: f64,
) {
    for (x, (nearest, sum)) in line.nearest.chunks_exact(SAMPLES).zip(sums).enumerate() {
        let mut lit = (NOTHING, 0.0);
        for (sample, &surface_idx) in nearest.iter().enumerate() {
            let Some(surface) = surfaces.get(surface_idx as usize) else { continue };
            let start = surface.line(y);
            if lit.0 != surface_idx {
                lit = (surface_idx, surface.light(scene, &(start + surface.dx * x as f64), 1.0));
            }
            let q = start + surface.dx * (x as f64 + first + sample as f64 * step);
            for (sum, value) in sum.iter_mut().zip(surface.color(scene, &q, step)) {
                *sum += (lit.1 * value).min(255.0);
            }
        }
    }
}

/// See `Scene::depth`.
pub(super) fn depth(scene: &Scene, pose: &Pose, intrinsics: &Intrinsics) -> Vec<f64> {
    let surfaces = drawn(scene, pose, intrinsics);
    let width = intrinsics.width as usize;
    let mut depth = vec![0.0; width * intrinsics.height as usize];
    depth.par_chunks_mut(width.max(1)).enumerate().for_each_init(
        || Line::new(width),
        |line, (row, depths)| {
            line.draw(&surfaces, row as f64, 0.0, 1.0);
            for (depth, inverse) in depths.iter_mut().zip(&line.inverse_depth) {
                *depth = 1.0 / inverse;
            }
        },
    );
    depth
}
