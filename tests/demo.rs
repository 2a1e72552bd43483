//! The demo: its video is what was rendered, and its evaluation tells right matches from wrong ones.

mod support;

use std::fs;
use std::path::Path;

use trackweave::colmap::KeypointRow;
use trackweave::colmap::database::DatabaseWriter;
use trackweave::geometry::camera::Camera;
use trackweave::geometry::{Config, TwoViewGeometry};
use trackweave::message::{GateReason, Match, Source};
use trackweave::record::{FrameRecord, KeyframeRecord, RunRecord, TrackLengthRecord};
use trackweave::scene::demo::Demo;
use trackweave::scene::{CameraPath, Intrinsics, Scene};

fn small_demo() -> Demo {
    let poses = CameraPath::HandHeld.poses(12, 12.0);
    Demo { scene: Scene::demo(), intrinsics: Intrinsics::centered(320, 240), fps: 12, poses }
}

/// A run record with frames 0 and 6 as its keyframes.
fn record() -> RunRecord {
    let frame = |frame: u64| FrameRecord {
        frame,
        pts_s: frame as f64 / 12.0,
        kept: true,
        reason: GateReason::All,
        image: Some(format!("frame_{frame:06}.jpg")),
        alive: 0,
        ends: Default::default(),
        motion_px: None,
    };
    let frames = vec![frame(0), frame(6)];
    let keyframe = |frame: &FrameRecord| KeyframeRecord {
        image: frame.image.clone().unwrap(),
        keypoints: 0,
        track_keypoints: 0,
        seeds: 0,
        joined: 0,
        fill_ins: 0,
        motion_px: None,
    };
    let keyframes = frames.iter().map(keyframe).collect();
    let track_lengths =
        vec![TrackLengthRecord { frames: 1, tracks: 7 }, TrackLengthRecord { frames: 3, tracks: 14 }];
    RunRecord { frames, keyframes, track_lengths, ..RunRecord::default() }
}

/// Writes a run at half the video's size whose i-th match is the true point moved by `shift(i)` pixels in x and y;
/// sources take turns: klt, sift, both.
fn write_run(demo: &Demo, out: &Path, shift: impl Fn(usize) -> f64) {
    let row = |[x, y]: [f64; 2]| -> KeypointRow {
        [(x + 0.5) as f32 / 2.0, (y + 0.5) as f32 / 2.0, 1.0, 0.0, 0.0, 1.0]
    };
    let (mut from, mut to, mut inliers) = (Vec::new(), Vec::new(), Vec::new());
    let mut csv = String::from("first,second,keypoint1,keypoint2,source,track_id,inlier\n");
    for [x, y] in (20..300).step_by(20).flat_map(|x| (20..220).step_by(20).map(move |y| [x as f64, y as f64]))
    {
        let flow = demo.scene.flow(&demo.intrinsics, &demo.poses[0], &demo.poses[6], x, y).unwrap();
        if !flow.visible {
            continue;
        }
        let i = from.len();
        from.push(row([x, y]));
        to.push(row([flow.x + shift(i), flow.y + shift(i)]));
        let (source, name) = [(Source::Klt, "klt"), (Source::Sift, "sift"), (Source::Both, "both")][i % 3];
        inliers.push(Match { first: i as u32, second: i as u32, source, track: None });
        csv += &format!("1,2,{i},{i},{name},,1\n");
    }
    let mut database = DatabaseWriter::create(&out.join("database.db")).unwrap();
    let camera = database.add_camera(&Camera::from_options(&Default::default(), 160, 120).unwrap()).unwrap();
    for (id, rows) in [(1, &from), (2, &to)] {
        database.add_image(id, &record().keyframes[id as usize - 1].image, camera).unwrap();
        database.write_features(id, rows, &vec![[0; 128]; rows.len()]).unwrap();
    }
    let config = Config::Uncalibrated;
    let geometry =
        TwoViewGeometry { config, f: None, e: None, h: None, cam2_from_cam1: None, inliers, parallax: None };
    database.write_two_view_geometry(1, 2, &geometry).unwrap();
    database.finish().unwrap();
    fs::write(out.join("matches.csv"), csv).unwrap();
    fs::write(out.join("run.json"), serde_json::to_string(&record()).unwrap()).unwrap();
}

