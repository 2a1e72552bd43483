//! Tracks given points through gray pictures, each from one picture to the next as the pipeline does, and prints the
//! time of every pair.
//!
//! `cargo run --release --example klt_dump -- OUT.npy POINTS.csv [option=value ...] PICTURE PICTURE ...`: option as in a
//! pipeline file; POINTS.csv has a line x,y a point of the first picture, pixel centres at integers. OUT.npy is (pictures,
//! points, 4) f32: x, y, forward-backward error in px, status (`TrackRecord`); a track that has ended keeps its last
//! record. Prints the options in use as JSON, then a line a pair: the picture, tracks alive, ms for its pyramid, ms for
//! tracking there and back.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use trackweave::kernels::Pyramid;
use trackweave::kernels::klt_track::TrackRecord;
use trackweave::klt::{Anchors, KltPushOptions, TrackScratch, push_tracks};

use support::{read_gray, write_npy};

mod support;

const USAGE: &str = "usage: klt_dump OUT.npy POINTS.csv [option=value ...] PICTURE PICTURE ...";

fn main() -> Result<(), Box<dyn Error>> {
    let (settings, paths): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word.contains('='));
    let [out, points, pictures @ ..] = paths.as_slice() else { return Err(USAGE.into()) };
    let user: KltPushOptions = toml::from_str(&settings.join("\n"))?;
    user.check()?;
    let pictures = pictures.iter().map(|path| read_gray(Path::new(path)).map(|gray| (path, gray)));
    let pictures = pictures.collect::<Result<Vec<_>, _>>()?;
    let Some((_, first)) = pictures.first() else { return Err(USAGE.into()) };
    let size = (first.width, first.height);
    let options = user.for_size(size.0, size.1);
    println!("{}", serde_json::to_string(&options)?);
    let mut last = read_points(Path::new(points))?;
    let n_points = last.len();
    let mut records: Vec<TrackRecord> = Vec::with_capacity(pictures.len() * n_points);
    let (mut previous, mut current) = (Pyramid::default(), Pyramid::default());
    let (mut blurred_x, mut anchors, mut scratch) = (Vec::new(), Anchors::default(), TrackScratch::default());
    for (picture_idx, (path, gray)) in pictures.into_iter().enumerate() {
        if (gray.width, gray.height) != size {
            return Err(format!("{path} differs in size from the first picture").into());
        }
        let gray = Arc::new(gray);
        let start = Instant::now();
        current.rebuild(&gray, options.levels as usize, &mut blurred_x);
        let pyramid_ms = start.elapsed().as_secs_f64() * 1e3;
        if picture_idx > 0 {
            let alive: Vec<u32> = (0..n_points as u32).filter(|&i| last[i as usize].is_alive()).collect();
            let start_of = |&i: &u32| TrackRecord::start(last[i as usize].x, last[i as usize].y);
            let starts: Vec<_> = alive.iter().map(start_of).collect();
            let start = Instant::now();
            let tracked =
                push_tracks(&previous, &current, &options, &alive, &starts, &mut anchors, &mut scratch);
            let tracking_ms = start.elapsed().as_secs_f64() * 1e3;
            alive.iter().zip(tracked).for_each(|(&i, record)| last[i as usize] = *record);
            let n_alive = last.iter().filter(|record| record.is_alive()).count();
            println!("{path} {n_alive} alive {pyramid_ms:.3} {tracking_ms:.3} ms");
        }
        records.extend(&last);
        std::mem::swap(&mut previous, &mut current);
    }
    let shape = [records.len() / n_points.max(1), n_points, 4];
    Ok(write_npy(Path::new(out), "<f4", &shape, bytemuck::cast_slice(&records))?)
}

fn read_points(path: &Path) -> Result<Vec<TrackRecord>, Box<dyn Error>> {
    let point = |line: &str| {
        let (x, y) = line.split_once(',').ok_or_else(|| format!("not x,y: {line}"))?;
        Ok(TrackRecord::start(x.trim().parse()?, y.trim().parse()?))
    };
    std::fs::read_to_string(path)?.lines().map(point).collect()
}
