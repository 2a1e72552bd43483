//! The selection of points to track.

#[path = "support/klt_cases.rs"]
mod klt_cases;
#[path = "support/klt_scene.rs"]
mod klt_scene;

use std::sync::OnceLock;

use klt_cases::{pyramid, scene, track};
use klt_scene::{Warp, from_function, textured};
use trackweave::klt::{EigenMap, KltOptions, SelectScratch, SelectedPoint, eigen_map_of, select_points};
use trackweave::picture::GrayImage;

fn eigen_of(image: &GrayImage, options: &KltOptions) -> EigenMap {
    eigen_map_of(&pyramid(image, 1).levels[0], options.window_px)
}

fn select(eigen: &EigenMap, alive: &[[f32; 2]], options: &KltOptions, room: usize) -> Vec<SelectedPoint> {
    select_points(eigen, alive, options, room, &mut SelectScratch::default())
}

fn defaults() -> KltOptions {
    KltOptions::for_size(640, 360)
}

/// The eigenvalue map of the scene.
fn scene_eigen() -> &'static EigenMap {
    static EIGEN: OnceLock<EigenMap> = OnceLock::new();
    EIGEN.get_or_init(|| eigen_of(&scene(640, 360), &defaults()))
}

fn distance(a: [f32; 2], b: [f32; 2]) -> f32 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}

fn close_pairs(points: &[[f32; 2]], limit: f32) -> usize {
    (0..points.len()).map(|i| points[..i].iter().filter(|&&p| distance(p, points[i]) < limit).count()).sum()
}

fn positions(points: &[SelectedPoint]) -> Vec<[f32; 2]> {
    points.iter().map(|p| [p.x, p.y]).collect()
}

#[test]
fn a_checkerboard_gives_its_corners_and_nothing_on_its_edges() {
    // Squares of 40 px: inside the margin of 7 px there are 4 x 2 corners.
    let board = from_function(200, 120, |x, y| [0.8, 0.2][(x as usize / 40 + y as usize / 40) % 2]);
    let picks = positions(&select(&eigen_of(&board, &defaults()), &[], &defaults(), 1024));
    let corner = |i: usize| [39.5 + 40.0 * (i % 4) as f32, 39.5 + 40.0 * (i / 4) as f32];
    for i in 0..8 {
        assert!(picks.iter().any(|&p| distance(p, corner(i)) < 1.6), "no pick at corner {:?}", corner(i));
    }
    for &pick in &picks {
        assert!((0..8).any(|i| distance(pick, corner(i)) < 1.6), "{pick:?} is at no corner");
    }
}

#[test]
fn picks_keep_margin_quality_and_distance() {
    let (eigen, options) = (scene_eigen(), defaults());
    let picks = select(eigen, &[], &options, usize::MAX);
    assert!(picks.len() > 500, "{} picks", picks.len());
    assert_eq!(close_pairs(&positions(&picks), 8.0), 0);
    for p in &picks {
        assert!(p.x >= 7.0 && p.y >= 7.0 && p.x <= 632.0 && p.y <= 352.0, "{p:?} is in the margin");
        assert!(p.strength >= 0.01 * eigen.max && p.strength == eigen.at(p.x, p.y));
    }
    // A pick falls to stronger ones only, so a stricter threshold takes the weak ones away and nothing else.
    let strict = KltOptions { quality_level: 0.5, ..options };
    let strong: Vec<_> = picks.iter().copied().filter(|p| p.strength >= 0.5 * eigen.max).collect();
    assert!(!strong.is_empty() && strong.len() < picks.len());
    assert_eq!(select(eigen, &[], &strict, usize::MAX), strong);
}

#[test]
fn distances_other_than_a_whole_number_hold_too() {
    for min_distance_px in [3.5, 5.0, 12.7, 40.0] {
        let options = KltOptions { min_distance_px, ..defaults() };
        let picks = positions(&select(scene_eigen(), &[], &options, usize::MAX));
        assert!(picks.len() > 20 && close_pairs(&picks, min_distance_px) == 0, "{min_distance_px}");
    }
}

