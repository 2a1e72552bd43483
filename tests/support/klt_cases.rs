//! The cases of the tracker's verification: two frames with known motion, points, options. Tests hold their bars, the
//! clear form of the tracker is compared on all of them, `examples/klt_cases.rs` writes them for OpenCV.
#![allow(dead_code)] // each user takes a part

use std::sync::{Arc, OnceLock};

use trackweave::kernels::Pyramid;
use trackweave::kernels::klt_track::TrackRecord;
use trackweave::klt::{KltOptions, TrackScratch, track_points};
use trackweave::picture::GrayImage;

use super::klt_scene::{self, Warp, from_function, grid, paint};

/// A frame pair to track points through.
#[derive(Clone)]
pub struct Case {
    pub name: String,
    /// What the design reports of it, none where it says nothing.
    pub design: &'static str,
    pub first: Arc<GrayImage>,
    pub second: Arc<GrayImage>,
    /// How the points move; none where there is no one answer.
    pub warp: Option<Warp>,
    pub points: Vec<[f32; 2]>,
    pub options: KltOptions,
}

/// Errors of the tracks that are alive, in the order of the points.
pub struct Kept {
    pub errors: Vec<(usize, f64)>,
}

impl Kept {
    pub fn count(&self) -> usize {
        self.errors.len()
    }

    pub fn worst(&self) -> f64 {
        self.errors.iter().map(|&(_, error)| error).fold(0.0, f64::max)
    }

    pub fn median(&self) -> f64 {
        let mut errors: Vec<f64> = self.errors.iter().map(|&(_, error)| error).collect();
        errors.sort_by(f64::total_cmp);
        errors.get(errors.len() / 2).copied().unwrap_or(f64::NAN)
    }

    pub fn wrong_by_more_than(&self, px: f64) -> usize {
        self.errors.iter().filter(|&&(_, error)| error > px).count()
    }
}

impl Case {
    /// Where point `i` truly goes.
    pub fn truth(&self, i: usize) -> [f64; 2] {
        let size = [self.first.width, self.first.height];
        self.warp.expect("a case with one answer").forward(size, self.points[i].map(f64::from))
    }

    /// How far point `i` lies from the picture's centre.
    pub fn radius(&self, i: usize) -> f64 {
        let [x, y] = self.points[i].map(f64::from);
        (x - self.first.width as f64 / 2.0).hypot(y - self.first.height as f64 / 2.0)
    }

    /// The tracker's records.
    pub fn records(&self) -> Vec<TrackRecord> {
        track(&self.first, &self.second, &self.options, &self.points)
    }

    /// The errors of the tracks that the tracker keeps.
    pub fn kept(&self) -> Kept {
        self.errors(self.records().iter().map(|r| (r.is_alive(), [r.x as f64, r.y as f64])))
    }

    /// The errors of live tracks, given whether each is alive and where.
    pub fn errors(&self, tracks: impl Iterator<Item = (bool, [f64; 2])>) -> Kept {
        let alive = tracks.enumerate().filter(|(_, (alive, _))| *alive);
        let error = |(i, (_, [x, y])): (usize, (bool, [f64; 2]))| {
            let truth = self.truth(i);
            (i, (x - truth[0]).hypot(y - truth[1]))
        };
        Kept { errors: alive.map(error).collect() }
    }

    /// The same with other options.
    pub fn with(&self, change: impl FnOnce(&mut KltOptions)) -> Case {
        let mut case = self.clone();
        change(&mut case.options);
        case
    }

    /// The same at other points.
    pub fn at(&self, points: Vec<[f32; 2]>) -> Case {
        Case { points, ..self.clone() }
    }
}

/// The pyramid of a picture.
pub fn pyramid(image: &GrayImage, levels: u32) -> Pyramid {
    let mut pyramid = Pyramid::default();
    pyramid.rebuild(&Arc::new(image.clone()), levels as usize, &mut Vec::new());
    pyramid
}

/// Live records at points.
pub fn starts(points: &[[f32; 2]]) -> Vec<TrackRecord> {
    points.iter().map(|&[x, y]| TrackRecord::start(x, y)).collect()
}

/// Tracks points there and back.
pub fn track(
    first: &GrayImage,
    second: &GrayImage,
    options: &KltOptions,
    points: &[[f32; 2]],
) -> Vec<TrackRecord> {
    let (first, second) = (pyramid(first, options.levels), pyramid(second, options.levels));
    track_points(&first, &second, options, &starts(points), &mut TrackScratch::default()).to_vec()
}

/// The scene at a size, rendered once.
pub fn scene(width: usize, height: usize) -> Arc<GrayImage> {
    static SCENES: [OnceLock<Arc<GrayImage>>; 5] = [const { OnceLock::new() }; 5];
    let sizes = klt_scene::SIZES;
    let i = sizes.iter().position(|size| *size == (width, height)).expect("a size of the scene");
    SCENES[i].get_or_init(|| Arc::new(klt_scene::scene(width, height))).clone()
}

