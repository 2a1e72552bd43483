//! The selection of points to track.

#[path = "support/klt_scene.rs"]
#[allow(dead_code)]
mod klt_scene;

use std::sync::{Arc, OnceLock};

use klt_scene::{from_function, scene, textured};
use trackweave::kernels::Pyramid;
use trackweave::klt::{EigenMap, KltOptions, SelectScratch, SelectedPoint, eigen_map_of, select_points};
use trackweave::picture::GrayImage;

fn eigen_of(image: &GrayImage, options: &KltOptions) -> EigenMap {
    let mut pyramid = Pyramid::default();
    pyramid.rebuild(&Arc::new(image.clone()), 1, &mut Vec::new());
    eigen_map_of(&pyramid.levels[0], options.window_px)
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
    EIGEN.get_or_init(|| eigen_of(&scene(), &defaults()))
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
