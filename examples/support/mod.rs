//! What the examples that feed `benches/compare` share: gray pictures in, NumPy files out.

use std::error::Error;
use std::io;
use std::path::Path;

use trackweave::picture::GrayImage;

/// An 8-bit gray picture.
pub fn read_gray(path: &Path) -> Result<GrayImage, Box<dyn Error>> {
    let luma = image::open(path)?.into_luma8();
    let (width, height) = (luma.width() as usize, luma.height() as usize);
    let data = luma.into_raw().into_iter().map(|value| value as f32 / 255.0).collect();
    Ok(GrayImage { width, height, data })
}

/// Writes an array in C order; `kind` as NumPy spells it, for example `<f4`.
pub fn write_npy(path: &Path, kind: &str, shape: &[usize], data: &[u8]) -> io::Result<()> {
    let sizes: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let shape = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({}), }}", sizes.trim_end());
    let header = format!("{shape:<117}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(data);
    std::fs::write(path, file)
}
