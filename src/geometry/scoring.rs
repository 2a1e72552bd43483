//! Residuals of models and their robust sums. All residuals are lengths in the plane of the points.

use nalgebra::Matrix3;

use super::points::{Block, LANES, Lanes, NormalEquations, PointPairs, Row, fold, row_major};
use crate::numerics::vectorized;

/// Blocks between two comparisons with the best cost so far.
const BLOCKS_A_CHECK: usize = 4;

/// What a matrix says about a point pair.
pub trait Residual {
    /// Squared residual of each pair.
    fn squared(matrix: &[f64; 9], block: &Block) -> Lanes;
    /// Adds the rows of each pair: their squares sum to `squared`.
    fn accumulate(matrix: &[f64; 9], block: &Block, weight: &Lanes, equations: &mut NormalEquations);
}

/// Sampson distance to x2' M x1 = 0 (Hartley and Zisserman 2004, 11.4.3).
pub struct Sampson;

/// Distance in the second image between x2 and H x1.
pub struct Transfer;

/// How much a residual counts. Cost and weight are in units of the squared threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// min(r^2 / t^2, 1): the MSAC cost.
    Truncated {
        /// t^2
        threshold2: f64,
    },
    /// r^2 / (r^2 + s^2) (Geman and McClure 1985).
    GemanMcClure {
        /// s^2
        scale2: f64,
    },
}

impl Loss {
    #[inline(always)]
    fn cost(self, squared: Lanes) -> Lanes {
        match self {
            Loss::Truncated { threshold2 } => squared.map(|r2| {
                let cost = r2 / threshold2;
                // Written so that NaN costs 1.
                if cost < 1.0 { cost } else { 1.0 }
            }),
            Loss::GemanMcClure { scale2 } => squared.map(|r2| {
                let cost = r2 / (r2 + scale2);
                if cost < 1.0 { cost } else { 1.0 }
            }),
        }
    }

    #[inline(always)]
    fn weight(self, squared: Lanes) -> Lanes {
        match self {
            Loss::Truncated { threshold2 } => squared.map(|r2| if r2 < threshold2 { 1.0 } else { 0.0 }),
            Loss::GemanMcClure { scale2 } => squared.map(|r2| {
                let root = scale2 / (r2 + scale2);
                if root > 0.0 { root * root } else { 0.0 }
            }),
        }
    }
}

/// The sum of the costs of all pairs, or none as soon as it is known to reach `bound`.
pub fn cost_below<R: Residual>(
    matrix: &Matrix3<f64>,
    points: &PointPairs,
    loss: Loss,
    bound: f64,
) -> Option<f64> {
    let matrix = row_major(matrix);
    vectorized(
        #[inline(always)]
        || {
            let mut sum = [0.0; LANES];
            for blocks in points.blocks().chunks(BLOCKS_A_CHECK) {
                for block in blocks {
                    let cost = loss.cost(R::squared(&matrix, block));
                    for lane in 0..LANES {
                        sum[lane] += block.weight[lane] * cost[lane];
                    }
                }
                let below = fold(sum) < bound;
                if !below {
                    return None;
                }
            }
            Some(fold(sum))
        },
    )
}

/// Squared residual of each pair.
pub fn squared_residuals<R: Residual>(matrix: &Matrix3<f64>, points: &PointPairs) -> Vec<f64> {
    let matrix = row_major(matrix);
    let mut all = vec![0.0; LANES * points.blocks().len()];
    vectorized(
        #[inline(always)]
        || {
            for (squared, block) in all.as_chunks_mut::<LANES>().0.iter_mut().zip(points.blocks()) {
                *squared = R::squared(&matrix, block);
            }
        },
    );
    all.truncate(points.len());
    all
}

/// How many pairs have a squared residual below `threshold2`.
pub fn count_inliers<R: Residual>(matrix: &Matrix3<f64>, points: &PointPairs, threshold2: f64) -> usize {
    let matrix = row_major(matrix);
    vectorized(
        #[inline(always)]
        || {
            let mut count = [0.0; LANES];
            for block in points.blocks() {
                let squared = R::squared(&matrix, block);
                for lane in 0..LANES {
                    count[lane] += if squared[lane] < threshold2 { block.weight[lane] } else { 0.0 };
                }
            }
            fold(count) as usize
        },
    )
}

/// The normal equations of all pairs, weighted by the loss.
pub fn normal_equations<R: Residual>(
    matrix: &Matrix3<f64>,
    points: &PointPairs,
    loss: Loss,
) -> NormalEquations {
    let matrix = row_major(matrix);
    vectorized(
        #[inline(always)]
        || {
            let mut equations = NormalEquations::default();
            for block in points.blocks() {
                let mut weight = loss.weight(R::squared(&matrix, block));
                for lane in 0..LANES {
                    weight[lane] *= block.weight[lane];
                }
                R::accumulate(&matrix, block, &weight, &mut equations);
            }
            equations
        },
    )
}

/// Smallest denominator: keeps a point on both epipoles from dividing by 0.
const TINY: f64 = 1e-200;

impl Residual for Sampson {
    #[inline(always)]
    fn squared(m: &[f64; 9], b: &Block) -> Lanes {
        let mut squared = [0.0; LANES];
        for i in 0..LANES {
            let line2 = [
                m[0] * b.x1[i] + m[1] * b.y1[i] + m[2],
                m[3] * b.x1[i] + m[4] * b.y1[i] + m[5],
                m[6] * b.x1[i] + m[7] * b.y1[i] + m[8],
            ];
            let line1_x = m[0] * b.x2[i] + m[3] * b.y2[i] + m[6];
            let line1_y = m[1] * b.x2[i] + m[4] * b.y2[i] + m[7];
            let error = b.x2[i] * line2[0] + b.y2[i] * line2[1] + line2[2];
            let denominator =
                (line2[0] * line2[0] + line2[1] * line2[1]) + (line1_x * line1_x + line1_y * line1_y);
            squared[i] = error * error / denominator.max(TINY);
        }
        squared
    }