#[test]
fn every_live_track_keeps_its_distance_also_where_several_share_a_cell() {
    let eigen = scene_eigen();
    let free = positions(&select(eigen, &[], &defaults(), usize::MAX));
    // Three tracks in the cell of every third pick, none at its middle.
    let alive: Vec<[f32; 2]> = free
        .iter()
        .step_by(3)
        .flat_map(|&[x, y]| {
            let corner = [x - x % 8.0, y - y % 8.0];
            [[0.2, 0.1], [7.2, 0.4], [3.0, 7.3]].map(|[dx, dy]| [corner[0] + dx, corner[1] + dy])
        })
        .collect();
    let picks = positions(&select(eigen, &alive, &defaults(), usize::MAX));
    assert!(picks.len() > 50, "{} picks", picks.len());
    for &pick in &picks {
        let nearest = alive.iter().map(|&a| distance(a, pick)).fold(f32::INFINITY, f32::min);
        assert!(nearest >= 8.0, "{pick:?} is {nearest} px from a live track");
    }
}

#[test]
fn little_room_goes_to_the_strongest() {
    let all = select(scene_eigen(), &[], &defaults(), usize::MAX);
    assert!(all.is_sorted_by(|a, b| a.strength >= b.strength));
    assert_eq!(select(scene_eigen(), &[], &defaults(), 10), all[..10]);
    assert_eq!(select(scene_eigen(), &[], &defaults(), 0), []);
}

#[test]
fn a_textureless_frame_gives_no_pick() {
    let flat = from_function(320, 200, |_, _| 0.5);
    let eigen = eigen_of(&flat, &defaults());
    assert_eq!(eigen.max, 0.0);
    let anything = KltOptions { quality_level: 0.0, ..defaults() };
    assert_eq!(select(&eigen, &[], &anything, 1024), []);
}

#[test]
fn any_size_selects_without_a_panic() {
    for (width, height) in [(0, 0), (1, 1), (2, 9), (15, 15), (16, 17), (40, 3)] {
        let options = KltOptions::for_size(width, height);
        let eigen = eigen_of(&textured(width, height, 3, 7), &options);
        let alive = [[0.0, 0.0], [-5.0, 1e9], [f32::NAN, 3.0]];
        let picks = select(&eigen, &alive, &options, 1024);
        assert!(picks.iter().all(|p| p.x < width as f32 && p.y < height as f32));
    }
}

/// What is selected, from the words of the design: of each cell without a live track the best pixel, if it is strong
/// enough and no stronger best pixel (of equals, of an earlier cell) and no live track is closer than the distance,
/// strongest first.
fn selected_plainly(eigen: &EigenMap, alive: &[[f32; 2]], options: &KltOptions) -> Vec<SelectedPoint> {
    let cell = options.min_distance_px as usize;
    let cell_of = |v: f32| (v + 0.5) as usize / cell;
    let mut best = Vec::new();
    for top in (0..eigen.height).step_by(cell) {
        for left in (0..eigen.width).step_by(cell) {
            let pixels = (top..(top + cell).min(eigen.height))
                .flat_map(|y| (left..(left + cell).min(eigen.width)).map(move |x| [x as f32, y as f32]));
            let strongest = pixels.fold(SelectedPoint::default(), |best, [x, y]| {
                let strength = eigen.at(x, y);
                if strength > best.strength { SelectedPoint { x, y, strength } } else { best }
            });
            let taken = alive.iter().any(|&[x, y]| (cell_of(x), cell_of(y)) == (left / cell, top / cell));
            if !taken && strongest.strength > 0.0 && strongest.strength >= options.quality_level * eigen.max {
                best.push(strongest);
            }
        }
    }
    let near = |a: &SelectedPoint, b: [f32; 2]| distance([a.x, a.y], b) < options.min_distance_px;
    let stays = |(i, p): &(usize, &SelectedPoint)| {
        let is_stronger = |j: usize, other: &SelectedPoint| {
            other.strength > p.strength || other.strength == p.strength && j < *i
        };
        !best.iter().enumerate().any(|(j, other)| is_stronger(j, other) && near(p, [other.x, other.y]))
            && !alive.iter().any(|&track| near(p, track))
    };
    let mut kept: Vec<SelectedPoint> = best.iter().enumerate().filter(stays).map(|(_, p)| *p).collect();
    kept.sort_by(|a, b| b.strength.total_cmp(&a.strength));
    kept
}

