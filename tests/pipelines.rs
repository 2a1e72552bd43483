//! Whole pipelines on rendered sequences: what comes out is frozen, right, and the same bits each time.
//!
//! After an intended change: INSTA_UPDATE=always cargo test --test pipelines

#[path = "support/colmap_reader.rs"]
mod colmap_reader;
#[path = "support/outcome.rs"]
mod outcome;
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use outcome::{Outcome, snapshot};
use support::Sequence;
use tempfile::TempDir;
use trackweave::device::BackendChoice;
use trackweave::geometry::camera::CameraOptions;
use trackweave::launcher::progress::Progress;
use trackweave::launcher::{self, LaunchError, PipelineRequest, RunRequest};
use trackweave::message::{EndReason, GateReason};
use trackweave::scene::demo::Demo;
use trackweave::scene::evaluation::Evaluation;
use trackweave::scene::{CameraPath, Pose};

/// Image folders at the rendered rate, every image.
const EVERY_IMAGE: [&str; 2] = ["frame_decode.folder_fps=10", "frame_decode.sample_fps=all"];

/// A folder of a test with the input `images`; a run's result stands in `out`.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        fs::create_dir(place.path("images")).unwrap();
        place
    }

    fn with(sequence: &Sequence) -> Place {
        let place = Place::new();
        sequence.write_folder(&place.path("images"));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn request(&self, pipeline: &str, set: &[&str]) -> RunRequest {
        let set = EVERY_IMAGE.iter().chain(set).map(|text| text.to_string()).collect();
        RunRequest {
            pipeline: PipelineRequest { name: pipeline.into(), set, ..PipelineRequest::default() },
            input: self.path("images").to_string_lossy().into_owned(),
            out: self.path("out"),
            backend: BackendChoice::Cpu,
            ..RunRequest::default()
        }
    }

    /// Runs a pipeline with options of stages.
    fn run(&self, pipeline: &str, set: &[&str]) -> Outcome {
        run(&self.request(pipeline, set))
    }

    /// The program as a process of its own, with a number of threads for rayon.
    fn call(&self, out: &str, threads: &str, more: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trackweave"));
        command.args(["run", "full", "--input", "images", "--tracks", "--backend", "cpu", "--out", out]);
        command.args(more);
        command.args(EVERY_IMAGE.iter().chain(&["export.matches=true"]).flat_map(|set| ["--set", set]));
        command.current_dir(self.0.path()).env("RAYON_NUM_THREADS", threads).output().unwrap()
    }
}

fn run(request: &RunRequest) -> Outcome {
    launcher::run(request, Arc::new(Progress::hidden())).unwrap();
    Outcome::read(&request.out)
}

/// `full` with the true camera.
fn run_with_camera(sequence: &Sequence, set: &[&str]) -> (Place, Outcome) {
    let place = Place::with(sequence);
    let params = sequence.intrinsics.colmap_params().to_vec();
    let camera = CameraOptions { model: Some("SIMPLE_PINHOLE".into()), params: Some(params) };
    let outcome = run(&RunRequest { camera, ..place.request("full", set) });
    (place, outcome)
}

#[test]
fn an_orbit_is_as_it_was() {
    snapshot("pipelines_orbit", &run_with_camera(&Sequence::small(CameraPath::Orbit), &[]).1.text());
}

#[test]
fn a_pan_is_as_it_was() {
    snapshot("pipelines_pan", &run_with_camera(&Sequence::small(CameraPath::Pan), &[]).1.text());
}

#[test]
fn a_walk_ahead_with_an_unknown_camera_is_as_it_was() {
    let place = Place::with(&Sequence::small(CameraPath::Forward));
    snapshot("pipelines_forward", &place.run("full", &[]).text());
}

#[cfg(feature = "video")]
#[test]
fn a_video_is_as_it_was() {
    use trackweave::video::encode::{VideoEncoder, VideoQuality};

    let place = Place::new();
    let video = place.path("video.mkv");
    let mut encoder = VideoEncoder::create(&video, 320, 240, 10, 1, VideoQuality::Lossless).unwrap();
    let sequence = Sequence::small(CameraPath::HandHeld);
    sequence.pictures.iter().for_each(|picture| encoder.push(picture).unwrap());
    encoder.finish().unwrap();
    let request = place.request("full", &[]);
    let outcome = run(&RunRequest { input: video.to_string_lossy().into_owned(), ..request });
    snapshot("pipelines_video", &outcome.text());
}

