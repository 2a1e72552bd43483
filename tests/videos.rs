//! Files as people's cameras write them, against `facts.csv` (ffmpeg's reading of them), and a video of our own.
//! Real files are found through TRACKWEAVE_DATA; without it their tests are ignored.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::{Rgb, RgbImage};
use libtest_mimic::{Arguments, Failed, Trial};
use trackweave::message::Frame;
use trackweave::picture::rgb_from_picture;
use trackweave::stages::frame_decode::{FrameDecode, FrameDecodeOptions};
use trackweave::stages::{RunContext, SourceStage, StageError};
use trackweave::video::encode::{VideoEncoder, VideoQuality};
use trackweave::video::sampling::SampleRate;

/// The files of facts.csv.
const FILES: [&str; 16] = [
    "videos/av1_10bit_720x1280.mp4",
    "videos/h263_3gp_vfr_sar12_11.3gp",
    "videos/ipad_hevc_rot90_1280x720.mov",
    "videos/iphone6_rot90_568x320.mov",
    "videos/kodak_mjpeg_320x240.avi",
    "videos/opencv_box_damaged_nal.mp4",
    "videos/pixel_hevc10_hlg_rot90_editlist_vfr.mp4",
    "videos/rot180_1280x720.mp4",
    "videos/rotate_and_reflect.mp4",
    "videos/sony_a7m3_interlaced_1080i.mts",
    "videos/vp9_odd_161x121.webm",
    "sequences/vamr_corner/video.mp4",
    "sequences/kitti_s1/video.mp4",
    "sequences/icl_kt3_200/video.mp4",
    "sequences/euroc_static/video.mp4",
    "sequences/gopro_walk/video.mp4",
];

/// Its edit begins at 0.455 s, while the frame of 0.4333 s is on screen: that frame is displayed first, for 11.7 ms
/// (ISO/IEC 14496-12, 8.6.6), where ffmpeg begins with the next one. In exchange GStreamer 1.22 ends the edit by
/// decoding time and loses the last reordered frame but one: one step of 67 ms, and the same number of frames.
const EDITED: &str = "videos/pixel_hevc10_hlg_rot90_editlist_vfr.mp4";
const EDITED_LEAD_S: f64 = 0.011_667;

type Check = fn() -> Result<(), Failed>;
type DataCheck = Box<dyn FnOnce(&Path) -> Result<(), Failed> + Send>;

fn main() {
    let arguments = Arguments::from_args();
    let data = std::env::var_os("TRACKWEAVE_DATA").map(PathBuf::from);
    let real = |name: String, check: DataCheck| {
        let folder = data.clone();
        let without = if folder.is_none() { " (TRACKWEAVE_DATA is not set)" } else { "" };
        Trial::test(name + without, move || check(&folder.ok_or("TRACKWEAVE_DATA is not set")?))
            .with_ignored_flag(data.is_none())
    };
    let mut trials: Vec<Trial> = FILES
        .iter()
        .map(|&file| real(format!("facts::{file}"), Box::new(move |data| agrees_with_facts(data, file))))
        .collect();
    trials.push(real("facts::every_file_is_listed".into(), Box::new(every_file_is_listed)));
    trials.push(real("mirrored_picture_is_upright".into(), Box::new(mirrored_picture_is_upright)));
    trials.push(real("full_range_is_known".into(), Box::new(full_range_is_known)));
    trials.push(real("high_dynamic_range_is_not_washed_out".into(), Box::new(hdr_is_not_washed_out)));
    trials.push(real("damaged_frames_are_the_same_each_time".into(), Box::new(damaged_frames_repeat)));
    let own: [(&str, Check); 8] = [
        ("video_comes_over_http", over_http),
        ("lossless_video_comes_back", lossless_comes_back),
        ("high_quality_video_comes_back", high_quality_comes_back),
        ("same_frames_make_the_same_stream", same_frames_same_stream),
        ("errors_say_what_is_wrong", errors_say_what_is_wrong),
        ("truncated_video_gives_its_first_frames", truncated_video),
        ("dropping_a_source_stops_it", dropping_stops),
        ("image_folder_is_a_video", image_folder),
    ];
    trials.extend(own.map(|(name, check)| Trial::test(name, check)));
    libtest_mimic::run(&arguments, trials).exit();
}

