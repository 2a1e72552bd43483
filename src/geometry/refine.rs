//! Levenberg and Marquardt's method over matrices with constraints.

use nalgebra::{Matrix3, SMatrix, SVector, Vector3};

use super::points::PointPairs;
use super::scoring::{Loss, Residual, cost_below, normal_equations};

/// Most parameters a chart has.
pub const MAX_PARAMETERS: usize = 8;

/// A matrix on its constraint surface, with steps along it.
pub trait Chart: Clone {
    /// The point of the surface at or near `matrix`; none where the matrix is not finite or degenerate.
    fn from_matrix(matrix: &Matrix3<f64>) -> Option<Self>;
    /// The matrix.
    fn matrix(&self) -> Matrix3<f64>;
    /// A column a parameter: the derivative of the row-major matrix. Unused columns are 0.
    fn tangents(&self) -> SMatrix<f64, 9, MAX_PARAMETERS>;
    /// The point a step away.
    fn step(&self, delta: &SVector<f64, MAX_PARAMETERS>) -> Self;
}

/// Walks to a smaller sum of losses, at most `max_iterations` steps, and gives the chart and the sum.
pub fn refine<R: Residual, C: Chart>(
    start: C,
    points: &PointPairs,
    loss: Loss,
    max_iterations: usize,
) -> Option<(C, f64)> {
    let mut chart = start;
    let mut cost = cost_below::<R>(&chart.matrix(), points, loss, f64::INFINITY)?;
    let mut damping = 1e-4;
    for _ in 0..max_iterations {
        let (products, right) = normal_equations::<R>(&chart.matrix(), points, loss).sum();
        let tangents = chart.tangents();
        let hessian = tangents.transpose() * products * tangents;
        let gradient = tangents.transpose() * right;
        let Some((next, next_cost, next_damping)) =
            descend::<R, C>(&chart, hessian, gradient, points, loss, cost, damping)
        else {
            break;
        };
        let gain = cost - next_cost;
        (chart, cost, damping) = (next, next_cost, next_damping);
        if gain <= 1e-7 * cost {
            break;
        }
    }
    Some((chart, cost))
}

/// A damped step that lowers the cost, damped more until it does.
fn descend<R: Residual, C: Chart>(
    chart: &C,
    hessian: SMatrix<f64, MAX_PARAMETERS, MAX_PARAMETERS>,
    gradient: SVector<f64, MAX_PARAMETERS>,
    points: &PointPairs,
    loss: Loss,
    cost: f64,
    mut damping: f64,
) -> Option<(C, f64, f64)> {
    for _ in 0..5 {
        let mut damped = hessian;
        for i in 0..MAX_PARAMETERS {
            // Unused parameters have a row of zeros; the constant keeps the matrix definite and their step 0.
            damped[(i, i)] += damping * hessian[(i, i)] + 1e-12;
        }
        let step = damped.cholesky()?.solve(&-gradient);
        let next = chart.step(&step);
        if let Some(next_cost) = cost_below::<R>(&next.matrix(), points, loss, cost) {
            return Some((next, next_cost, (damping * 0.1).max(1e-9)));
        }
        damping = damping * 10.0 + 1e-6;
    }
    None
}

/// The cross product with `v` as a matrix.
pub fn skew(v: &Vector3<f64>) -> Matrix3<f64> {
    Matrix3::new(0.0, -v.z, v.y, v.z, 0.0, -v.x, -v.y, v.x, 0.0)
}

/// The rotation by |v| radians about v (Rodrigues).
pub fn rotation_from_vector(v: &Vector3<f64>) -> Matrix3<f64> {
    let angle = v.norm();
    let k = skew(v);
    if angle < 1e-8 {
        return Matrix3::identity() + k + k * k * 0.5;
    }
    let sine = libm::sin(angle) / angle;
    let half = libm::sin(0.5 * angle) / angle;
    Matrix3::identity() + k * sine + k * k * (2.0 * half * half)
}

/// Writes `matrix` row-major into a column of tangents.
pub(super) fn set_column(
    tangents: &mut SMatrix<f64, 9, MAX_PARAMETERS>,
    column: usize,
    matrix: &Matrix3<f64>,
) {
    for i in 0..9 {
        tangents[(i, column)] = matrix[(i / 3, i % 3)];
    }
}

/// Singular value decomposition with rotations: U, the singular values, V.
pub(super) fn rotations_of(matrix: &Matrix3<f64>) -> Option<(Matrix3<f64>, Vector3<f64>, Matrix3<f64>)> {
    if !matrix.iter().all(|v| v.is_finite()) {
        return None;
    }
    let svd = matrix.svd(true, true);
    let (mut u, mut v) = (svd.u?, svd.v_t?.transpose());
    for side in [&mut u, &mut v] {
        if side.determinant() < 0.0 {
            side.column_mut(2).neg_mut();
        }
    }
    Some((u, svd.singular_values, v))
}