#[test]
fn the_points_are_those_of_the_design_s_words() {
    let (eigen, options) = (scene_eigen(), defaults());
    let strict = KltOptions { quality_level: 0.2, min_distance_px: 11.0, ..defaults() };
    let alive: Vec<[f32; 2]> =
        (0..300).map(|i| [(i * 37 % 640) as f32 + 0.3, (i * 53 % 360) as f32]).collect();
    for (options, alive) in [(&options, &alive[..0]), (&options, &alive[..]), (&strict, &alive[..60])] {
        let points = select(eigen, alive, options, usize::MAX);
        assert!(points.len() > 50, "{} points", points.len());
        assert_eq!(points, selected_plainly(eigen, alive, options));
    }
}

#[test]
fn the_eigenvalues_are_those_of_the_pixels_around() {
    let image = textured(48, 40, 12, 3);
    let eigen = eigen_of(&image, &KltOptions { window_px: 9, ..defaults() });
    let level = &pyramid(&image, 1).levels[0];
    for y in 0..40 {
        for x in 0..48 {
            let inside = (4..44).contains(&x) && (4..36).contains(&y);
            let mut g = [0.0f64; 3];
            for i in (0..9).filter(|_| inside).map(|k| (y + k / 3 - 1) * 48 + x + k % 3 - 1) {
                let (dx, dy) = (level.gradient_x[i] as f64, level.gradient_y[i] as f64);
                g = [g[0] + dx * dx, g[1] + dx * dy, g[2] + dy * dy];
            }
            let smaller = (g[0] + g[2] - ((g[0] - g[2]).powi(2) + 4.0 * g[1] * g[1]).sqrt()) / 2.0;
            let found = eigen.at(x as f32, y as f32) as f64;
            assert!((found - smaller).abs() < 1e-6, "({x}, {y}): {found}, not {smaller}");
        }
    }
}

#[test]
fn the_strongest_points_track_a_shift_to_05() {
    let first = scene(640, 360);
    let options = defaults();
    let points = positions(&select(scene_eigen(), &[], &options, 40));
    for shift in [[3.7, -2.1], [7.4, -4.2]] {
        let records = track(&first, &Warp::Shift(shift[0], shift[1]).apply(&first), &options, &points);
        let kept = records.iter().zip(&points).filter(|(r, _)| r.is_alive());
        let errors: Vec<f32> = kept
            .map(|(r, p)| distance([r.x, r.y], [p[0] + shift[0] as f32, p[1] + shift[1] as f32]))
            .collect();
        let worst = errors.iter().copied().fold(0.0, f32::max);
        println!("{shift:?}: {} of 40, worst {worst:.4}", errors.len());
        assert!(errors.len() >= 38 && worst < 0.05, "{} of 40, {worst} px", errors.len());
    }
}

#[test]
fn a_keyframe_after_tracking_appends_points_8_px_from_every_live_track() {
    let options = defaults();
    let first = scene(640, 360);
    let second = Warp::Shift(9.3, -6.4).apply(&first);
    let points = positions(&select(scene_eigen(), &[], &options, 400));
    let records = track(&first, &second, &options, &points);
    let alive: Vec<[f32; 2]> = records.iter().filter(|r| r.is_alive()).map(|r| [r.x, r.y]).collect();
    assert!(alive.len() > 300, "{} tracks live", alive.len());
    let room = options.capacity as usize - alive.len();
    let added = positions(&select(&eigen_of(&second, &options), &alive, &options, room));
    assert!(added.len() > 50, "{} points", added.len());
    for &point in &added {
        let nearest = alive.iter().map(|&track| distance(track, point)).fold(f32::INFINITY, f32::min);
        assert!(nearest >= 8.0, "{point:?} is {nearest} px from a live track");
    }
}

#[test]
fn cells_that_hold_a_live_track_give_no_point() {
    let free = positions(&select(scene_eigen(), &[], &defaults(), usize::MAX));
    // A track at the far corner of every second point's cell.
    let cell = |v: f32| (v as usize / 8 * 8) as f32;
    let alive: Vec<[f32; 2]> =
        free.iter().step_by(2).map(|[x, y]| [cell(*x) + 7.4, cell(*y) + 7.4]).collect();
    let picks = positions(&select(scene_eigen(), &alive, &defaults(), usize::MAX));
    for [x, y] in picks {
        assert!(!alive.iter().any(|a| cell(a[0]) == cell(x) && cell(a[1]) == cell(y)), "({x}, {y})");
    }
}