type Record = Arc<parking_lot::Mutex<trackweave::record::RunRecord>>;

fn source_and_record(input: &Path, rate: &str) -> Result<(FrameDecode, Record), Failed> {
    let record = Record::default();
    let context = RunContext {
        input: input.display().to_string(),
        out: PathBuf::new(),
        seed: 0,
        camera: Default::default(),
        max_image_size_px: None,
        verdict_lag_frames: 4,
        record: record.clone(),
        ..RunContext::default()
    };
    let sample_fps = SampleRate::parse(rate).ok_or("no rate")?;
    let options = FrameDecodeOptions { sample_fps, ..Default::default() };
    Ok((FrameDecode::new(options, &context)?, record))
}

fn source(input: &Path, rate: &str) -> Result<FrameDecode, Failed> {
    Ok(source_and_record(input, rate)?.0)
}

fn decode(input: &Path, rate: &str) -> Result<Vec<Frame>, StageError> {
    let mut source = source(input, rate).map_err(|e| format!("{e:?}"))?;
    std::iter::from_fn(|| source.next().transpose()).collect()
}

fn ensure(holds: bool, says: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(says().into()) }
}

/// A row of facts.csv by column name.
struct Facts<'a> {
    header: Vec<&'a str>,
    row: Vec<&'a str>,
}

impl Facts<'_> {
    fn text(&self, column: &str) -> Result<&str, Failed> {
        let i = self.header.iter().position(|&name| name == column).ok_or(format!("no column {column}"))?;
        Ok(self.row[i])
    }

    fn number(&self, column: &str) -> Result<f64, Failed> {
        self.text(column)?.parse().map_err(|e| format!("{column}: {e}").into())
    }
}

fn facts_rows(text: &str) -> Vec<Facts<'_>> {
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap_or_default();
    lines.map(|row| Facts { header: header.clone(), row }).collect()
}

fn every_file_is_listed(data: &Path) -> Result<(), Failed> {
    let text = std::fs::read_to_string(data.join("videos/facts.csv"))?;
    let files: Vec<&str> = facts_rows(&text).iter().map(|facts| facts.row[0]).collect();
    ensure(files == FILES, || format!("facts.csv lists {files:?}"))
}

fn agrees_with_facts(data: &Path, file: &str) -> Result<(), Failed> {
    let text = std::fs::read_to_string(data.join("videos/facts.csv"))?;
    let rows = facts_rows(&text);
    let facts = rows.iter().find(|facts| facts.row[0] == file).ok_or("not in facts.csv")?;
    let mut source = source(&data.join(file), "all")?;
    let mut times = Vec::new();
    let mut video = None;
    while let Some(Frame { info, picture }) = source.next().map_err(|e| e.to_string())? {
        picture.check()?;
        ensure(info.number == times.len() as u64, || {
            format!("frame {} has number {}", times.len(), info.number)
        })?;
        times.push(info.pts_ns as f64 / 1e9);
        video = Some(info.video);
    }
    let video = video.ok_or("no frame")?;

    let frames = facts.number("decodable_frames")?;
    ensure(times.len() as f64 == frames, || format!("{} frames, facts.csv says {frames}", times.len()))?;
    let lead = if file == EDITED { EDITED_LEAD_S } else { 0.0 };
    let last = facts.number("last_pts_s")? - facts.number("first_pts_s")? + lead;
    ensure(times[0] == 0.0, || format!("the first frame is at {}", times[0]))?;
    // facts.csv rounds both times to milliseconds.
    ensure((times[times.len() - 1] - last).abs() <= 0.0011, || {
        format!("last at {:?}, not {last}", times.last())
    })?;
    let steps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let smallest = steps.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = steps.iter().copied().fold(0.0, f64::max);
    // Time never goes back here; a damaged frame keeps the time of the one before.
    let (min, max) = (facts.number("min_step_s")?.max(0.0), facts.number("max_step_s")?);
    let (min, max) = if file == EDITED { (lead, 0.067) } else { (min, max) };
    ensure((smallest - min).abs() <= 0.0011, || format!("smallest step {smallest}, not {min}"))?;
    ensure((largest - max).abs() <= 0.0011, || format!("largest step {largest}, not {max}"))?;
    upright_size(facts, &video)
}

