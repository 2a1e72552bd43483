//! How far tracks drift from their seeds with age, without joins or verification: a Markdown table. Of two figures the
//! first is from frame to frame, the second with tracks anchored at their seeds.
//!
//! `cargo run --release --example klt_drift [option=value ...] [FOLDER ...]`, options as in a pipeline file: rooms rendered
//! under several motions and harms, against the true flow; then folders as `render_scene` writes them (PNG pictures,
//! camera.txt, gt_poses.txt) by the Sampson distance to the motion between seed and frame that fits the tracks best,
//! sought from the known one: the poses of real sequences are often less exact than the tracks. Shares are of the seeds
//! still seen; in a folder, of all.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use nalgebra::Matrix3;
use trackweave::geometry::essential::EssentialChart;
use trackweave::geometry::points::PointPairs;
use trackweave::geometry::refine::{Chart, refine};
use trackweave::geometry::scoring::{Loss, Sampson, squared_residuals};
use trackweave::kernels::Pyramid;
use trackweave::kernels::klt_track::TrackRecord;
use trackweave::klt::{
    Anchors, KltOptions, KltPushOptions, SelectScratch, TrackScratch, eigen_map_of, push_tracks,
    select_points,
};
use trackweave::numerics::SplitMix64;
use trackweave::picture::GrayImage;
use trackweave::scene::{CameraPath, Pose, Scene, true_essential};

use sequence::{Harm, Sequence, Truth, View, on, rendered, turning};

mod sequence;

/// Frames a track is followed.
const MAX_AGE: usize = 16;
/// Ages in the table.
const AGES: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 16];
/// Frames whose points are tracked, two frames apart.
const SEED_FRAMES: usize = 5;
/// Most points of a frame.
const MAX_SEEDS: usize = 600;
/// A track this close to the truth is right.
const RIGHT_PX: f64 = 1.0;
/// Scale of the robust fit of a motion.
const FIT_PX: f64 = 1.0;
/// A camera that moved less, in metres, has no epipolar lines worth the name.
const LEAST_MOTION: f64 = 1e-3;

fn main() -> Result<(), Box<dyn Error>> {
    let (settings, folders): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word.contains('='));
    let user: KltPushOptions = toml::from_str(&settings.join("\n"))?;
    user.check()?;
    println!("| sequence | age | seen | alive | within {RIGHT_PX} px | median px | 90 % px |");
    println!("|---|---|---|---|---|---|---|");
    let none = Harm::default();
    let noise = Harm { noise: 4.0, ..none };
    let blur = Harm { noise: 2.0, shutter_s: 0.03, ..none };
    let exposure = Harm { noise: 1.0, exposure: 0.3, ..none };
    let paths = [
        ("hand-held", CameraPath::HandHeld, 5.0, none),
        ("hand-held", CameraPath::HandHeld, 10.0, none),
        ("orbit", CameraPath::Orbit, 5.0, none),
        ("forward", CameraPath::Forward, 5.0, none),
        ("pan", CameraPath::Pan, 10.0, none),
        ("hand-held, noise", CameraPath::HandHeld, 5.0, noise),
        ("hand-held, blur", CameraPath::HandHeld, 5.0, blur),
        ("hand-held, exposure", CameraPath::HandHeld, 5.0, exposure),
    ];
    let n_frames = MAX_AGE + 2 * SEED_FRAMES - 1;
    for (name, path, fps, harm) in paths {
        measure(&rendered(&format!("{name}, {fps} fps"), n_frames, fps, harm, on(path)), &user);
    }
    for (name, roll, zoom, zoom_rate) in
        [("roll", 0.26, 1.0, 0.0), ("zoom in", 0.0, 1.0, 0.12), ("zoom out", 0.0, 1.6, -0.12)]
    {
        let view = turning(roll, zoom, zoom_rate);
        measure(&rendered(&format!("{name}, 5 fps"), n_frames, 5.0, none, view), &user);
    }
    for folder in folders {
        let sequence = sequence::read(Path::new(&folder))?;
        if sequence.frames.len() < n_frames {
            return Err(
                format!("{folder} has {} pictures, {n_frames} are needed", sequence.frames.len()).into()
            );
        }
        measure(&sequence, &user);
    }
    Ok(())
}

/// Where every seed is at one age; none where its track ended.
type Row = Vec<Option<[f32; 2]>>;

/// What is true of a seed at one age.
enum Outcome {
    /// It is seen, but its track has ended.
    Lost,
    /// Its track lives this far from the truth.
    Off(f64),
}

fn measure(sequence: &Sequence, user: &KltPushOptions) {
    let first = &sequence.frames[0];
    let anchored = user.for_size(first.width, first.height);
    let free = KltOptions { anchor: false, ..anchored.clone() };
    let pyramids = pyramids_of(&sequence.frames, anchored.levels as usize);
    let [free, anchored] = [free, anchored].map(|options| outcomes_by_age(sequence, &pyramids, &options));
    for age in AGES {
        print_row(&sequence.name, age, [&free[age - 1], &anchored[age - 1]]);
    }
}

fn outcomes_by_age(
    sequence: &Sequence,
    pyramids: &[Pyramid],
    options: &KltOptions,
) -> [Vec<Outcome>; MAX_AGE] {
    let mut outcomes: [Vec<Outcome>; MAX_AGE] = Default::default();
    for from in (0..SEED_FRAMES).map(|i| 2 * i) {
        let seeds = seeds(&pyramids[from], options, from);
        let rows = track(&pyramids[from..=from + MAX_AGE], &seeds, options);
        match &sequence.truth {
            Truth::Flow { scene, views } => {
                for (seed_idx, &seed) in seeds.iter().enumerate() {
                    for (age, to) in true_track(scene, &views[from..], seed).enumerate() {
                        outcomes[age].push(outcome(rows[age][seed_idx], to));
                    }
                }
            }
            Truth::Poses { camera, poses } => {
                for (age, row) in rows.iter().enumerate() {
                    let ends = [&poses[from], &poses[from + age + 1]];
                    outcomes[age].extend(line_outcomes(camera, ends, &seeds, row));
                }
            }
        }
    }
    outcomes
}

