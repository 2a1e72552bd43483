//! Writes the SIFT features of gray pictures as NumPy files and prints the time each picture took.
//!
//! `cargo run --release --example sift_dump -- OUT [option=value ...] PICTURE ...`: option as in a pipeline file;
//! `OUT/<stem>.keypoints.npy` has rows x, y, scale, orientation, response (f32), `OUT/<stem>.descriptors.npy` u8 rows.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use trackweave::picture::GrayImage;
use trackweave::stages::sift_extract::{SiftOptions, SiftScratch, extract_features};

/// Times a picture is extracted; the fastest counts.
const REPEATS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let out = arguments.next().ok_or("usage: sift_dump OUT [option=value ...] PICTURE ...")?;
    let (settings, pictures): (Vec<String>, Vec<String>) = arguments.partition(|word| word.contains('='));
    let options: SiftOptions = toml::from_str(&settings.join("\n"))?;
    let mut scratch = SiftScratch::default();
    for picture in &pictures {
        let path = Path::new(picture);
        let gray = read_gray(path)?;
        let mut fastest = Duration::MAX;
        for _ in 1..REPEATS {
            let start = Instant::now();
            extract_features(&gray, &options, &mut scratch);
            fastest = fastest.min(start.elapsed());
        }
        let features = extract_features(&gray, &options, &mut scratch);
        let n = features.keypoints.len();
        println!("{picture} {n} keypoints {:.1} ms", fastest.as_secs_f64() * 1e3);
        let rows = features.keypoints.iter().map(|k| [k.x, k.y, k.scale, k.orientation, k.response]);
        let values: Vec<[f32; 5]> = rows.collect();
        let stem = path.file_stem().ok_or("a picture has no name")?.to_string_lossy();
        let name = |kind: &str| Path::new(&out).join(format!("{stem}.{kind}.npy"));
        write_npy(&name("keypoints"), "<f4", [n, 5], bytemuck::cast_slice(&values))?;
        write_npy(&name("descriptors"), "|u1", [n, 128], features.descriptors.as_flattened())?;
    }
    Ok(())
}

fn read_gray(path: &Path) -> Result<GrayImage, Box<dyn Error>> {
    let luma = image::open(path)?.into_luma8();
    let (width, height) = (luma.width() as usize, luma.height() as usize);
    let data = luma.into_raw().into_iter().map(|value| value as f32 / 255.0).collect();
    Ok(GrayImage { width, height, data })
}

fn write_npy(path: &Path, kind: &str, [rows, columns]: [usize; 2], data: &[u8]) -> std::io::Result<()> {
    let shape = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    let header = format!("{shape:<117}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(data);
    std::fs::write(path, file)
}
