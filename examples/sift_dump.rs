//! Writes the SIFT features of gray pictures as NumPy files and prints the time each picture took.
//!
//! `cargo run --release --example sift_dump -- OUT [--adapter=NAME] [option=value ...] PICTURE ...`: option as in a
//! pipeline file; on the GPU of that name, or on the CPU; `OUT/<stem>.keypoints.npy` has rows x, y, scale, orientation,
//! response (f32), `OUT/<stem>.descriptors.npy` u8 rows.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use trackweave::device::{Device, Gpu};
use trackweave::gray::{Conversion, Gray};
use trackweave::picture::{GrayImage, Picture};
use trackweave::sift::{Extractor, SiftOptions};

use support::{read_gray, write_npy};

mod support;

/// Times a picture is extracted; the fastest counts.
const REPEATS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let out =
        arguments.next().ok_or("usage: sift_dump OUT [--adapter=NAME] [option=value ...] PICTURE ...")?;
    let (settings, pictures): (Vec<String>, Vec<String>) = arguments.partition(|word| word.contains('='));
    let adapter = |word: &String| word.strip_prefix("--adapter=").map(|name| Gpu::open(Some(name)));
    let device = settings.iter().find_map(adapter).transpose()?.map_or(Device::Cpu, Device::Gpu);
    let settings: Vec<&str> =
        settings.iter().map(String::as_str).filter(|word| !word.starts_with("--")).collect();
    let options: SiftOptions = toml::from_str(&settings.join("\n"))?;
    let mut extractor = Extractor::new(&device, options);
    for picture in &pictures {
        let path = Path::new(picture);
        let gray = on_device(&device, &read_gray(path)?)?;
        let mut fastest = Duration::MAX;
        for _ in 1..REPEATS {
            let start = Instant::now();
            extractor.extract(&gray)?;
            fastest = fastest.min(start.elapsed());
        }
        let features = extractor.extract(&gray)?;
        let n = features.keypoints.len();
        println!("{picture} {n} keypoints {:.1} ms", fastest.as_secs_f64() * 1e3);
        let rows = features.keypoints.iter().map(|k| [k.x, k.y, k.scale, k.orientation, k.response]);
        let values: Vec<[f32; 5]> = rows.collect();
        let stem = path.file_stem().ok_or("a picture has no name")?.to_string_lossy();
        let name = |kind: &str| Path::new(&out).join(format!("{stem}.{kind}.npy"));
        write_npy(&name("keypoints"), "<f4", &[n, 5], bytemuck::cast_slice(&values))?;
        write_npy(&name("descriptors"), "|u1", &[n, 128], features.descriptors.as_flattened())?;
    }
    Ok(())
}

/// An 8-bit picture where the device wants it.
fn on_device(device: &Device, gray: &GrayImage) -> Result<Gray, Box<dyn Error>> {
    let luma = gray.data.iter().map(|value| (255.0 * value).round() as u8).collect();
    let picture = Picture::gray(gray.width, gray.height, luma);
    let size = (picture.width, picture.height);
    Ok(Conversion::new(device, &picture, size)?.run(&picture)?)
}
