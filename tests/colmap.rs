//! What export writes: the database value by value, images, tracks.csv, the run record.

#[path = "support/colmap_reader.rs"]
mod colmap_reader;
#[path = "support/projected_scene.rs"]
mod projected_scene;

use std::path::Path;
use std::sync::LazyLock;

use colmap_reader::Database;
use projected_scene::{N_CAMERAS, PARAMS, SIZES, frames, points_of_keypoints, pose};
use tempfile::TempDir;
use trackweave::colmap::database::{DatabaseError, DatabaseWriter};
use trackweave::geometry::camera::CameraOptions;
use trackweave::message::{Sizes, VerifiedFrame};
use trackweave::record::RunRecord;
use trackweave::stages::export::{Export, ExportOptions, ImageFormat};
use trackweave::stages::{RunContext, Stage, StageError, StreamEnd};

fn context(out: &Path) -> RunContext {
    RunContext {
        input: "arc.webm".into(),
        out: out.to_owned(),
        seed: 1,
        camera: CameraOptions { model: Some("PINHOLE".into()), params: Some(PARAMS.to_vec()) },
        max_image_size_px: None,
        verdict_lag_frames: 4,
        ..RunContext::default()
    }
}

fn export(
    options: ExportOptions,
    frames: Vec<VerifiedFrame>,
    end: StreamEnd,
) -> (TempDir, RunRecord, Result<(), StageError>) {
    let out = tempfile::tempdir().unwrap();
    let context = context(out.path());
    let mut stage = Export::new(options, &context).unwrap();
    let fired = frames.into_iter().try_for_each(|frame| stage.fire(frame));
    let finished = fired.and_then(|()| stage.finish(end));
    drop(stage);
    let record = context.record.lock().clone();
    (out, record, finished)
}

fn with_tracks() -> ExportOptions {
    ExportOptions { tracks: true, ..Default::default() }
}

/// One run that the tests only read.
fn exported() -> &'static (TempDir, Database, RunRecord) {
    static RUN: LazyLock<(TempDir, Database, RunRecord)> = LazyLock::new(exported_anew);
    &RUN
}

fn exported_anew() -> (TempDir, Database, RunRecord) {
    let (out, record, finished) = export(with_tracks(), frames(), StreamEnd::Complete);
    finished.unwrap();
    let database = Database::read(&out.path().join("database.db"));
    (out, database, record)
}