/// Median angle at which the true rays of a pair's inliers meet, by the depth of the scene where the first image sees
/// them.
fn true_angle_deg(sequence: &Sequence, outcome: &Outcome, first: u32, second: u32) -> f64 {
    let pose = |id: u32| {
        let image = &outcome.record.keyframes[id as usize - 1].image;
        let frame = outcome.record.frames.iter().find(|frame| frame.image.as_ref() == Some(image)).unwrap();
        sequence.poses[frame.frame as usize]
    };
    let (from, to) = (pose(first), pose(second));
    let depth = sequence.scene.depth(&from, &sequence.intrinsics);
    let angle = |[a, _]: &[u32; 2]| {
        let keypoint = outcome.database.keypoints[&first][*a as usize];
        let [x, y] = [keypoint[0] as usize, keypoint[1] as usize];
        let ray = sequence.intrinsics.ray(x as f64, y as f64);
        let point = from.world_from_cam(&(ray * depth[y * sequence.intrinsics.width as usize + x]));
        (point - from.center).angle(&(point - to.center)).to_degrees()
    };
    let inliers = &outcome.database.geometries[&(first, second)].inliers;
    let mut angles: Vec<f64> = inliers.iter().map(angle).collect();
    angles.sort_by(f64::total_cmp);
    angles[angles.len() / 2]
}

#[test]
fn the_pair_to_begin_with_has_parallax() {
    let sequence = Sequence::small(CameraPath::Orbit);
    let (_place, outcome) = run_with_camera(&sequence, &[]);
    let pair = outcome.record.initial_pair.expect("an orbit has one");
    let truth = true_angle_deg(&sequence, &outcome, pair.first, pair.second);
    assert!((pair.parallax.median_angle_deg / truth - 1.0).abs() < 0.05, "{pair:?}, in truth {truth}");
    assert!(truth > 5.0 && pair.inliers >= 100 && !pair.forward_only, "{pair:?}");

    let (_place, outcome) = run_with_camera(&Sequence::small(CameraPath::Pan), &[]);
    assert_eq!(outcome.record.initial_pair, None);

    let (_place, outcome) = run_with_camera(&Sequence::small(CameraPath::Forward), &[]);
    let pair = outcome.record.initial_pair;
    assert!(pair.is_some_and(|pair| pair.forward_only), "{pair:?}");
}

#[test]
fn a_loop_is_closed() {
    // Once around the table in 40 pictures: those from 40 on stand where the first ones stood.
    let place = Place::with(&Sequence::render(CameraPath::Loop, 43, 5.0, (320, 240)));
    let far_pairs = |loops: &str| {
        let record = place
            .run("sift", &["keyframe_gate.tests=[]", "descriptor_match.keyframes_back=[1,2,3,4]", loops])
            .record;
        fs::remove_dir_all(place.path("out")).unwrap();
        let far = record.pairs.into_iter().filter(|pair| pair.second > pair.first + 4);
        far.map(|pair| (pair.first, pair.second, pair.inliers)).collect::<Vec<_>>()
    };
    assert_eq!(far_pairs("descriptor_match.loops=0"), []);
    let found = far_pairs("descriptor_match.loops=3");
    for id in 1..=3 {
        assert!(
            found.iter().any(|pair| (pair.0, pair.1) == (id, id + 40) && pair.2 > 300),
            "{id}: {found:?}"
        );
    }
    let apart = |pair: &(u32, u32, u32)| (pair.1 - pair.0).abs_diff(40);
    assert!(found.iter().all(|pair| apart(pair) <= 5), "no other place is verified: {found:?}");
}