fn upright_size(facts: &Facts, video: &trackweave::message::VideoInfo) -> Result<(), Failed> {
    let (across, down) = facts.text("sample_aspect")?.split_once(':').ok_or("no aspect")?;
    let aspect = across.parse::<f64>()? / down.parse::<f64>()?;
    let square =
        ((facts.number("coded_width")? * aspect).round() as u32, facts.number("coded_height")? as u32);
    let turns = (-facts.number("display_rotation_deg")? / 90.0) as u8;
    let expected = if turns % 2 == 1 { (square.1, square.0) } else { square };
    let found = (video.width, video.height);
    ensure(found == expected, || format!("upright {found:?}, facts.csv says {expected:?}"))?;
    ensure(video.quarter_turns == turns, || format!("{} turns, not {turns}", video.quarter_turns))
}

fn mirrored_picture_is_upright(data: &Path) -> Result<(), Failed> {
    let frames = decode(&data.join("videos/rotate_and_reflect.mp4"), "1")?;
    let video = &frames[0].info.video;
    ensure(video.quarter_turns == 1 && video.mirrored, || format!("{video:?}"))
}

/// The container of this camera names the colours without their range; the stream says full range.
fn full_range_is_known(data: &Path) -> Result<(), Failed> {
    for (file, full_range) in [("gopro_walk", true), ("icl_kt3_200", false)] {
        let frames = decode(&data.join(format!("sequences/{file}/video.mp4")), "0.1")?;
        let picture = &frames[0].picture;
        ensure(picture.full_range == full_range, || format!("{file}: full range {}", picture.full_range))?;
    }
    Ok(())
}

/// Spread and middle of the luma of the first frame of a picture of ordinary light.
fn hdr_is_not_washed_out(data: &Path) -> Result<(), Failed> {
    for file in ["videos/av1_10bit_720x1280.mp4", "videos/pixel_hevc10_hlg_rot90_editlist_vfr.mp4"] {
        let frames = decode(&data.join(file), "1")?;
        let picture = &frames[0].picture;
        let rgb = rgb_from_picture(picture, picture.width, picture.height)?;
        let mut luma: Vec<u8> = image::DynamicImage::ImageRgb8(rgb).into_luma8().into_raw();
        luma.sort_unstable();
        let at = |share: f64| luma[(share * (luma.len() - 1) as f64) as usize];
        let (dark, middle, bright) = (at(0.02), at(0.5), at(0.98));
        let spread = bright - dark;
        ensure(spread > 150 && bright > 215 && (30..180).contains(&middle), || {
            format!("{file}: luma at 2, 50 and 98 %: {dark}, {middle}, {bright}")
        })?;
    }
    Ok(())
}

fn damaged_frames_repeat(data: &Path) -> Result<(), Failed> {
    let file = data.join("videos/opencv_box_damaged_nal.mp4");
    let (mut source, record) = source_and_record(&file, "all")?;
    while source.next().map_err(|e| e.to_string())?.is_some() {}
    let warnings = &record.lock().warnings;
    ensure(warnings.iter().any(|w| w.contains("damaged")), || format!("warnings: {warnings:?}"))?;
    let (first, second) = (decode(&file, "all")?, decode(&file, "all")?);
    ensure(first.len() == second.len(), || format!("{} and {} frames", first.len(), second.len()))?;
    for (a, b) in first.iter().zip(&second) {
        ensure(a.picture == b.picture && a.info.pts_ns == b.info.pts_ns, || {
            format!("frame {} differs", a.info.number)
        })?;
    }
    Ok(())
}

const SIZE: (u32, u32) = (98, 62);

