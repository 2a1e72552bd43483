//! Prints the tracker's memory on a device, array by array, beside the design's formula, as Markdown:
//! `cargo run --release --example resident [-- ADAPTER]`.

use std::error::Error;

use trackweave::device::{Device, Gpu};
use trackweave::kernels::pyramid_down::PyramidShape;
use trackweave::klt::{KltOptions, Tracker};

fn main() -> Result<(), Box<dyn Error>> {
    let adapter = std::env::args().nth(1);
    for (width, height) in [(640, 360), (1280, 720)] {
        for capacity in [1024, 8192] {
            let gpu = Gpu::open(adapter.as_deref())?;
            print(&gpu, width, height, capacity)?;
        }
    }
    Ok(())
}

fn print(gpu: &Gpu, width: usize, height: usize, capacity: usize) -> Result<(), Box<dyn Error>> {
    let options = KltOptions { capacity: capacity as u32, ..KltOptions::for_size(width, height) };
    let (levels, window_px) = (options.levels as usize, options.window_px);
    let n_pixels = PyramidShape::new(width, height, levels).pixels();
    let n_cells = width.div_ceil(8) * height.div_ceil(8);
    let tracker = Tracker::new(&Device::Gpu(gpu.clone()), options, (width, height))?;
    println!("\n## {width} x {height}, {capacity} tracks, {levels} levels, window {window_px}\n");
    println!("| array | bytes | the design's |\n|---|---:|---:|");
    let mut designs = designs(width * height, n_pixels, n_cells, capacity);
    let (mut ours, mut theirs) = (0, 0);
    for (name, bytes) in gpu.resident() {
        let design = designs.iter().position(|design| design.0 == name).map(|i| designs.remove(i).1);
        println!("| {name} | {bytes} | {} |", design.map_or(String::new(), |bytes| bytes.to_string()));
        (ours, theirs) = (ours + bytes, theirs + design.unwrap_or(0));
    }
    for (name, bytes) in designs {
        println!("| {name} | | {bytes} |");
        theirs += bytes;
    }
    println!("| **sum** | **{ours}** | **{theirs}** |");
    let found = gpu.allocated().ok_or("the interface does not tell what it allocates")?;
    let bytes: u64 = found.buffers.iter().map(|found| found.bytes).sum();
    println!("\nwgpu: {} allocations of {bytes} bytes with what alignment skips", found.buffers.len());
    drop(tracker);
    Ok(())
}

/// The arrays of the design's formula 4 (6 S + W H + 12 C + 2 ceil(C / 64) + 3) + 64 P, by our names where we have them.
fn designs(n_picture: usize, n_pixels: usize, n_cells: usize, capacity: usize) -> Vec<(&'static str, u64)> {
    let planes = 2 * n_pixels;
    let floats = [
        ("pyramid", planes),
        ("gradient_x", planes),
        ("gradient_y", planes),
        ("eigen", n_picture),
        ("twelve words a cell", 12 * n_cells),
        ("two sums of 64 cells", 2 * n_cells.div_ceil(64)),
        ("three words", 3),
    ];
    let mut arrays: Vec<_> = floats.iter().map(|&(name, len)| (name, 4 * len as u64)).collect();
    arrays.push(("records", 64 * capacity as u64));
    arrays
}
