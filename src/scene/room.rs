//! The demo's room and what stands in it.

use image::RgbImage;
use nalgebra::Vector3;
use serde::Deserialize;

use super::Scene;
use super::surface::{Lamp, Layer, Material, Surface};
use super::texture::Texture;

const BRICK: usize = 0;
const GRASS: usize = 1;
const GRAVEL: usize = 2;
const COFFEE: usize = 3;
const CHELSEA: usize = 4;
/// Not a photograph: one colour.
const PAINT: usize = 5;

const PHOTOGRAPHS: [&[u8]; 5] = [
    include_bytes!("../../assets/brick.jpg"),
    include_bytes!("../../assets/grass.jpg"),
    include_bytes!("../../assets/gravel.jpg"),
    include_bytes!("../../assets/coffee.jpg"),
    include_bytes!("../../assets/chelsea.jpg"),
];

/// What walls and things are clad with. The pictures on them are the same in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decor {
    /// Photographs, no two places alike.
    #[default]
    Rich,
    /// Paint with faint stains.
    Poor,
    /// Small tiles, all alike.
    Repetitive,
}

/// Share of the stains that paint keeps.
const FAINT: f32 = 0.12;
/// Repeats of a photograph that become tiles where there was one.
const TILES: f32 = 2.0;

impl Decor {
    /// A rich material as this decor has it; pictures, which have no stain, stay.
    fn of(self, rich: Material) -> Material {
        let Some((stain, share)) = rich.stain else { return rich };
        let base = rich.base;
        match self {
            Decor::Rich => rich,
            Decor::Poor => Material {
                base: Layer { texture: PAINT, ..base },
                stain: Some((stain, FAINT * share)),
                ..rich
            },
            Decor::Repetitive => Material {
                base: Layer { repeats: base.repeats.map(|n| TILES * n), ..base },
                stain: None,
                ..rich
            },
        }
    }
}

/// A photograph that repeats every so many metres.
#[derive(Clone, Copy)]
struct Stuff {
    texture: usize,
    tile_m: f32,
    tint: [f32; 3],
    stain: (usize, f32, f32),
}

const WALL: Stuff =
    Stuff { texture: BRICK, tile_m: 1.7, tint: [1.35, 0.95, 0.8], stain: (GRAVEL, 5.3, 0.35) };
const FLOOR: Stuff =
    Stuff { texture: GRAVEL, tile_m: 1.5, tint: [1.0, 0.95, 0.85], stain: (GRASS, 4.1, 0.45) };
const CEILING: Stuff =
    Stuff { texture: GRASS, tile_m: 3.0, tint: [1.3, 1.25, 1.15], stain: (GRAVEL, 7.0, 0.4) };
const CARPET: Stuff =
    Stuff { texture: GRASS, tile_m: 1.1, tint: [0.7, 1.05, 0.6], stain: (BRICK, 2.3, 0.35) };
const STONE: Stuff = Stuff { texture: GRAVEL, tile_m: 1.2, tint: [0.95, 1.0, 1.1], stain: (GRASS, 1.3, 0.4) };
const CLAY: Stuff = Stuff { texture: BRICK, tile_m: 0.9, tint: [1.5, 1.1, 0.8], stain: (GRASS, 1.7, 0.4) };
const WOOD: Stuff = Stuff { texture: COFFEE, tile_m: 1.05, tint: [0.9, 0.9, 0.9], stain: (GRAVEL, 0.9, 0.4) };

impl Stuff {
    /// Cut to a rectangle's size, beginning at a place that depends on the rectangle.
    fn cut(&self, corner: &Vector3<f64>, side_u: &Vector3<f64>, side_v: &Vector3<f64>) -> Material {
        let sizes = [side_u.norm() as f32, side_v.norm() as f32];
        let layer = |texture, tile_m: f32| {
            let offset = [corner.x + 0.37 * corner.z, corner.y + 0.61 * corner.z].map(|m| m as f32 / tile_m);
            Layer { texture, repeats: sizes.map(|size| size / tile_m), offset }
        };
        let (stain, stain_tile_m, share) = self.stain;
        Material {
            base: layer(self.texture, self.tile_m),
            tint: self.tint,
            stain: Some((layer(stain, stain_tile_m), share)),
        }
    }
}

/// A photograph, or a part of it, across a whole rectangle.
#[derive(Clone, Copy)]
struct Print {
    texture: usize,
    /// Upper left corner of the part, in shares of the photograph.
    from: [f32; 2],
    /// Size of the part. Negative: mirrored.
    size: [f32; 2],
}

const CAT: Print = Print { texture: CHELSEA, from: [0.0, 0.0], size: [1.0, 1.0] };
const CAT_LOOKING_BACK: Print = Print { texture: CHELSEA, from: [1.0, 0.0], size: [-0.8, 0.9] };
const CAT_EYES: Print = Print { texture: CHELSEA, from: [0.2, 0.1], size: [0.6, 0.5] };
const CUP: Print = Print { texture: COFFEE, from: [0.0, 0.0], size: [1.0, 1.0] };
const CUP_TURNED: Print = Print { texture: COFFEE, from: [1.0, 1.0], size: [-0.85, -0.9] };
const CUP_NEAR: Print = Print { texture: COFFEE, from: [0.2, 0.0], size: [0.55, 0.7] };

impl Print {
    fn material(&self) -> Material {
        let base = Layer { texture: self.texture, repeats: self.size, offset: self.from };
        Material { base, tint: [1.0; 3], stain: None }
    }
}

fn rectangle(corner: [f64; 3], side_u: [f64; 3], side_v: [f64; 3], stuff: &Stuff) -> Surface {
    let (corner, side_u, side_v) = (corner.into(), side_u.into(), side_v.into());
    Surface { corner, side_u, side_v, material: stuff.cut(&corner, &side_u, &side_v) }
}