/// The case with its second frame relit.
pub fn relit(case: &Case, gain: f32, offset: f32) -> Case {
    let second = Arc::new(klt_scene::relit(&case.second, gain, offset));
    Case { second, ..case.clone() }
}

/// 40 points of the scene under a warp and a light, (gain, offset), with the options of its size.
fn case(
    name: impl Into<String>,
    design: &'static str,
    size: (usize, usize),
    warp: Warp,
    light: (f32, f32),
) -> Case {
    case_on(scene(size.0, size.1), name, design, warp, light)
}

/// The same on a first frame.
fn case_on(
    first: Arc<GrayImage>,
    name: impl Into<String>,
    design: &'static str,
    warp: Warp,
    light: (f32, f32),
) -> Case {
    let second = Arc::new(klt_scene::relit(&warp.apply(&first), light.0, light.1));
    let points = grid_of(&first, [8, 5]);
    let options = KltOptions::for_size(first.width, first.height);
    Case { name: name.into(), design, first, second, warp: Some(warp), points, options }
}

/// A grid with margins of 100 and 80 px of 640 x 360, in proportion at other sizes.
pub fn grid_of(image: &GrayImage, [columns, rows]: [usize; 2]) -> Vec<[f32; 2]> {
    let (width, height) = (image.width as f32, image.height as f32);
    // A portrait picture has its margins and grid turned too.
    if width > height {
        grid(image, columns, rows, [width * 100.0 / 640.0, height * 80.0 / 360.0])
    } else {
        grid(image, rows, columns, [width * 80.0 / 360.0, height * 100.0 / 640.0])
    }
}

pub const LANDSCAPE: (usize, usize) = (640, 360);
pub const LARGE: (usize, usize) = (1280, 720);
const SMALL: (usize, usize) = (320, 200);

const PLAIN: (f32, f32) = (1.0, 0.0);
const BRIGHTER: (f32, f32) = (1.1, 0.05);
const DARKER: (f32, f32) = (0.7, 0.0);

/// The shifts at 640 x 360, 40 points of their own scene.
pub fn translation(dx: f64, dy: f64) -> Case {
    static SCENE: OnceLock<Arc<GrayImage>> = OnceLock::new();
    let first = SCENE.get_or_init(|| Arc::new(klt_scene::scene_of_shifts())).clone();
    let name = format!("shift ({dx}, {dy})");
    case_on(first, name, "", Warp::Shift(dx, dy), PLAIN)
}

/// The same on 12 points.
pub fn translation_of_12(dx: f64, dy: f64) -> Case {
    let design = match dx {
        0.3 => "12, .012",
        3.7 => "12, .014",
        12.5 => "12, .019",
        _ => "12, .003",
    };
    let case = translation(dx, dy);
    let points = grid_of(&case.first, [4, 3]);
    Case { design, ..case.at(points) }
}

/// The largest shift on 24 points with fewer levels.
pub fn with_levels(levels: u32) -> Case {
    let large = case("", "", LANDSCAPE, Warp::Shift(30.0, -24.0), PLAIN);
    let points = grid_of(&large.first, [6, 4]);
    let case = large.at(points).with(|options| options.levels = levels);
    let design = if levels == 1 { "9, about 40, 9 off" } else { "12, 0 off" };
    Case { name: format!("shift (30, -24), levels {levels}"), design, ..case }
}

/// The shift of (60, -48) at 1280 x 720.
pub fn translation_1280() -> Case {
    let case =
        case("1280: shift (60, -48)", "22; of 12 points 11, .003", LARGE, Warp::Shift(60.0, -48.0), PLAIN);
    let points = grid_of(&case.first, [6, 4]);
    case.at(points)
}

/// A rotation at 640 x 360.
pub fn rotation(degrees: f64) -> Case {
    let design = match degrees {
        2.0 => "",
        5.0 => "40, .42 at r <= 150",
        _ => "2 off",
    };
    case(format!("rotation by {degrees} degrees"), design, LANDSCAPE, Warp::Turn(degrees), PLAIN)
}

/// A change of scale by 1.05 at 640 x 360.
pub fn scale() -> Case {
    case("scale 1.05", "", LANDSCAPE, Warp::Scale(1.05), PLAIN)
}

/// 12 points of the small scene.
fn small(name: &str, design: &'static str, warp: Warp, light: (f32, f32)) -> Case {
    let case = case(format!("320: {name}"), design, SMALL, warp, light);
    let points = grid_of(&case.first, [4, 3]);
    // The design had five levels here too.
    case.at(points).with(|options| options.levels = 5)
}

pub fn small_rotation() -> Case {
    small("rotation by 5 degrees", "12, .439", Warp::Turn(5.0), PLAIN)
}

