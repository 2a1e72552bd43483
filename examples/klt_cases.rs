//! Writes the cases of the tracker's verification for another tracker to try: frames, points, true places and what the
//! tracker says of them.
//!
//! `cargo run --release --example klt_cases -- OUT`: OUT/<n>_first.png and OUT/<n>_second.png, 8-bit gray, and
//! OUT/cases.json, a list with an entry a case: `name`, `design` (what the design reports of it), `options`, `points`,
//! `truth`, `ours`, `ours_8_bit` and `plain`: (x, y, reason) a point, reason 0 where the track is alive, of the tracker on
//! the frames in f32, of the same on those of the files, and of the plain tracker that the design's figures come from.

use std::error::Error;
use std::path::PathBuf;

use serde_json::json;
use trackweave::kernels::klt_track::TrackRecord;
use trackweave::message::EndReason;
use trackweave::picture::GrayImage;

#[path = "../tests/support/klt_cases.rs"]
mod klt_cases;
#[path = "../tests/support/klt_oracle.rs"]
mod klt_oracle;
#[path = "../tests/support/klt_reference.rs"]
mod klt_reference;
#[path = "../tests/support/klt_scene.rs"]
mod klt_scene;

fn main() -> Result<(), Box<dyn Error>> {
    let out = std::env::args().nth(1).map(PathBuf::from).ok_or("usage: klt_cases OUT")?;
    std::fs::create_dir_all(&out)?;
    let mut entries = Vec::new();
    for (n, case) in klt_cases::all().iter().enumerate() {
        let mut rounded = Vec::new();
        for (image, name) in [(&case.first, "first"), (&case.second, "second")] {
            let bytes: Vec<u8> = image.data.iter().map(|v| (v * 255.0).round() as u8).collect();
            let data = bytes.iter().map(|&byte| byte as f32 / 255.0).collect();
            rounded.push(GrayImage { data, width: image.width, height: image.height });
            let picture = image::GrayImage::from_raw(image.width as u32, image.height as u32, bytes);
            picture.ok_or("a picture of another size")?.save(out.join(format!("{n:02}_{name}.png")))?;
        }
        let of_files = klt_cases::track(&rounded[0], &rounded[1], &case.options, &case.points);
        let plain = klt_oracle::outcomes(klt_reference::Form::DESIGN, case);
        entries.push(json!({
            "name": case.name,
            "design": case.design,
            "options": case.options,
            "points": case.points,
            "truth": (0..case.points.len()).map(|i| case.truth(i)).collect::<Vec<_>>(),
            "ours": case.records().iter().map(of_record).collect::<Vec<_>>(),
            "ours_8_bit": of_files.iter().map(of_record).collect::<Vec<_>>(),
            "plain": plain.iter().map(|end| (end.position[0], end.position[1], number(end.reason))).collect::<Vec<_>>(),
        }));
    }
    Ok(std::fs::write(out.join("cases.json"), serde_json::to_string(&entries)?)?)
}

fn of_record(record: &TrackRecord) -> (f32, f32, u8) {
    (record.x, record.y, number(record.reason()))
}

fn number(reason: Option<EndReason>) -> u8 {
    reason.map_or(0, EndReason::number)
}