fn picture(corner: [f64; 3], side_u: [f64; 3], side_v: [f64; 3], print: Print) -> Surface {
    Surface {
        corner: corner.into(),
        side_u: side_u.into(),
        side_v: side_v.into(),
        material: print.material(),
    }
}

/// A box without its bottom. `foot`: middle of its bottom; `size`: across, high, deep; turned by `yaw` radians. A
/// print goes on its front and its top.
fn cuboid(foot: [f64; 3], size: [f64; 3], yaw: f64, stuff: &Stuff, front: Option<Print>) -> Vec<Surface> {
    let (sin, cos) = (libm::sin(yaw), libm::cos(yaw));
    let (x, z) = (Vector3::new(cos, 0.0, sin) * size[0], Vector3::new(-sin, 0.0, cos) * size[2]);
    let y = Vector3::y() * size[1];
    let near = Vector3::from(foot) - y - x / 2.0 - z / 2.0;
    let faces = [[near, x, y], [near + x, z, y], [near + z, x, y], [near, z, y], [near + z, x, -z]];
    let clad = |(face, [corner, side_u, side_v]): (usize, [Vector3<f64>; 3])| {
        let printed = front.filter(|_| face == 0 || face == 4).map(|print| print.material());
        let material = printed.unwrap_or_else(|| stuff.cut(&corner, &side_u, &side_v));
        Surface { corner, side_u, side_v, material }
    };
    faces.into_iter().enumerate().map(clad).collect()
}

fn walls() -> Vec<Surface> {
    let (left, right, top, floor, front, back) = (-3.4, 3.4, -1.5, 1.4, -2.5, 6.2);
    let (across, down, deep) = ([right - left, 0.0, 0.0], [0.0, floor - top, 0.0], [0.0, 0.0, back - front]);
    vec![
        rectangle([left, top, back], across, down, &WALL),
        rectangle([left, top, front], across, down, &WALL),
        rectangle([left, top, front], deep, down, &WALL),
        rectangle([right, top, front], deep, down, &WALL),
        rectangle([left, floor, front], across, deep, &FLOOR),
        rectangle([left, top, front], across, deep, &CEILING),
        rectangle([-1.9, floor - 0.01, 1.6], [3.1, 0.0, 0.5], [-0.35, 0.0, 2.2], &CARPET),
        picture([-2.3, -0.9, back - 0.02], [1.35, 0.0, 0.0], [0.0, 0.9, 0.0], CAT),
        picture([0.9, -1.0, back - 0.02], [1.5, 0.0, 0.0], [0.0, 1.0, 0.0], CUP),
        picture([left + 0.02, -0.7, 3.0], [0.0, 0.0, 1.3], [0.0, 0.85, 0.0], CUP_TURNED),
        picture([right - 0.02, -0.8, 5.2], [0.0, 0.0, -1.35], [0.0, 0.9, 0.0], CAT_LOOKING_BACK),
    ]
}

fn table() -> Vec<Surface> {
    let legs = [(-0.85, 2.95), (0.85, 2.95), (-0.85, 4.15), (0.85, 4.15)];
    let legs = legs.iter().flat_map(|&(x, z)| cuboid([x, 1.4, z], [0.09, 0.82, 0.09], 0.0, &CLAY, None));
    let mut table: Vec<Surface> = legs.collect();
    table.extend(cuboid([0.0, 0.58, 3.55], [2.0, 0.06, 1.4], 0.0, &WOOD, None));
    table.extend(cuboid([-0.5, 0.52, 3.7], [0.5, 0.34, 0.4], 0.35, &STONE, None));
    table.extend(cuboid([-0.48, 0.18, 3.7], [0.33, 0.22, 0.26], -0.3, &CLAY, Some(CAT_EYES)));
    table.extend(cuboid([0.45, 0.52, 3.35], [0.42, 0.28, 0.3], -0.4, &CLAY, Some(CUP_NEAR)));
    table.extend(cuboid([0.15, 0.52, 4.0], [0.3, 0.62, 0.25], 0.2, &CARPET, None));
    table
}

/// The room with all that stands in it.
pub(super) fn furnished(decor: Decor) -> Scene {
    let mut surfaces = walls();
    surfaces.extend(table());
    surfaces.extend(cuboid([1.9, 1.4, 3.3], [0.8, 1.15, 0.7], 0.5, &STONE, None));
    surfaces.extend(cuboid([-2.3, 1.4, 4.4], [0.9, 1.5, 0.6], -0.4, &CLAY, None));
    surfaces.extend(cuboid([0.95, 1.4, 2.0], [0.5, 0.55, 0.45], -0.5, &CARPET, Some(CAT_EYES)));
    surfaces.extend(cuboid([-1.35, 1.4, 2.3], [0.45, 0.7, 0.45], 0.3, &WOOD, None));
    surfaces.extend(cuboid([1.5, 1.4, 5.3], [0.7, 1.7, 0.6], -0.2, &CARPET, None));
    let lamp = Lamp { position: Vector3::new(0.4, -1.3, 2.2), strength: 1.3, ambient: 0.6 };
    surfaces.iter_mut().for_each(|surface| surface.material = decor.of(surface.material));
    let photographs = PHOTOGRAPHS.iter();
    let mut textures: Vec<Texture> =
        photographs.map(|bytes| Texture::decode(bytes).expect("the shipped photographs are sound")).collect();
    textures.push(Texture::new(&RgbImage::from_pixel(1, 1, image::Rgb([128; 3]))));
    Scene::new(textures, surfaces, lamp)
}