/// A moving pattern; the number of the frame is in its brightness.
fn drawn(number: u32) -> RgbImage {
    RgbImage::from_fn(SIZE.0, SIZE.1, |x, y| {
        let wave = ((x + 2 * number) / 8 + y / 8) % 2;
        let level = (40 + 4 * number + 60 * wave) as u8;
        Rgb([level, level / 2 + 30, 255 - level])
    })
}

fn write(path: &Path, n_frames: u32, quality: VideoQuality) -> Result<(), Failed> {
    let mut encoder = VideoEncoder::create(path, SIZE.0, SIZE.1, 20, 1, quality)?;
    for number in 0..n_frames {
        encoder.push(&drawn(number))?;
    }
    Ok(encoder.finish()?)
}

fn numbers_and_times(frames: &[Frame]) -> Vec<(u32, u64, u64)> {
    frames.iter().map(|f| (f.info.index, f.info.number, f.info.pts_ns / 1_000_000)).collect()
}

fn comes_back(name: &str, quality: VideoQuality, tolerance: f64) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join(name);
    write(&path, 25, quality)?;
    let all = decode(&path, "all")?;
    let expected: Vec<_> = (0..25).map(|i| (i, i as u64, 50 * i as u64)).collect();
    ensure(numbers_and_times(&all) == expected, || format!("all: {:?}", numbers_and_times(&all)))?;
    let at_4 = numbers_and_times(&decode(&path, "4")?);
    let expected = [(0, 0, 0), (1, 5, 250), (2, 10, 500), (3, 15, 750), (4, 20, 1000)];
    ensure(at_4 == expected, || format!("at 4: {at_4:?}"))?;
    let video = &all[0].info.video;
    ensure((video.width, video.height, video.quarter_turns) == (98, 62, 0), || format!("{video:?}"))?;
    for frame in &all {
        let rgb = rgb_from_picture(&frame.picture, SIZE.0, SIZE.1)?;
        let drawn = drawn(frame.info.number as u32);
        // Chroma is halved: compare the luma of the two.
        let luma = |image: RgbImage| image::DynamicImage::ImageRgb8(image).into_luma8().into_raw();
        let (found, drawn) = (luma(rgb), luma(drawn));
        let error =
            found.iter().zip(&drawn).map(|(a, b)| a.abs_diff(*b) as f64).sum::<f64>() / drawn.len() as f64;
        ensure(error < tolerance, || format!("frame {} is {error} off", frame.info.number))?;
    }
    Ok(())
}

fn lossless_comes_back() -> Result<(), Failed> {
    comes_back("video.mkv", VideoQuality::Lossless, 1.5)
}

fn high_quality_comes_back() -> Result<(), Failed> {
    comes_back("video.webm", VideoQuality::High, 3.0)
}

fn same_frames_same_stream() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    for (name, quality) in [("a.mkv", VideoQuality::Lossless), ("a.webm", VideoQuality::High)] {
        let (first, second) = (folder.path().join(name), folder.path().join(format!("again_{name}")));
        write(&first, 10, quality)?;
        write(&second, 10, quality)?;
        let (first, second) = (decode(&first, "all")?, decode(&second, "all")?);
        let equal = first.iter().zip(&second).all(|(a, b)| a.picture == b.picture);
        ensure(first.len() == 10 && second.len() == 10 && equal, || format!("{name} differs"))?;
    }
    Ok(())
}

fn errors_say_what_is_wrong() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("text.mp4"), "this is no video at all\n".repeat(50))?;
    std::fs::write(file("empty.mp4"), "")?;
    std::fs::create_dir(file("empty"))?;
    write_sound(&file("sound.wav"))?;
    let cases = [
        ("missing.mp4", "does not exist"),
        ("text.mp4", "is not a video"),
        ("empty.mp4", "empty.mp4"),
        ("empty", "holds no .png, .jpg or .jpeg file"),
        ("sound.wav", "has no video track"),
    ];
    for (name, says) in cases {
        let error = match decode(&file(name), "all") {
            Ok(frames) => return Err(format!("{name} gave {} frames", frames.len()).into()),
            Err(error) => error.to_string(),
        };
        ensure(error.contains(says) && error.contains(name), || format!("{name}: {error}"))?;
    }
    Ok(())
}

