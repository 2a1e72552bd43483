use super::*;
use crate::message::Features;
use crate::numerics::SplitMix64;
use crate::picture::GrayImage;

/// A Gaussian blob of `sigma` pixels and a height of 0.8 (light) or -0.8 (dark).
fn blob([width, height]: [usize; 2], [x, y]: [f64; 2], sigma: f64, height_sign: f64) -> GrayImage {
    let mut gray = GrayImage::new(width, height);
    for (i, value) in gray.data.iter_mut().enumerate() {
        let (dx, dy) = ((i % width) as f64 - x, (i / width) as f64 - y);
        let bump = 0.4 * libm::exp(-0.5 * (dx * dx + dy * dy) / (sigma * sigma));
        *value = (0.5 + height_sign * bump) as f32;
    }
    gray
}

/// Noise of 3 x 3 pixels a grain, its contrast growing from left to right.
fn texture(width: usize, height: usize, seed: u64) -> GrayImage {
    let mut rng = SplitMix64::new(seed, 0);
    let grains: Vec<f32> = (0..width * height).map(|_| rng.unit() as f32 - 0.5).collect();
    let mut gray = GrayImage::new(width, height);
    for (i, value) in gray.data.iter_mut().enumerate() {
        let (x, y) = (i % width, i / width);
        *value = 0.5 + (0.2 + 0.8 * x as f32 / width as f32) * grains[y / 3 * width + x / 3];
    }
    gray
}

fn extract(gray: &GrayImage, options: &SiftOptions) -> Features {
    extract_features(gray, options, &mut SiftScratch::default())
}

fn strongest(features: &Features) -> Keypoint {
    *features.keypoints.iter().max_by(|a, b| a.response.total_cmp(&b.response)).expect("a keypoint")
}

/// The DoG of a blob of sigma t has its extremum at t / sqrt(k), k the ratio of neighbouring scales; a picture is
/// taken to be blurred by 0.5 pixels already.
fn blob_sigma(scale: f64) -> f64 {
    (scale * scale * libm::exp2(1.0 / 3.0) + 0.25).sqrt()
}

#[test]
fn blobs_are_found_where_they_are_in_every_octave() {
    let places = [[0.0, 0.0], [0.25, 0.5], [0.5, 0.75], [0.3, 1.1], [1.3, 1.9], [2.6, 3.3]];
    for (first_octave, scales) in [(-1, [1.2, 1.9, 3.4, 5.0, 11.0]), (0, [2.0, 3.4, 5.0, 11.0, 14.0])] {
        let options = SiftOptions { first_octave, ..Default::default() };
        for scale in scales {
            for (i, [dx, dy]) in places.into_iter().enumerate() {
                let (at, sign) = ([80.0 + dx, 70.0 + dy], if i % 2 == 0 { 1.0 } else { -1.0 });
                let features = extract(&blob([161, 142], at, blob_sigma(scale), sign), &options);
                let found = strongest(&features);
                let error = [found.x as f64 - at[0], found.y as f64 - at[1]];
                assert!(
                    error[0].abs() < 0.02 && error[1].abs() < 0.02,
                    "scale {scale} at {at:?}: off by {error:?}"
                );
                let ratio = found.scale as f64 / scale;
                assert!((ratio - 1.0).abs() < 0.04, "{} for {scale}", found.scale);
            }
        }
    }
}

#[test]
fn a_turned_patch_has_a_turned_orientation_and_the_same_descriptor() {
    let patch = |turn: f64| {
        let (sin, cos) = (libm::sin(turn), libm::cos(turn));
        let mut gray = blob([120, 120], [60.0, 60.0], 4.0, 1.0);
        for (i, value) in gray.data.iter_mut().enumerate() {
            let (dx, dy) = ((i % 120) as f64 - 60.0, (i / 120) as f64 - 60.0);
            let (u, v) = (cos * dx + sin * dy, cos * dy - sin * dx);
            let side = |u0: f64, v0: f64| libm::exp(-0.02 * ((u - u0) * (u - u0) + (v - v0) * (v - v0)));
            *value += (0.15 * side(9.0, 2.0) - 0.1 * side(-7.0, 6.0)) as f32;
        }
        let features = extract(&gray, &SiftOptions { max_orientations: 1, ..Default::default() });
        let near = |k: &Keypoint| (k.x - 60.0).hypot(k.y - 60.0) + (k.scale - 4.0).abs();
        let (index, found) =
            features.keypoints.iter().enumerate().min_by(|a, b| near(a.1).total_cmp(&near(b.1))).unwrap();
        (found.orientation, features.descriptors[index])
    };
    let (orientation, descriptor) = patch(0.0);
    for turn in [0.4_f64, 1.7, 3.0, -2.2] {
        let (turned, other) = patch(turn);
        let error = libm::remainder((turned - orientation) as f64 - turn, std::f64::consts::TAU);
        assert!(error.abs() < 0.03, "turned by {turn}: {orientation} became {turned}");
        let squares =
            descriptor.iter().zip(&other).map(|(a, b)| (*a as f64 - *b as f64) * (*a as f64 - *b as f64));
        let distance = squares.sum::<f64>().sqrt();
        assert!(distance < 60.0, "turned by {turn}: descriptors {distance} apart");
    }
}

