//! What the shaders of keypoints share: where the Gaussian layers of octaves lie, and keypoints on them.

/// Most octaves of a picture.
pub const MAX_OCTAVES: usize = 16;

/// An octave's Gaussian layers, one behind the other in a buffer with those of other octaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct OctaveShape {
    /// Element that layer 0 begins at.
    pub begin: u32,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels: all rows of the octave or a strip of them.
    pub height: u32,
    /// Row of the octave that the first of them is. Keypoints are in pixels of the octave.
    pub first_row: u32,
}

impl OctaveShape {
    /// Octaves of `sizes`, width and height, at most 16, one behind the other with `n_layers` layers each. What is left
    /// is zero.
    pub fn table(sizes: &[(usize, usize)], n_layers: usize) -> [OctaveShape; MAX_OCTAVES] {
        let mut shapes = [OctaveShape::default(); MAX_OCTAVES];
        let mut begin = 0;
        for (shape, &(width, height)) in shapes[..sizes.len()].iter_mut().zip(sizes) {
            *shape =
                OctaveShape { begin: begin as u32, width: width as u32, height: height as u32, first_row: 0 };
            begin += n_layers * width * height;
        }
        shapes
    }
}

/// A keypoint in pixels of its octave, centres at integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct SiftPoint {
    /// Its octave.
    pub octave: u32,
    /// The Gaussian layer it is described on.
    pub layer: u32,
    /// Column.
    pub x: f32,
    /// Row.
    pub y: f32,
    /// Sigma in pixels.
    pub scale: f32,
    /// Nothing: a point takes 32 bytes.
    pub unused: [u32; 3],
}