#[test]
fn the_layout_is_that_of_colmap_3_8() {
    let (_out, database, _) = exported();
    assert_eq!(database.stamp, 3800);
    let tables: Vec<String> =
        database.columns.iter().map(|(table, columns)| format!("{table}: {}", columns.join(" "))).collect();
    insta::assert_snapshot!(tables.join("\n"), @r#"
    cameras: camera_id model width height params prior_focal_length
    descriptors: image_id rows cols data
    images: image_id name camera_id prior_qw prior_qx prior_qy prior_qz prior_tx prior_ty prior_tz
    keypoints: image_id rows cols data
    matches: pair_id rows cols data
    sqlite_sequence: name seq
    two_view_geometries: pair_id rows cols data config F E H qvec tvec
    "#);
}

#[test]
fn images_stand_in_one_order_of_id_name_and_time() {
    let (out, database, record) = exported();
    let camera = &database.cameras[0];
    assert_eq!((database.cameras.len(), camera.id, camera.model, camera.size), (1, 1, 1, SIZES.exported));
    assert_eq!((camera.params.as_slice(), camera.prior), (PARAMS.as_slice(), true));
    assert_eq!(database.images.len(), N_CAMERAS as usize);
    for (keyframe, (id, name, camera)) in database.images.iter().enumerate() {
        assert_eq!((*id, *camera), (keyframe as u32 + 1, 1));
        assert_eq!(*name, format!("frame_{:06}.jpg", 6 * keyframe));
        let picture = image::open(out.path().join("images").join(name)).unwrap().to_rgb8();
        assert_eq!(picture.dimensions(), SIZES.exported);
        let gray = |x: u32, y: u32| (x / 4 + y / 8 + keyframe as u32) as u8;
        let difference = |(x, y, rgb): (u32, u32, &image::Rgb<u8>)| rgb.0.map(|v| v.abs_diff(gray(x, y)));
        let worst = picture.enumerate_pixels().flat_map(difference).max();
        assert!(worst <= Some(2), "{name} is off by {worst:?}");
        assert_eq!(record.frames[2 * keyframe].image.as_ref(), Some(name));
    }
}

#[test]
fn keypoints_lie_where_the_points_project() {
    let (_out, database, _) = exported();
    let source = frames();
    for keyframe in 0..N_CAMERAS {
        let rows = &database.keypoints[&(keyframe + 1)];
        let features = &source[2 * keyframe as usize].keyframe.as_ref().unwrap().0.features;
        assert_eq!(rows.len(), features.keypoints.len());
        for (row, keypoint) in rows.iter().zip(&features.keypoints) {
            let error = (f64::from(row[0]) - 2.0 * (f64::from(keypoint.x) + 0.5)).abs()
                + (f64::from(row[1]) - 2.0 * (f64::from(keypoint.y) + 0.5)).abs();
            assert!(error < 1e-4, "keypoint {keypoint:?} was written as {row:?}");
            let (sin, cos) = f64::from(keypoint.orientation).sin_cos();
            let shape = [3.0 * cos, -3.0 * sin, 3.0 * sin, 3.0 * cos];
            assert!(
                row[2..].iter().zip(shape).all(|(&a, b)| (f64::from(a) - b).abs() < 1e-5),
                "{row:?}, not {shape:?}"
            );
        }
        assert_eq!(database.descriptors[&(keyframe + 1)], features.descriptors);
    }
}

/// Through the inliers to the points: both columns name the same point, and F holds on what was written.
#[test]
fn inliers_satisfy_the_epipolar_constraint_in_the_database() {
    let (_out, database, _) = exported();
    assert_eq!(database.geometries.len() + 1, database.matches.len());
    for (&(first, second), geometry) in &database.geometries {
        assert_eq!((geometry.config, geometry.h.is_none()), (2, true));
        assert_eq!(geometry.inliers, database.matches[&(first, second)]);
        let f = geometry.f.as_ref().unwrap();
        let (points_1, points_2) = (points_of_keypoints(first - 1), points_of_keypoints(second - 1));
        for [a, b] in geometry.inliers.iter().map(|row| row.map(|index| index as usize)) {
            assert_eq!(points_1[a], points_2[b], "pair {first}, {second}: row {a}, {b}");
            let [x1, y1] = [0, 1].map(|i| f64::from(database.keypoints[&first][a][i]));
            let [x2, y2] = [0, 1].map(|i| f64::from(database.keypoints[&second][b][i]));
            let line: [f64; 3] =
                std::array::from_fn(|row| f[3 * row] * x1 + f[3 * row + 1] * y1 + f[3 * row + 2]);
            let distance = (line[0] * x2 + line[1] * y2 + line[2]).abs() / line[0].hypot(line[1]);
            assert!(distance < 1e-3, "pair {first}, {second}: {distance} px from the epipolar line");
        }
    }
}

#[test]
fn a_failed_pair_keeps_its_matches_and_no_geometry() {
    let (_out, database, record) = exported();
    assert_eq!(database.matches[&(1, 6)].len(), 400);
    assert!(!database.geometries.contains_key(&(1, 6)));
    let pair = record.pairs.iter().find(|pair| (pair.first, pair.second) == (1, 6)).unwrap();
    insta::assert_snapshot!(serde_json::to_string(pair).unwrap(), @r#"{"first":1,"second":6,"klt":40,"sift":308,"both":52,"inliers":0,"inliers_by_source":{"klt":0,"sift":0,"both":0},"config":null,"parallax":null}"#);
}

/// cam2_from_cam1 of the database, against the cameras: it maps the first camera's rays to the second's.
#[test]
fn poses_are_cam2_from_cam1() {
    let (_out, database, _) = exported();
    let geometry = &database.geometries[&(2, 4)];
    let (q, t) = (geometry.qvec.as_ref().unwrap(), geometry.tvec.as_ref().unwrap());
    let rotation =
        nalgebra::UnitQuaternion::from_quaternion(nalgebra::Quaternion::new(q[0], q[1], q[2], q[3]));
    let (a, b) = (pose(1), pose(3));
    assert!(
        (rotation.to_rotation_matrix().matrix() - (b.rotation * a.rotation.inverse()).matrix()).norm()
            < 1e-12
    );
    let baseline = b.translation - rotation * a.translation;
    assert!((nalgebra::Vector3::from_row_slice(t) - baseline.normalize()).norm() < 1e-12);
}

#[test]
fn an_image_of_another_size_gets_a_camera_of_its_own() {
    let mut frames = frames();
    frames.truncate(3);
    let (keyframe, _) = frames[2].keyframe.as_mut().unwrap();
    std::sync::Arc::get_mut(keyframe).unwrap().sizes = Sizes { exported: (320, 240), scale: 1.0, ..SIZES };
    let (out, _, finished) = export(
        ExportOptions { image_format: ImageFormat::Png, ..Default::default() },
        frames,
        StreamEnd::Complete,
    );
    finished.unwrap();
    let database = Database::read(&out.path().join("database.db"));
    assert_eq!(
        database.cameras.iter().map(|camera| camera.size).collect::<Vec<_>>(),
        [(640, 480), (320, 240)]
    );
    assert_eq!(database.images[1], (2, "frame_000006.png".to_owned(), 2));
    assert_eq!(image::image_dimensions(out.path().join("images/frame_000006.png")).unwrap(), (320, 240));
}

#[test]
fn tracks_end_with_their_reason_at_the_frame_before() {
    let (out, _, record) = exported();
    let csv = std::fs::read_to_string(out.path().join("tracks.csv")).unwrap();
    let rows: Vec<&str> = csv.lines().collect();
    let last = rows[rows.len() - 1];
    insta::assert_snapshot!([&rows[..3], &rows[8..13], &[last]].concat().join("\n"), @r#"
    track_id,frame,pts_s,x,y,end_reason
    0,0,0.000000000,1.0000,41.5000,
    1,0,0.000000000,21.0000,41.5000,
    1,9,0.300300300,27.0000,41.5000,
    0,12,0.400400400,9.0000,41.5000,
    1,12,0.400400400,29.0000,41.5000,6
    2,12,0.400400400,49.0000,41.5000,5
    0,15,0.500500500,11.0000,41.5000,
    0,69,2.302302300,47.0000,41.5000,0
    "#);
    assert_eq!(rows.len(), 1 + 24 + 5 + 1);
    insta::assert_snapshot!(serde_json::to_string(&(&record.ends, &record.track_lengths)).unwrap(), @r#"[{"out_of_frame":0,"low_structure":0,"no_convergence":0,"forward_backward":0,"residual":1,"epipolar":1,"age":0},[{"frames":1,"tracks":1},{"frames":5,"tracks":1},{"frames":24,"tracks":1}]]"#);
}

#[test]
fn the_record_is_snake_case_json_in_the_order_of_its_fields() {
    let (_out, record, finished) = export(ExportOptions::default(), frames(), StreamEnd::Complete);
    finished.unwrap();
    let mut record = record;
    record.frames.drain(6..);
    record.frames.drain(..4);
    record.keyframes.truncate(2);
    record.pairs.truncate(1);
    record.bytes.clear();
    insta::with_settings!({snapshot_path => "../snapshots", prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("run_record", serde_json::to_string_pretty(&record).unwrap());
    });
    let read: RunRecord = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
    assert_eq!(read, record);
}

#[test]
fn the_same_frames_give_the_same_bytes() {
    let read = |out: &TempDir, name: &str| std::fs::read(out.path().join(name)).unwrap();
    let (a, b) = (&exported().0, &exported_anew().0);
    for name in ["database.db", "tracks.csv", "images/frame_000006.jpg"] {
        assert!(read(a, name) == read(b, name), "{name} differs between two runs");
    }
}

#[test]
fn only_the_database_is_left() {
    let (out, _, record) = exported();
    let mut names: Vec<String> = out
        .path()
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["database.db", "images", "tracks.csv"]);
    assert_eq!(record.bytes["database"], out.path().join("database.db").metadata().unwrap().len());
}

/// A stage that is dropped without `finish` (its own firing failed) leaves every keyframe before.
#[test]
fn a_failed_run_leaves_a_readable_database() {
    let mut broken = frames();
    broken.truncate(9);
    broken[8].keyframe.as_mut().unwrap().1[1].matches[0].second = 400;
    let (out, record, finished) = export(with_tracks(), broken, StreamEnd::Complete);
    insta::assert_snapshot!(finished.unwrap_err(), @"pair of images 2 and 5: a match names keypoints [0, 400], but there are [400, 400]");
    let database = Database::read(&out.path().join("database.db"));
    assert_eq!((database.images.len(), database.matches.len()), (4, 6));
    assert_eq!(record.frames.len(), 8);
    assert!(!out.path().join("database.db-journal").exists());
}

#[test]
fn a_stream_that_was_cut_is_closed_and_says_so() {
    let mut cut = frames();
    cut.truncate(4);
    let (out, record, finished) = export(with_tracks(), cut, StreamEnd::Cut);
    finished.unwrap();
    assert_eq!(record.warnings[0], "the run was cut after frame 9: this is what there was until then");
    let csv = std::fs::read_to_string(out.path().join("tracks.csv")).unwrap();
    assert_eq!(csv.lines().last(), Some("1,9,0.300300300,27.0000,41.5000,"));
}

#[test]
fn an_empty_result_is_an_error() {
    let (_out, _, none) = export(ExportOptions::default(), Vec::new(), StreamEnd::Complete);
    let dropped = frames().into_iter().filter(|frame| frame.keyframe.is_none()).take(4);
    let dropped = dropped.map(|mut frame| {
        frame.log.ends.clear();
        frame
    });
    let (_out, _, no_keyframe) = export(ExportOptions::default(), dropped.collect(), StreamEnd::Complete);
    insta::assert_snapshot!(format!("{}\n{}", none.unwrap_err(), no_keyframe.unwrap_err()), @r#"
    no frame came out of arc.webm: look whether it plays
    none of the 4 frames of arc.webm became a keyframe: look at --keyframes and keyframe_gate
    "#);
}

#[test]
fn options_and_outputs_are_checked_before_the_first_frame() {
    let out = tempfile::tempdir().unwrap();
    let quality = ExportOptions { jpeg_quality: 0, ..Default::default() };
    let error = Export::new(quality, &context(out.path())).err().unwrap();
    insta::assert_snapshot!(error, @"export.jpeg_quality is 0, it must be in 1..=100");
    std::fs::write(out.path().join("database.db"), "mine").unwrap();
    let error = Export::new(ExportOptions::default(), &context(out.path())).err().unwrap();
    let place = out.path().to_str().unwrap();
    insta::assert_snapshot!(error.to_string().replace(place, "OUT"), @"database OUT/database.db exists already: remove it or write elsewhere");
}

#[test]
fn the_writer_refuses_what_colmap_cannot_read() {
    let out = tempfile::tempdir().unwrap();
    let mut writer = DatabaseWriter::create(&out.path().join("database.db")).unwrap();
    let errors: [DatabaseError; 4] = [
        writer.add_image(0, "a.jpg", 1).unwrap_err(),
        writer.add_image(u32::MAX, "a.jpg", 1).unwrap_err(),
        writer.write_features(1, &[[0.0; 6]], &[]).unwrap_err(),
        writer.write_matches(5, 3, [[0, 0]]).unwrap_err(),
    ];
    insta::assert_snapshot!(errors.map(|error| error.to_string()).join("\n"), @r#"
    image id 0 is not in 1..=2147483646
    image id 4294967295 is not in 1..=2147483646
    image 1: 0 descriptors for 1 keypoints
    pair of images 5 and 3: the first id must be the smaller one
    "#);
}