fn pyramids_of(frames: &[Arc<GrayImage>], levels: usize) -> Vec<Pyramid> {
    let mut blurred_x = Vec::new();
    let pyramid_of = |gray| {
        let mut pyramid = Pyramid::default();
        pyramid.rebuild(gray, levels, &mut blurred_x);
        pyramid
    };
    frames.iter().map(pyramid_of).collect()
}

/// The strongest points of a frame, moved off the pixel grid: keypoints lie between pixels too.
fn seeds(pyramid: &Pyramid, options: &KltOptions, frame: usize) -> Vec<[f32; 2]> {
    let eigen = eigen_map_of(&pyramid.levels[0], options.window_px);
    let points = select_points(&eigen, &[], options, MAX_SEEDS, &mut SelectScratch::default());
    let mut rng = SplitMix64::new(1, frame as u64);
    let mut shift = || rng.unit() as f32 - 0.5;
    points.iter().map(|point| [point.x + shift(), point.y + shift()]).collect()
}

/// Tracks the seeds of the first pyramid through the others, a row for each.
fn track(pyramids: &[Pyramid], seeds: &[[f32; 2]], options: &KltOptions) -> Vec<Row> {
    let (mut anchors, mut scratch) = (Anchors::default(), TrackScratch::default());
    let ids: Vec<u32> = (0..seeds.len() as u32).collect();
    let mut records: Vec<TrackRecord> = seeds.iter().map(|&[x, y]| TrackRecord::start(x, y)).collect();
    let frames = pyramids.windows(2);
    frames
        .map(|pair| {
            let [from, to] = [&pair[0], &pair[1]];
            records = push_tracks(from, to, options, &ids, &records, &mut anchors, &mut scratch).to_vec();
            records.iter().map(|record| record.is_alive().then_some([record.x, record.y])).collect()
        })
        .collect()
}

/// Where a seed of the first view truly is at each age, as long as it is seen.
fn true_track(scene: &Scene, views: &[View], seed: [f32; 2]) -> impl Iterator<Item = [f64; 2]> {
    views[1..=MAX_AGE].iter().map_while(move |view| sequence::flow(scene, &views[0], view, seed))
}

fn outcome(at: Option<[f32; 2]>, to: [f64; 2]) -> Outcome {
    at.map_or(Outcome::Lost, |[x, y]| Outcome::Off((x as f64 - to[0]).hypot(y as f64 - to[1])))
}

/// Sampson distances in pixels; nothing where the camera hardly moved.
fn line_outcomes(
    &[fx, fy, cx, cy]: &[f64; 4],
    [pose1, pose2]: [&Pose; 2],
    seeds: &[[f32; 2]],
    row: &Row,
) -> Vec<Outcome> {
    if (pose1.center - pose2.center).norm() < LEAST_MOTION {
        return Vec::new();
    }
    let ray = |[x, y]: [f32; 2]| [(x as f64 - cx) / fx, (y as f64 - cy) / fy];
    let pairs = seeds.iter().zip(row).filter_map(|(&seed, at)| Some((ray(seed), ray((*at)?))));
    let points: PointPairs = pairs.map(|([x1, y1], [x2, y2])| [x1, y1, x2, y2]).collect();
    let focal = (fx * fy).sqrt();
    let essential = fitted_essential(&true_essential(pose1, pose2), &points, FIT_PX / focal);
    let mut squared = squared_residuals::<Sampson>(&essential, &points).into_iter();
    let mut distance = || squared.next().map_or(Outcome::Lost, |s| Outcome::Off(s.sqrt() * focal));
    row.iter().map(|at| if at.is_some() { distance() } else { Outcome::Lost }).collect()
}

/// The E that fits the points best, near the known one.
fn fitted_essential(known: &Matrix3<f64>, points: &PointPairs, scale: f64) -> Matrix3<f64> {
    let loss = Loss::GemanMcClure { scale2: scale * scale };
    EssentialChart::from_matrix(known)
        .and_then(|start| refine::<Sampson, EssentialChart>(start, points, loss, 50))
        .map_or(*known, |(chart, _)| chart.matrix())
}

fn print_row(name: &str, age: usize, outcomes: [&Vec<Outcome>; 2]) {
    let off = |outcome: &Outcome| if let Outcome::Off(distance) = outcome { Some(*distance) } else { None };
    let cells = outcomes.map(|outcomes| {
        let mut distances: Vec<f64> = outcomes.iter().filter_map(off).collect();
        distances.sort_by(f64::total_cmp);
        let n_right = distances.partition_point(|distance| *distance <= RIGHT_PX);
        let share = |n: usize| format!("{:.3}", n as f64 / outcomes.len().max(1) as f64);
        let quantile = |share: f64| {
            let at = distances.get((share * distances.len() as f64) as usize);
            at.map_or("-".to_owned(), |distance| format!("{distance:.3}"))
        };
        [share(distances.len()), share(n_right), quantile(0.5), quantile(0.9)]
    });
    print!("| {name} | {age} | {} |", outcomes[0].len());
    for (free, anchored) in cells[0].iter().zip(&cells[1]) {
        print!(" {free} / {anchored} |");
    }
    println!();
}