#[test]
fn true_matches_are_right_and_moved_ones_wrong_by_source() {
    let (demo, out) = (small_demo(), tempfile::tempdir().unwrap());
    // Every sift match (i % 3 == 1) is 3 px off in x and y.
    write_run(&demo, out.path(), |i| if i % 3 == 1 { 3.0 } else { 0.0 });
    let evaluation = demo.evaluate(out.path()).unwrap();
    let n = evaluation.klt.line_px.len();
    assert!(n > 20 && evaluation.all().line_px.len() >= 3 * n - 2);
    for right in [&evaluation.klt, &evaluation.both] {
        assert_eq!((right.share_on_line(), right.share_on_point()), (Some(1.0), Some(1.0)));
        assert!(right.line_px.last().unwrap() < &1e-3, "keypoints are stored as f32");
    }
    assert_eq!(evaluation.sift.share_on_point(), Some(0.0));
    assert!(evaluation.sift.share_on_line().unwrap() < 0.5);
}

#[test]
fn the_printout_is_a_small_table_and_bars() {
    let (demo, out) = (small_demo(), tempfile::tempdir().unwrap());
    write_run(&demo, out.path(), |_| 0.0);
    let printed = demo.evaluate(out.path()).unwrap().to_string();
    let bars: Vec<&str> = printed.lines().rev().take(3).collect();
    let bar =
        |length: u32, tracks: u32, width: usize| format!("{length:>9} {tracks:8} {}", "#".repeat(width));
    assert_eq!(bars, [bar(3, 14, 40), bar(2, 0, 0), bar(1, 7, 20)]);
    assert!(printed.lines().any(|line| line.starts_with("klt ") && line.matches("100.0 %").count() == 2));
}

#[test]
fn files_that_contradict_each_other_are_named() {
    let (demo, out) = (small_demo(), tempfile::tempdir().unwrap());
    write_run(&demo, out.path(), |_| 0.0);
    let csv = out.path().join("matches.csv");
    let error = || demo.evaluate(out.path()).unwrap_err().to_string();
    fs::write(&csv, "first,second,keypoint1,keypoint2,source,track_id,inlier\n1,2,0,zero,klt,,1\n").unwrap();
    assert!(error().contains("line 2: \"1,2,0,zero,klt,,1\""), "{}", error());
    fs::write(&csv, "first,second,keypoint1,keypoint2,source,track_id,inlier\n").unwrap();
    assert!(error().contains("match (0, 0): no line in matches.csv"), "{}", error());
}

/// Mean difference in gray levels between a rendered picture and a decoded one of 16..=235.
#[cfg(feature = "video")]
fn luma_difference(rendered: &image::RgbImage, decoded: &trackweave::picture::Picture) -> f32 {
    assert!(!decoded.full_range);
    let gray = support::gray_from_rgb(rendered);
    let plane = &decoded.planes[0];
    let difference = |(i, value): (usize, &f32)| {
        let decoded = plane.data[i / gray.width * plane.stride + i % gray.width] as f32;
        (16.0 + 219.0 * value - decoded).abs()
    };
    gray.data.iter().enumerate().map(difference).sum::<f32>() / gray.data.len() as f32
}

#[cfg(feature = "video")]
#[test]
fn the_video_is_what_was_rendered() {
    use trackweave::video::FrameSource;
    use trackweave::video::decode::VideoDecoder;

    let (demo, out) = (small_demo(), tempfile::tempdir().unwrap());
    let mut finished = 0;
    let video = demo.render_video(out.path(), |n_frames| finished = n_frames).unwrap();
    assert_eq!((finished, video.camera), (12, demo.camera()));
    let mut decoder = VideoDecoder::open_path(&video.path).unwrap();
    let mut n_frames = 0;
    while let Some(frame) = decoder.next(&mut |_| true).unwrap() {
        assert_eq!((frame.number, frame.picture.width, frame.picture.height), (n_frames, 320, 240));
        assert!(frame.pts_ns.abs_diff(n_frames * 1_000_000_000 / 12) < 1_000_000);
        let [here, next] = [n_frames as usize, (n_frames as usize + 1) % 12]
            .map(|k| luma_difference(&demo.scene.render(&demo.poses[k], &demo.intrinsics), &frame.picture));
        assert!(
            here < 3.0 && next > 2.0 * here,
            "frame {n_frames}: {here} gray levels off, {next} from the next"
        );
        n_frames += 1;
    }
    assert_eq!(n_frames, 12);
}
