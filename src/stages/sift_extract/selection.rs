//! Which points stay when a picture has more than its limit.

use super::Point;

/// The order in which `points` are taken: indices, the first to stay first.
pub fn ranked(points: &[Point], _size: [usize; 2]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..points.len() as u32).collect();
    let mode = std::env::var("SIFT_SELECT").unwrap_or_default();
    let key = |i: u32| {
        let p = &points[i as usize];
        match mode.as_str() {
            "scale" => p.scale,
            "norm" => p.response * p.scale,
            _ => p.response,
        }
    };
    order.sort_by(|a, b| key(*b).total_cmp(&key(*a)).then(a.cmp(b)));
    order
}