/// A second of silence.
fn write_sound(path: &Path) -> Result<(), Failed> {
    let (rate, n_bytes) = (8000u32, 16000u32);
    let mut wav = b"RIFF".to_vec();
    wav.extend((36 + n_bytes).to_le_bytes());
    wav.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    wav.extend(rate.to_le_bytes());
    wav.extend((2 * rate).to_le_bytes());
    wav.extend(b"\x02\0\x10\0data");
    wav.extend(n_bytes.to_le_bytes());
    wav.resize(wav.len() + n_bytes as usize, 0);
    Ok(std::fs::write(path, wav)?)
}

/// Number of frames of a file, and whether it is called cut off.
fn frames_and_cut(path: &Path) -> Result<(usize, bool), Failed> {
    let (mut source, record) = source_and_record(path, "all")?;
    let mut n_frames = 0;
    while source.next().map_err(|e| e.to_string())?.is_some() {
        n_frames += 1;
    }
    let warned = record.lock().warnings.iter().any(|warning| warning.contains("cut off"));
    Ok((n_frames, warned))
}

fn truncated_video() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("video.mkv");
    write(&path, 75, VideoQuality::Lossless)?;
    let (n_whole, warned) = frames_and_cut(&path)?;
    ensure(n_whole == 75 && !warned, || format!("{n_whole} frames, warned: {warned}"))?;
    let whole = std::fs::read(&path)?;
    std::fs::write(&path, &whole[..whole.len() / 2])?;
    let (n_frames, warned) = frames_and_cut(&path)?;
    ensure((12..60).contains(&n_frames), || format!("{n_frames} frames of half of the file"))?;
    ensure(warned, || "it is not said that the file is cut off".into())
}

/// Answers each request with the whole file, as plain servers do.
fn serve(listener: std::net::TcpListener, body: Vec<u8>) {
    use std::io::{Read, Write};
    for stream in listener.incoming().flatten() {
        let (mut stream, body) = (stream, body.clone());
        std::thread::spawn(move || {
            let _ = stream.read(&mut [0; 4096]);
            let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        });
    }
}

fn over_http() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("video.mkv");
    write(&path, 25, VideoQuality::Lossless)?;
    let body = std::fs::read(&path)?;
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let uri = format!("http://{}/video.mkv", listener.local_addr()?);
    std::thread::spawn(move || serve(listener, body));
    let frames = decode(Path::new(&uri), "all")?;
    ensure(frames.len() == 25, || format!("{} frames", frames.len()))?;
    ensure(frames[0].info.video.input == uri, || format!("input is {}", frames[0].info.video.input))
}

fn dropping_stops() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("video.mkv");
    write(&path, 25, VideoQuality::Lossless)?;
    let started = source(&path, "all")?;
    drop(started);
    let mut reading = source(&path, "all")?;
    ensure(reading.next().map_err(|e| e.to_string())?.is_some(), || "no frame".into())?;
    drop(reading); // hangs if the decoder waits for room in its queue
    Ok(())
}

fn image_folder() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    for number in [2, 0, 1] {
        drawn(number).save(folder.path().join(format!("{number:03}.png")))?;
    }
    for other in ["notes.txt", "._000.png"] {
        std::fs::write(folder.path().join(other), "no picture")?;
    }
    let frames = decode(folder.path(), "4")?;
    let expected = [(0, 0, 0), (1, 1, 250), (2, 2, 500)];
    ensure(numbers_and_times(&frames) == expected, || format!("{:?}", numbers_and_times(&frames)))?;
    for frame in &frames {
        let rgb = rgb_from_picture(&frame.picture, SIZE.0, SIZE.1)?;
        ensure(rgb == drawn(frame.info.number as u32), || format!("image {} differs", frame.info.number))?;
    }
    let at_2: Vec<u64> = decode(folder.path(), "2")?.iter().map(|f| f.info.number).collect();
    ensure(at_2 == [0, 2], || format!("at 2: {at_2:?}"))
}
