//! Prints the tracker's memory on a device, array by array, beside the design's formula, as Markdown:
//! `cargo run --release --example resident [-- ADAPTER]`.

use std::error::Error;

use trackweave::device::{Allocated, Device, Gpu};
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
    let own = allocated(gpu)?.counted;
    let tracker = Tracker::new(&Device::Gpu(gpu.clone()), options, (width, height))?;
    println!("\n## {width} x {height}, {capacity} tracks, {levels} levels, window {window_px}\n");
    println!("| array | bytes | the design's | what it is |\n|---|---:|---:|---|");
    let mut designs = designs(width * height, n_pixels, n_cells, capacity);
    let (mut ours, mut theirs) = (0, 0);
    for (name, bytes) in gpu.resident() {
        let design = designs.iter().position(|design| design.0 == name).map(|i| designs.remove(i).1);
        let design_bytes = design.map_or(String::new(), |bytes| bytes.to_string());
        println!("| {name} | {bytes} | {design_bytes} | {} |", what_is(name));
        (ours, theirs) = (ours + bytes, theirs + design.unwrap_or(0));
    }
    for (name, bytes) in designs {
        println!("| {name} | | {bytes} | {} |", what_is(name));
        theirs += bytes;
    }
    println!("| **sum** | **{ours}** | **{theirs}** | |");
    let found = allocated(gpu)?;
    let bytes: u64 = found.buffers.iter().map(|found| found.bytes).sum();
    println!("\nwgpu: {} allocations of {bytes} bytes with what alignment skips", found.buffers.len());
    let (buffers, bytes) = (found.counted.buffers - own.buffers, found.counted.bytes - own.bytes);
    println!(
        "\nwgpu counts {buffers} buffers of {bytes} bytes beside {} of {} of its own",
        own.buffers, own.bytes
    );
    drop(tracker);
    Ok(())
}

fn allocated(gpu: &Gpu) -> Result<Allocated, Box<dyn Error>> {
    gpu.allocated().ok_or_else(|| "the interface does not tell what it allocates".into())
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

/// Whose bytes: S pixels of all levels, C cells, P tracks, K sixteens of samples of the anchor's window.
fn what_is(name: &str) -> &'static str {
    match name {
        "pyramid" | "gradient_x" | "gradient_y" => "2 S floats: both frames",
        "eigen" => "a float a pixel",
        "records" => "three runs of P records of 16 bytes; the design's fourth are our `starts`",
        "starts" => "P records",
        "checked" => "P records in the host's memory, which the design does not count",
        "alive" => "P positions of 8 bytes for the selection, from the host; the design reads records",
        "cell_tracks" => "2 P indices: tracks by cell, twice",
        "cell_starts" | "sums" => "C + 1 words",
        "kept" => "C words",
        "picks" => "C points of 12 bytes",
        "selected" => "C points of 12 bytes, and as much in the host's memory",
        "strips" => "a float for each 4096 pixels, and the largest of them",
        "largest" | "n_selected" => "a word in the host's memory",
        "points" | "point_values" => {
            "room for a keyframe's keypoints: grows with the first, to a power of two"
        }
        "parameters" => "of all kernels",
        "weights" => "of the tracker's window",
        "window" => "offsets and weights of the anchor's window",
        "slots" => "P words: the slot of a track",
        "anchors" => "P maps of 32 bytes; the design has no anchors",
        "patch_sums" => "P sums over patches of 208 bytes",
        "patch_samples" => "3 K P sixteens of floats: gray and gradients of the patches",
        "twelve words a cell" => "ours: `cell_starts`, `sums`, `kept`, `picks`, `selected`",
        "two sums of 64 cells" => "our scan needs none",
        "three words" => "ours: `largest`, `n_selected`",
        _ => "",
    }
}