#[test]
fn the_limit_keeps_the_strongest_and_some_everywhere() {
    let gray = texture(320, 200, 5);
    let all = extract(&gray, &SiftOptions::default());
    let kept = extract(&gray, &SiftOptions { max_features: 512, ..Default::default() });
    assert!(all.keypoints.len() > 1000, "{}", all.keypoints.len());
    assert!((511..=512).contains(&kept.keypoints.len()), "{}", kept.keypoints.len());
    let mut order = all.keypoints.iter();
    assert!(
        kept.keypoints.iter().all(|k| order.any(|other| other == k)),
        "not a part of all in the same order"
    );
    let mut responses: Vec<f32> = all.keypoints.iter().map(|k| k.response).collect();
    responses.sort_by(|a, b| b.total_cmp(a));
    let strong = kept.keypoints.iter().filter(|k| k.response >= responses[380]).count();
    assert!(strong >= 375, "{strong} of the strongest 380");
    let weak_side = kept.keypoints.iter().filter(|k| k.x < 40.0).count();
    assert!(weak_side >= 16, "{weak_side} keypoints in the weakest eighth");
}

#[test]
fn a_position_comes_once_with_its_orientations_side_by_side() {
    // Here four pairs of extrema refine to one pixel.
    let features = extract(&texture(320, 200, 1), &SiftOptions { min_contrast: 0.002, ..Default::default() });
    assert!(features.keypoints.windows(2).all(|pair| pair[0] != pair[1]));
    let place = |k: &Keypoint| (k.x.to_bits(), k.y.to_bits(), k.scale.to_bits());
    let mut places: Vec<_> = features.keypoints.iter().map(place).collect();
    let n = places.len();
    places.dedup();
    let runs = places.len();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), runs);
    assert!(runs < n && n <= 2 * runs);
    assert!(features.descriptors.len() == n && features.descriptors.iter().all(|d| d.iter().any(|v| *v > 0)));
}

#[test]
fn a_place_at_a_keypoint_has_its_descriptor() {
    for (first_octave, scales_per_octave) in [(-1, 3), (0, 5)] {
        let options = SiftOptions { first_octave, scales_per_octave, ..Default::default() };
        let mut scratch = SiftScratch::default();
        let Features { keypoints, descriptors } =
            extract_features(&texture(320, 200, 1), &options, &mut scratch);
        let place = |k: &Keypoint| Place { x: k.x, y: k.y, scale: k.scale };
        let places: Vec<Place> = keypoints.iter().map(place).collect();
        let described = describe_places(&places, &options, &scratch);
        assert!(described.len() == places.len() && places.len() > 150, "{} places", places.len());
        // A keypoint that moved by more than half a layer is described on the nearest one instead.
        let (mut n_first, mut n_equal) = (0, 0);
        for (index, found) in described.iter().enumerate() {
            assert_eq!(found.place, index as u32);
            let Keypoint { x, y, scale, .. } = found.keypoint;
            assert_eq!(Place { x, y, scale }, places[index]);
            if index == 0 || places[index] != places[index - 1] {
                let expected = Keypoint { response: 0.0, ..keypoints[index] };
                n_equal += ((found.keypoint, found.descriptor) == (expected, descriptors[index])) as usize;
                n_first += 1;
            }
        }
        assert!(n_first - n_equal <= n_first / 20, "{n_equal} of {n_first} are equal");
        // Bit for bit where the layer is clear.
        let nearest = |k: &Keypoint| {
            let layers = scales_per_octave as f32
                * libm::log2f(k.scale / (options.base_sigma_px * if first_octave < 0 { 0.5 } else { 1.0 }));
            (layers - libm::floorf(layers) - 0.5).abs() > 0.2
        };
        let mut n_clear = 0;
        for (index, found) in described.iter().enumerate().filter(|(i, _)| nearest(&keypoints[*i])) {
            if index == 0 || places[index] != places[index - 1] {
                assert_eq!(found.keypoint.orientation.to_bits(), keypoints[index].orientation.to_bits());
                assert_eq!(found.descriptor, descriptors[index], "keypoint {index}");
                n_clear += 1;
            }
        }
        assert!(n_clear > n_first / 2, "{n_clear} of {n_first}");
    }
}