pub fn small_scale() -> Case {
    small("scale 1.05", "12, .174", Warp::Scale(1.05), PLAIN)
}

pub fn small_brightness() -> Case {
    small("gain 1.1, offset .05", "12, .290", Warp::NONE, BRIGHTER)
}

/// Gain 1.1 and offset .05, nothing moves.
pub fn brighter(photometric: u32) -> Case {
    let design = ["4, 3.8", "40, .356", "40, .292, .000"][photometric as usize];
    let name = format!("gain 1.1, offset .05, photometric {photometric}");
    case(name, design, LANDSCAPE, Warp::NONE, BRIGHTER).with(|options| options.photometric = photometric)
}

/// Gain 0.7, nothing moves.
pub fn darker(photometric: u32) -> Case {
    let design = ["", "39, 1.27", "40, .000"][photometric as usize];
    let name = format!("gain .7, photometric {photometric}");
    case(name, design, LANDSCAPE, Warp::NONE, DARKER).with(|options| options.photometric = photometric)
}

/// What the design left open at 1280 x 720, and portrait pictures.
pub fn other_sizes() -> Vec<Case> {
    let at = |size: (usize, usize), name: &str, warp, light| {
        case(format!("{} x {}: {name}", size.0, size.1), "", size, warp, light)
    };
    let mut cases = Vec::new();
    for size in [LARGE, (360, 640), (720, 1280)] {
        cases.push(at(size, "shift (12.5, 9)", Warp::Shift(12.5, 9.0), PLAIN));
        cases.push(at(size, "rotation by 2 degrees", Warp::Turn(2.0), PLAIN));
        cases.push(at(size, "rotation by 5 degrees", Warp::Turn(5.0), PLAIN));
        cases.push(at(size, "scale 1.05", Warp::Scale(1.05), PLAIN));
        cases.push(at(size, "gain 1.1, offset .05", Warp::NONE, BRIGHTER));
    }
    cases
}

/// Ten points that end or live: two clean ones last.
pub fn failures() -> Case {
    let mut first = (*scene(640, 360)).clone();
    paint(&mut first, [100, 100], 60, |_, _| 0.4);
    paint(&mut first, [200, 100], 60, |x, _| if x == 230 { 0.9 } else { 0.4 });
    paint(&mut first, [300, 100], 60, |_, y| if y == 130 { 0.9 } else { 0.4 });
    let mut second = Warp::Shift(5.0, -4.0).apply(&first);
    let other = |x: f32, y: f32| 0.5 + 0.3 * (0.7 * x + 0.4 * y).sin() * (0.3 * x - 0.6 * y).sin();
    paint(&mut second, [390, 200], 60, |x, y| other(x as f32, y as f32));
    let points = vec![
        [130.0, 130.0],
        [230.0, 130.0],
        [330.0, 130.0],
        [637.0, 180.0],
        [320.0, 2.0],
        [-1.0, 180.0],
        [412.0, 225.0],
        [420.0, 240.0],
        [520.0, 120.0],
        [60.5, 250.25],
    ];
    let case = case("failures", "2", LANDSCAPE, Warp::NONE, PLAIN);
    let (first, second) = (Arc::new(first), Arc::new(second));
    Case { first, second, warp: Some(Warp::Shift(5.0, -4.0)), points, ..case }
}

/// A texture that repeats every 8 px, shifted by 4 px: 96 points that may go either way.
pub fn periodic() -> Case {
    let wave = |v: f32, shift: f32| (std::f32::consts::TAU / 8.0 * (v - shift)).sin();
    let texture = |shift| from_function(640, 360, |x, y| 0.5 + 0.2 * wave(x, shift) + 0.2 * wave(y, 0.0));
    let (first, second) = (Arc::new(texture(0.0)), Arc::new(texture(4.0)));
    let points = grid(&first, 12, 8, [103.0, 81.0]);
    let options = KltOptions::for_size(640, 360);
    let design = "0 (68 wrong ones dropped)";
    Case {
        name: "period 8, shift 4".into(),
        design,
        first,
        second,
        warp: Some(Warp::Shift(4.0, 0.0)),
        points,
        options,
    }
}

/// Every case.
pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for (dx, dy) in [(0.3, 0.2), (3.7, -2.1), (12.5, 9.0), (30.0, -24.0)] {
        cases.extend([translation_of_12(dx, dy), translation(dx, dy)]);
    }
    cases.extend([1, 4].map(with_levels));
    cases.push(translation_1280());
    cases.extend([2.0, 5.0, 10.0].map(rotation));
    cases.push(scale());
    cases.extend([0, 1, 2].map(brighter));
    cases.extend([0, 1, 2].map(darker));
    cases.extend([small_rotation(), small_scale(), small_brightness()]);
    cases.extend(other_sizes());
    cases.extend([failures(), periodic()]);
    cases
}
