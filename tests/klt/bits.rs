//! The same bits in any company, on any number of threads, at any size.

use trackweave::kernels::klt_track::TrackRecord;
use trackweave::klt::{KltOptions, TrackScratch, track_points};
use trackweave::message::EndReason;
use trackweave::numerics::{SplitMix64, fold16};

use crate::klt_cases::{self as cases, pyramid, starts, track};
use crate::klt_scene::{grid, textured};

fn bits(record: &TrackRecord) -> [u32; 4] {
    [record.x, record.y, record.measure, record.status].map(f32::to_bits)
}

#[test]
fn chunks_of_3_and_5_give_the_bits_of_one_chunk_on_any_number_of_threads() {
    let case = cases::rotation(5.0);
    let points = grid(&case.first, 15, 9, [20.0, 20.0]);
    let [template, target] = [&case.first, &case.second].map(|image| pyramid(image, case.options.levels));
    let tracked = |chunk: usize| -> Vec<[u32; 4]> {
        let mut scratch = TrackScratch::default();
        let mut all = Vec::new();
        for starts in starts(&points).chunks(chunk) {
            let records = track_points(&template, &target, &case.options, starts, &mut scratch);
            all.extend(records.iter().map(bits));
        }
        all
    };
    let with_threads = |threads, chunk| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
        pool.install(|| tracked(chunk))
    };
    let whole = with_threads(1, points.len());
    assert_eq!(whole, with_threads(4, points.len()));
    assert_eq!(whole, with_threads(1, 3));
    assert_eq!(whole, with_threads(3, 5));
}

#[test]
fn any_size_and_any_start_end_without_a_panic() {
    let odd_starts =
        [[0.0, 0.0], [-1e9, 5.0], [f32::NAN, 1.0], [1e30, f32::INFINITY], [8.0, 8.0], [20.5, 11.0]];
    for (width, height) in [(1, 1), (2, 1), (1, 7), (3, 3), (16, 9), (17, 40), (33, 18), (64, 64)] {
        let first = textured(width, height, 3, 5);
        let second = textured(width, height, 3, 6);
        for window_px in [3, 7, 15, 17, 21, 31, 63] {
            let options =
                KltOptions { window_px, levels: 4, min_eigen: 0.0, ..KltOptions::for_size(width, height) };
            let records = track(&first, &second, &options, &odd_starts);
            assert!(records[1..4].iter().all(|r| r.reason() == Some(EndReason::OutOfFrame)));
        }
    }
}

#[test]
fn sums_of_a_window_fold_in_one_order() {
    let mut rng = SplitMix64::new(11, 0);
    for _ in 0..100 {
        let p: [f32; 16] = std::array::from_fn(|_| rng.unit() as f32 - 0.5);
        let quarter = |i: usize| (p[i] + p[i + 8]) + (p[i + 4] + p[i + 12]);
        let expected = (quarter(0) + quarter(2)) + (quarter(1) + quarter(3));
        assert_eq!(fold16(p).to_bits(), expected.to_bits());
    }
}