/// Everything in a result but the times of the stages, by file.
fn bits(out: &Path) -> BTreeMap<String, Vec<u8>> {
    let in_folder = |folder: &str| fs::read_dir(out.join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let files = in_folder("").chain(in_folder("images")).filter(|path| path.is_file());
    let mut bits: BTreeMap<_, _> = files
        .map(|path| (path.strip_prefix(out).unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap()))
        .collect();
    let mut record: serde_json::Value = serde_json::from_slice(&bits["run.json"]).unwrap();
    record.as_object_mut().unwrap().remove("stages").expect("stages are recorded");
    bits.insert("run.json".into(), record.to_string().into_bytes());
    bits
}

#[test]
fn threads_and_queues_change_no_bit() {
    let place = Place::with(&Sequence::small(CameraPath::Orbit));
    let result = |out: &str, threads: &str, queue: &str| {
        let output = place.call(out, threads, &["--queue", queue]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        bits(&place.path(out))
    };
    let first = result("first", "1", "1");
    let names: Vec<&str> = first.keys().map(String::as_str).take(4).collect();
    assert_eq!(names[..3], ["database.db", "images/frame_000000.jpg", "images/frame_000002.jpg"]);
    for (threads, queue) in [("1", "1"), ("2", "1"), ("2", "8"), ("5", "2")] {
        let other = result(&format!("threads_{threads}_queue_{queue}"), threads, queue);
        let differing: Vec<_> = first.iter().filter(|(name, bits)| other.get(*name) != Some(bits)).collect();
        let differing: Vec<_> = differing.into_iter().map(|(name, _)| name).collect();
        assert!(differing.is_empty(), "{threads} threads, queues of {queue}: {differing:?} differ");
        assert_eq!(first.len(), other.len());
    }
}

#[test]
fn sift_alone_matches_without_tracks() {
    let outcome = Place::with(&Sequence::small(CameraPath::Orbit)).run("sift", &[]);
    let record = &outcome.record;
    assert!(record.keyframes.len() > 2 && record.pairs.len() > 2);
    for pair in &record.pairs {
        assert!(pair.matches.sift > 100 && pair.config.is_some(), "{pair:?}");
        assert_eq!((pair.matches.klt, pair.matches.both), (0, 0), "{pair:?}");
    }
    assert!(record.frames.iter().all(|frame| frame.alive == 0) && record.track_lengths.is_empty());
    assert_eq!(outcome.database.geometries.len(), record.pairs.len());
}

#[test]
fn extract_gives_features_and_no_match() {
    let outcome = Place::with(&Sequence::small(CameraPath::Orbit)).run("extract", &[]);
    let (record, database) = (&outcome.record, &outcome.database);
    let counts: Vec<usize> = record.keyframes.iter().map(|keyframe| keyframe.keypoints as usize).collect();
    assert!(counts.len() > 2 && counts.iter().all(|&n| n > 500), "{counts:?}");
    assert_eq!(database.keypoints.values().map(Vec::len).collect::<Vec<_>>(), counts);
    assert_eq!(database.descriptors.values().map(Vec::len).collect::<Vec<_>>(), counts);
    assert!(record.pairs.is_empty() && database.matches.is_empty() && database.geometries.is_empty());
    assert!(record.track_lengths.is_empty());
}

/// A track of tracks.csv: its first frame, and the last column of each row.
type CsvTrack<'a> = (u64, Vec<&'a str>);

fn csv_tracks(text: &str) -> BTreeMap<u32, CsvTrack<'_>> {
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("track_id,frame,pts_s,x,y,end_reason"));
    let mut tracks = BTreeMap::<u32, CsvTrack>::new();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let [id, frame, pts_s, x, y, end] = fields[..] else { panic!("{line}") };
        let (frame, [pts_s, x, y]) =
            (frame.parse().unwrap(), [pts_s, x, y].map(|s| s.parse::<f64>().unwrap()));
        assert!((0.0..=320.0).contains(&x) && (0.0..=240.0).contains(&y), "{line}");
        assert!((pts_s - frame as f64 / 10.0).abs() < 1e-9, "{line}");
        let (first, ends) = tracks.entry(id.parse().unwrap()).or_insert((frame, Vec::new()));
        assert_eq!(*first + ends.len() as u64, frame, "frame after frame: {line}");
        ends.push(end);
    }
    tracks
}

#[test]
fn tracks_alone_are_written_down_whole() {
    let place = Place::with(&Sequence::small(CameraPath::Orbit));
    let record = place.run("tracks", &[]).record;
    let text = fs::read_to_string(place.path("out/tracks.csv")).unwrap();
    let tracks = csv_tracks(&text);
    let (mut alive, mut lengths, mut ends) = (vec![0; 16], BTreeMap::new(), BTreeMap::new());
    for (first, rows) in tracks.values() {
        (*first as usize..*first as usize + rows.len()).for_each(|frame| alive[frame] += 1);
        let (last, before) = rows.split_last().unwrap();
        assert!(before.iter().all(|end| end.is_empty()), "an end before the last row");
        *lengths.entry(rows.len() as u32).or_insert(0) += 1;
        *ends.entry(last.parse::<u8>().unwrap()).or_insert(0) += 1;
    }
    assert_eq!(alive, record.frames.iter().map(|frame| frame.alive).collect::<Vec<_>>());
    assert_eq!(lengths, record.track_lengths.iter().map(|bin| (bin.frames, bin.tracks)).collect());
    assert_eq!(ends.remove(&0), alive.last().copied().map(u64::from), "alive at the end");
    let recorded = record.ends.iter().filter(|(_, n)| **n > 0).map(|(reason, n)| (reason.number(), *n));
    assert_eq!(ends, recorded.collect());
    assert!(
        ends[&EndReason::Residual.number()] > 50 && ends[&EndReason::ForwardBackward.number()] > 50,
        "{ends:?}"
    );
    assert!(record.pairs.is_empty() && record.keyframes.iter().all(|keyframe| keyframe.keypoints == 0));
}

