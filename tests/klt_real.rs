//! The tracker against its clear form in f64 on real frames, found through TRACKWEAVE_DATA: the pairs of
//! flow/<name>/{frame10.png, frame11.png} (Middlebury).

#[path = "support/klt_cases.rs"]
mod klt_cases;
#[path = "support/klt_oracle.rs"]
mod klt_oracle;
#[path = "support/klt_reference.rs"]
mod klt_reference;
#[path = "support/klt_scene.rs"]
mod klt_scene;

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use klt_cases::{Case, pyramid};
use klt_oracle::differences;
use libtest_mimic::{Arguments, Failed, Trial};
use trackweave::klt::{KltOptions, SelectScratch, eigen_map_of, select_points};
use trackweave::picture::GrayImage;

fn main() {
    let data = env::var_os("TRACKWEAVE_DATA").map(PathBuf::from);
    let reason = if data.is_some() { "" } else { " (TRACKWEAVE_DATA is not set)" };
    let trial = |pair: &'static str| {
        let folder = data.clone().unwrap_or_default().join("flow").join(pair);
        let name = format!("the_tracker_is_its_clear_form_on_{pair}{reason}");
        Trial::test(name, move || is_its_clear_form(&folder)).with_ignored_flag(data.is_none())
    };
    libtest_mimic::run(&Arguments::from_args(), ["RubberWhale", "Grove2"].map(trial).into()).exit();
}

fn read(path: PathBuf) -> Result<Arc<GrayImage>, Failed> {
    let picture = image::open(path)?.to_luma8();
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    let data = picture.as_raw().iter().map(|&v| v as f32 / 255.0).collect();
    Ok(Arc::new(GrayImage { data, width, height }))
}

/// 200 selected points and as many at the border or anywhere.
fn is_its_clear_form(folder: &Path) -> Result<(), Failed> {
    let (first, second) = (read(folder.join("frame10.png"))?, read(folder.join("frame11.png"))?);
    let (width, height) = (first.width, first.height);
    let options = KltOptions::for_size(width, height);
    let eigen = eigen_map_of(&pyramid(&first, 1).levels[0], options.window_px);
    let selected = select_points(&eigen, &[], &options, 200, &mut SelectScratch::default());
    let mut points: Vec<[f32; 2]> = selected.iter().map(|p| [p.x, p.y]).collect();
    points.extend((0..100).map(|i| [(i * 97 % width) as f32 + 0.3, (i * 61 % height) as f32 + 0.7]));
    points.extend((0..100).map(|i| [(i * 41 % width) as f32, (i % 14) as f32]));
    let case = Case { name: "real frames".into(), design: "", first, second, warp: None, points, options };
    let (excused, unexcused) = differences(&case);
    let tracks = case.points.len();
    println!("{tracks} tracks, {excused} differ where a number is near its limit or rounding decides");
    assert!(unexcused.is_empty(), "{} differ: {unexcused:#?}", unexcused.len());
    assert!(excused * 50 <= tracks, "{excused} of {tracks} differ");
    Ok(())
}