#[test]
fn flat_places_and_places_at_the_border_are_described_or_left_out() {
    let (options, mut scratch) = (SiftOptions::default(), SiftScratch::default());
    let corners = [[0.0, 0.0], [319.0, 0.0], [0.0, 199.0], [319.0, 199.0], [160.3, 0.2], [318.9, 100.0]];
    let places: Vec<Place> =
        corners.iter().flat_map(|&[x, y]| [0.1, 2.0, 30.0].map(|scale| Place { x, y, scale })).collect();
    let mut gray = texture(320, 200, 3);
    extract(&gray, &options);
    extract_features(&gray, &options, &mut scratch);
    let described = describe_places(&places, &options, &scratch);
    assert!(described.len() > places.len() / 2);
    assert!(described.iter().all(|found| found.keypoint.orientation.is_finite()));
    gray.data.fill(0.4);
    extract_features(&gray, &options, &mut scratch);
    assert_eq!(describe_places(&places, &options, &scratch), []);
    extract_features(&GrayImage::new(3, 3), &options, &mut scratch);
    assert_eq!(describe_places(&places, &options, &scratch), []);
}

#[test]
fn thread_count_and_used_buffers_change_no_bit() {
    let (gray, options) = (texture(150, 130, 1), SiftOptions::default());
    let with_threads = |n: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap();
        pool.install(|| extract(&gray, &options))
    };
    let one = with_threads(1);
    assert!(one.keypoints.len() > 100);
    assert_eq!(one, with_threads(2));
    assert_eq!(one, with_threads(5));
    let mut scratch = SiftScratch::default();
    extract_features(&texture(200, 40, 2), &options, &mut scratch);
    assert_eq!(one, extract_features(&gray, &options, &mut scratch));
}

#[test]
fn tiny_and_flat_pictures_have_no_keypoints() {
    for first_octave in [-1, 0] {
        let options = SiftOptions { first_octave, min_contrast: 0.0, ..Default::default() };
        for (width, height) in [(0, 0), (1, 1), (5, 3), (3, 200), (16, 16), (64, 48)] {
            let mut gray = GrayImage::new(width, height);
            gray.data.fill(0.3);
            assert_eq!(extract(&gray, &options).keypoints, [], "{width} x {height}");
        }
        for (width, height) in [(1, 1), (5, 3), (7, 90), (16, 16), (17, 13)] {
            let features = extract(&texture(width, height, 4), &options);
            let sane = |k: &Keypoint| {
                k.x.is_finite() && k.y.is_finite() && k.orientation.is_finite() && k.scale > 0.0
            };
            assert!(features.keypoints.iter().all(sane));
        }
    }
}

#[test]
fn options_outside_their_range_are_named() {
    assert_eq!(SiftOptions::default().check(), Ok(()));
    let wrong = SiftOptions { first_octave: -2, ..Default::default() }.check().unwrap_err();
    assert_eq!(wrong.to_string(), "sift_extract.first_octave is -2, its range is -1 or 0");
    let wrong = SiftOptions { min_contrast: f32::NAN, ..Default::default() }.check().unwrap_err();
    assert_eq!(wrong.option, "min_contrast");
    let sigma = |base_sigma_px| SiftOptions { base_sigma_px, ..Default::default() }.check();
    assert_eq!((sigma(1.0), sigma(2.4)), (Ok(()), Ok(())));
    let wrong = sigma(2.41).unwrap_err();
    assert_eq!(wrong.to_string(), "sift_extract.base_sigma_px is 2.41, its range is 1..=2.4");
    assert!(toml::from_str::<SiftOptions>("octave = 3").is_err());
}
