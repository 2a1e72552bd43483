//! Locally optimised RANSAC (Chum, Matas and Kittler 2003) with the MSAC cost.

use nalgebra::Matrix3;

use super::points::PointPairs;
use super::refine::{Chart, refine};
use super::scoring::{Loss, Residual, cost_below, count_inliers, squared_residuals};
use crate::numerics::SplitMix64;

/// Probability of having drawn a sample without outliers at the end.
const CONFIDENCE: f64 = 0.9999;
/// Steps of a local optimisation, and of the last one.
const LOCAL_STEPS: usize = 5;
const FINAL_STEPS: usize = 15;

/// A kind of model: its smallest sample, its residual and its surface.
pub trait Estimator {
    /// The residual that decides.
    type Residual: Residual;
    /// The surface the matrix lies on.
    type Chart: Chart;
    /// Pairs in a minimal sample.
    const SAMPLE_SIZE: usize;
    /// Trials at least and at most.
    const TRIALS: (usize, usize);

    /// Appends the models of a minimal sample; none for a degenerate one.
    fn minimal(sample: &[[f64; 4]], models: &mut Vec<Matrix3<f64>>);

    /// Least squares over the pairs given, without a model to start from; none where there is no such method.
    fn least_squares(_pairs: &[[f64; 4]]) -> Option<Matrix3<f64>> {
        None
    }
}

/// A model and its support.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The model.
    pub matrix: Matrix3<f64>,
    /// Its MSAC cost.
    pub cost: f64,
    /// Pairs within the threshold.
    pub n_inliers: usize,
}

/// The best model of the point pairs, at least as good as `start`; none where no sample gave one. `threshold` is a
/// length in their plane. The result depends on the pairs, their order, the start and the generator alone.
pub fn ransac<E: Estimator>(
    points: &PointPairs,
    threshold: f64,
    start: Option<&Matrix3<f64>>,
    rng: &mut SplitMix64,
) -> Option<Estimate> {
    if points.len() < E::SAMPLE_SIZE {
        return None;
    }
    let loss = Loss::Truncated { threshold2: threshold * threshold };
    let mut best = start.and_then(|matrix| {
        let cost = cost_below::<E::Residual>(matrix, points, loss, f64::INFINITY)?;
        Some(optimised::<E>(*matrix, cost, points, threshold))
    });
    let mut models = Vec::with_capacity(10);
    let mut sample = Vec::with_capacity(E::SAMPLE_SIZE);
    let mut n_trials = best.as_ref().map_or(E::TRIALS.1, |b| trials_needed::<E>(b.n_inliers, points.len()));
    let mut trial = 0;
    while trial < n_trials {
        trial += 1;
        draw(points, E::SAMPLE_SIZE, rng, &mut sample);
        models.clear();
        E::minimal(&sample, &mut models);
        for model in &models {
            let bound = best.as_ref().map_or(f64::INFINITY, |b| b.cost);
            let Some(cost) = cost_below::<E::Residual>(model, points, loss, bound) else { continue };
            let found = optimised::<E>(*model, cost, points, threshold);
            n_trials = trials_needed::<E>(found.n_inliers, points.len());
            best = Some(found);
        }
    }
    best.map(|best| polished::<E>(best, points, threshold))
}

/// Draws distinct pairs.
fn draw(points: &PointPairs, size: usize, rng: &mut SplitMix64, sample: &mut Vec<[f64; 4]>) {
    let mut drawn = [u32::MAX; 8];
    sample.clear();
    while sample.len() < size {
        let i = rng.below(points.len() as u32);
        if !drawn[..sample.len()].contains(&i) {
            drawn[sample.len()] = i;
            sample.push(points.pair(i as usize));
        }
    }
}

/// Trials after which a clean sample has been drawn with the confidence, within the bounds.
fn trials_needed<E: Estimator>(n_inliers: usize, n: usize) -> usize {
    let clean =
        (0..E::SAMPLE_SIZE).map(|i| n_inliers.saturating_sub(i) as f64 / (n - i) as f64).product::<f64>();
    let needed = libm::log(1.0 - CONFIDENCE) / libm::log1p(-clean);
    let (least, most) = E::TRIALS;
    if needed < most as f64 { (needed.ceil() as usize).max(least) } else { most }
}

/// Least squares on the inliers, then a few steps on the truncated residual: the better of start and end.
fn optimised<E: Estimator>(model: Matrix3<f64>, cost: f64, points: &PointPairs, threshold: f64) -> Estimate {
    let threshold2 = threshold * threshold;
    let loss = Loss::Truncated { threshold2 };
    let mut best = (model, cost);
    let squared = squared_residuals::<E::Residual>(&model, points);
    let inliers: Vec<[f64; 4]> =
        points.iter().zip(&squared).filter(|(_, r2)| **r2 < threshold2).map(|(pair, _)| pair).collect();
    if let Some(matrix) = E::least_squares(&inliers)
        && let Some(cost) = cost_below::<E::Residual>(&matrix, points, loss, best.1)
    {
        best = (matrix, cost);
    }
    if let Some(chart) = E::Chart::from_matrix(&best.0)
        && let Some((chart, cost)) = refine::<E::Residual, E::Chart>(chart, points, loss, LOCAL_STEPS)
        && cost < best.1
    {
        best = (chart.matrix(), cost);
    }
    let n_inliers = count_inliers::<E::Residual>(&best.0, points, threshold2);
    Estimate { matrix: best.0, cost: best.1, n_inliers }
}

/// The last refinement, with a loss as narrow as the residuals of the inliers; kept unless it loses inliers.
fn polished<E: Estimator>(best: Estimate, points: &PointPairs, threshold: f64) -> Estimate {
    let threshold2 = threshold * threshold;
    let scale2 = 9.0 * inlier_variance::<E>(&best.matrix, points, threshold2).max(1e-6 * threshold2);
    let refined = E::Chart::from_matrix(&best.matrix).and_then(|chart| {
        refine::<E::Residual, E::Chart>(chart, points, Loss::GemanMcClure { scale2 }, FINAL_STEPS)
    });
    let Some((chart, _)) = refined else { return best };
    let matrix = chart.matrix();
    let n_inliers = count_inliers::<E::Residual>(&matrix, points, threshold2);
    let loss = Loss::Truncated { threshold2 };
    match cost_below::<E::Residual>(&matrix, points, loss, f64::INFINITY) {
        Some(cost) if 50 * n_inliers >= 49 * best.n_inliers => Estimate { matrix, cost, n_inliers },
        _ => best,
    }
}

/// Variance of the residuals within the threshold, from their median.
pub(super) fn inlier_variance<E: Estimator>(
    matrix: &Matrix3<f64>,
    points: &PointPairs,
    threshold2: f64,
) -> f64 {
    let mut squared = squared_residuals::<E::Residual>(matrix, points);
    squared.retain(|r2| *r2 < threshold2);
    // The median of the square of a normal variable is 0.455 of its variance.
    median(&mut squared).map_or(threshold2, |median| median / 0.455)
}

/// The upper median.
pub(super) fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}