#[test]
fn no_frame_is_an_error_that_names_the_folder() {
    let place = Place::new();
    let error = launcher::run(&place.request("full", &[]), Arc::new(Progress::hidden())).unwrap_err();
    assert!(matches!(error, LaunchError::Stage { .. }), "{error:?}");
    let images = place.path("images");
    let says = format!("folder {} holds no .png, .jpg or .jpeg file", images.display());
    assert!(error.to_string().contains(&says), "{error}");
    assert!(!place.path("out").exists());
}

#[test]
fn one_frame_is_one_keyframe() {
    let place = Place::with(&Sequence::render(CameraPath::Orbit, 1, 10.0, (320, 240)));
    let Outcome { record, database } = place.run("full", &[]);
    assert_eq!((record.frames.len(), record.keyframes.len(), record.pairs.len()), (1, 1, 0));
    assert_eq!(database.keypoints[&1].len() as u32, record.keyframes[0].keypoints);
    assert!(record.keyframes[0].keypoints > 500 && database.matches.is_empty());
}

#[test]
fn two_frames_are_one_verified_pair() {
    let place = Place::with(&Sequence::render(CameraPath::Orbit, 2, 4.0, (320, 240)));
    let Outcome { record, database } = place.run("full", &[]);
    assert_eq!((record.frames.len(), record.keyframes.len(), record.pairs.len()), (2, 2, 1));
    let pair = &record.pairs[0];
    assert!(pair.inliers > 300 && pair.matches.both > 200, "{pair:?}");
    assert_eq!(database.geometries[&(1, 2)].inliers.len() as u32, pair.inliers);
}

#[test]
fn every_frame_can_be_a_keyframe() {
    let place = Place::with(&Sequence::render(CameraPath::Forward, 6, 10.0, (320, 240)));
    let Outcome { record, database } = place.run("full", &["keyframe_gate.tests=[]"]);
    let reasons: Vec<GateReason> = record.frames.iter().map(|frame| frame.reason).collect();
    assert_eq!(reasons[0], GateReason::First);
    assert!(reasons[1..].iter().all(|reason| *reason == GateReason::All), "{reasons:?}");
    assert!(record.frames.iter().all(|frame| frame.kept && frame.image.is_some()));
    assert_eq!((record.keyframes.len(), record.pairs.len(), database.geometries.len()), (6, 15, 15));
    assert!(record.keyframes[1..].iter().all(|keyframe| keyframe.joined > 200), "{:?}", record.keyframes);
}

#[test]
fn a_camera_that_stands_still_is_told_so() {
    for (n_frames, n_keyframes, says) in [
        (5, 1, "the camera does not move: no frame is more than 0.0"),
        (12, 2, "the camera does not move: from keyframe to keyframe the picture moves by 0.00 px"),
    ] {
        let place = Place::with(&Sequence::render(CameraPath::Still, n_frames, 10.0, (320, 240)));
        let record = place.run("full", &[]).record;
        assert_eq!(record.keyframes.len(), n_keyframes);
        let ended_later = record.frames.iter().skip(2).any(|frame| !frame.ends.is_empty());
        assert!(!ended_later, "tracks stay where nothing moves: {:?}", record.frames);
        assert!(record.warnings.iter().any(|warning| warning.starts_with(says)), "{:?}", record.warnings);
    }
}