    #[inline(always)]
    fn accumulate(m: &[f64; 9], b: &Block, weight: &Lanes, equations: &mut NormalEquations) {
        let mut row = Row { residual: [0.0; LANES], gradient: [[0.0; LANES]; 9] };
        for i in 0..LANES {
            let (x1, y1, x2, y2) = (b.x1[i], b.y1[i], b.x2[i], b.y2[i]);
            let line2_x = m[0] * x1 + m[1] * y1 + m[2];
            let line2_y = m[3] * x1 + m[4] * y1 + m[5];
            let line1_x = m[0] * x2 + m[3] * y2 + m[6];
            let line1_y = m[1] * x2 + m[4] * y2 + m[7];
            let error = x2 * line2_x + y2 * line2_y + (m[6] * x1 + m[7] * y1 + m[8]);
            let denominator =
                (line2_x * line2_x + line2_y * line2_y) + (line1_x * line1_x + line1_y * line1_y);
            let inverse = 1.0 / denominator.max(TINY).sqrt();
            let residual = error * inverse;
            row.residual[i] = residual;
            // d(e / sqrt(D)) = de / sqrt(D) - r / D * dD / 2
            let slope = residual * inverse * inverse;
            let (a, c) = (line2_x * slope, line2_y * slope);
            let (d, e) = (line1_x * slope, line1_y * slope);
            let gradient = [
                x2 * x1 * inverse - a * x1 - d * x2,
                x2 * y1 * inverse - a * y1 - e * x2,
                x2 * inverse - a,
                y2 * x1 * inverse - c * x1 - d * y2,
                y2 * y1 * inverse - c * y1 - e * y2,
                y2 * inverse - c,
                x1 * inverse - d,
                y1 * inverse - e,
                inverse,
            ];
            for (lanes, value) in row.gradient.iter_mut().zip(gradient) {
                lanes[i] = value;
            }
        }
        equations.add(&row, weight);
    }
}

impl Residual for Transfer {
    #[inline(always)]
    fn squared(m: &[f64; 9], b: &Block) -> Lanes {
        let mut squared = [0.0; LANES];
        for i in 0..LANES {
            let inverse = 1.0 / (m[6] * b.x1[i] + m[7] * b.y1[i] + m[8]);
            let dx = (m[0] * b.x1[i] + m[1] * b.y1[i] + m[2]) * inverse - b.x2[i];
            let dy = (m[3] * b.x1[i] + m[4] * b.y1[i] + m[5]) * inverse - b.y2[i];
            squared[i] = dx * dx + dy * dy;
        }
        squared
    }

    #[inline(always)]
    fn accumulate(m: &[f64; 9], b: &Block, weight: &Lanes, equations: &mut NormalEquations) {
        let mut rows = [(); 2].map(|()| Row { residual: [0.0; LANES], gradient: [[0.0; LANES]; 9] });
        // A point on the line that maps to infinity has weight 0 and must not bring in infinities.
        let mut finite = *weight;
        for i in 0..LANES {
            let (x1, y1) = (b.x1[i], b.y1[i]);
            let depth = m[6] * x1 + m[7] * y1 + m[8];
            let safe = if weight[i] > 0.0 { depth } else { 1.0 };
            finite[i] = if weight[i] > 0.0 { weight[i] } else { 0.0 };
            let inverse = 1.0 / safe;
            let px = (m[0] * x1 + m[1] * y1 + m[2]) * inverse;
            let py = (m[3] * x1 + m[4] * y1 + m[5]) * inverse;
            let direction = [x1 * inverse, y1 * inverse, inverse];
            rows[0].residual[i] = px - b.x2[i];
            rows[1].residual[i] = py - b.y2[i];
            for k in 0..3 {
                rows[0].gradient[k][i] = direction[k];
                rows[1].gradient[3 + k][i] = direction[k];
                rows[0].gradient[6 + k][i] = -px * direction[k];
                rows[1].gradient[6 + k][i] = -py * direction[k];
            }
        }
        for row in &rows {
            equations.add(row, &finite);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_and_counts_leave_padding_out_and_stop_at_the_bound() {
        let points: PointPairs = (0..83).map(|i| [0.0, 0.0, 0.1 * i as f64, 0.0]).collect();
        let identity = Matrix3::identity();
        let loss = Loss::Truncated { threshold2: 1.0 };
        let squared = squared_residuals::<Transfer>(&identity, &points);
        let expected: f64 = squared.iter().map(|r2| r2.min(1.0)).sum();
        let cost = cost_below::<Transfer>(&identity, &points, loss, f64::INFINITY).unwrap();
        assert!((cost - expected).abs() < 1e-12, "{cost} {expected}");
        assert_eq!(cost_below::<Transfer>(&identity, &points, loss, cost), None);
        assert_eq!(cost_below::<Transfer>(&identity, &points, loss, cost + 1e-9), Some(cost));
        assert_eq!(count_inliers::<Transfer>(&identity, &points, 0.9), 10);
        let shifted = Matrix3::new(1.0, 0.0, 9.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0);
        assert_eq!(count_inliers::<Transfer>(&shifted, &points, 1e9), 83);
        let nowhere = Matrix3::zeros();
        assert_eq!(cost_below::<Transfer>(&nowhere, &points, loss, f64::INFINITY), Some(83.0));
    }
}