#[test]
fn an_error_in_the_middle_leaves_what_there_is() {
    let sequence = Sequence::small(CameraPath::Orbit);
    let before = Place::with(&sequence);
    (5..16).for_each(|k| fs::remove_file(before.path(&format!("images/{k:06}.png"))).unwrap());
    let expected = before.run("full", &["export.matches=true"]);

    let place = Place::with(&sequence);
    let sixth = place.path("images/000005.png");
    let whole = fs::read(&sixth).unwrap();
    let flat = image::imageops::crop_imm(&sequence.pictures[5], 0, 0, 320, 200).to_image();
    for (picture, says) in [
        (whole[..whole.len() / 2].to_vec(), "image images/000005.png cannot be read"),
        (png(&flat), "frame 5 of images is 320x200, the frames before are 320x240"),
    ] {
        fs::write(&sixth, picture).unwrap();
        let output = place.call("out", "2", &["--overwrite"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        let last = stderr.lines().last().unwrap();
        assert!(
            last.starts_with(&format!("error: stage frame_decode failed at sampled frame 5: {says}")),
            "{last}"
        );
        assert!(!place.path("out").exists());

        let partial = Outcome::read(&place.path("out.partial"));
        assert!(expected.record.pairs.len() > 2);
        let same = format!("{:?}", partial.database) == format!("{:?}", expected.database);
        assert!(same, "the database differs from that of the frames before");
        assert_eq!(partial.record.frames, expected.record.frames);
        assert_eq!(partial.record.pairs, expected.record.pairs);
        let warnings = partial.record.warnings.join("\n");
        assert!(warnings.contains(says) && warnings.contains("the run was cut after frame 4"), "{warnings}");
    }
}

fn png(picture: &image::RgbImage) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    picture.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    bytes.into_inner()
}

/// The verified matches of `full` against the truth.
fn measured(sequence: Sequence, set: &[&str]) -> Evaluation {
    let set: Vec<&str> = ["export.matches=true"].iter().chain(set).copied().collect();
    let (place, _) = run_with_camera(&sequence, &set);
    let Sequence { scene, intrinsics, poses, .. } = sequence;
    Demo { scene, intrinsics, fps: 10, poses }.evaluate(&place.path("out")).unwrap()
}

#[test]
fn verified_matches_are_true() {
    for (path, n_matches) in [(CameraPath::Orbit, 10_000), (CameraPath::Forward, 2_500)] {
        let all = measured(Sequence::small(path), &[]).all();
        let share = all.share_on_line().unwrap();
        assert!(share > 0.995, "{path:?}: {share} of the matches within a pixel of the true line");
        assert!(all.line_px.len() > n_matches, "{path:?}: {} matches", all.line_px.len());
    }
}

#[test]
fn matches_of_whole_tracks_are_as_true_as_those_of_descriptors() {
    for path in [CameraPath::Orbit, CameraPath::Forward, CameraPath::HandHeld] {
        let [joined, whole] = [false, true]
            .map(|whole| measured(Sequence::small(path), &[&format!("keyframe_join.whole_tracks={whole}")]));
        let n_matches = [&joined, &whole].map(|evaluation| evaluation.klt.line_px.len());
        assert!(n_matches[1] > 2 * n_matches[0], "{path:?}: {n_matches:?} matches of tracks alone");
        // Those that descriptors confirm are tracks' too.
        let mut tracks = whole.klt.clone();
        tracks.point_px.extend(&whole.both.point_px);
        tracks.point_px.sort_by(f64::total_cmp);
        let shares = [&tracks, &whole.sift, &whole.klt].map(|source| source.share_on_point().unwrap());
        println!("{path:?}: {n_matches:?} matches of tracks alone, {shares:?} on the true point");
        assert!(shares[0] >= shares[1], "{path:?}: {shares:?} of tracks' and descriptors' matches");
        assert!(shares[2] > 0.975, "{path:?}: {} of the matches that only tracks give", shares[2]);
    }
}

/// The camera rolls by a right angle, so the grid of pixels turns: a keypoint that export moves by half a pixel, or
/// scales wrongly, no longer fits the cameras. Pictures are analysed at 5/8 of their size.
#[test]
fn exported_keypoints_are_where_the_cameras_see_them() {
    let roll = |(k, pose): (usize, Pose)| pose.turned(0.0, 0.0, (6.0 * k as f64).to_radians());
    let poses = CameraPath::Orbit.poses(16, 10.0).into_iter().enumerate().map(roll).collect();
    let set = ["gray_upload.analysis_size_px=400", "keyframe_gate.min_motion_px=40"];
    let all = measured(Sequence::along(poses, (640, 480)), &set).all();
    let share = all.share_on_line().unwrap();
    assert!(share > 0.98, "{share} of {} matches within a pixel of the true line", all.line_px.len());
    let median = all.point_px[all.point_px.len() / 2];
    assert!(median < 0.23, "half of the matches are more than {median} px from the true point");
}
