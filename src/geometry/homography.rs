//! Homographies: x2 ~ H x1.

use nalgebra::{Matrix3, SMatrix, SVector, Vector3};

use super::linear::{add_products, normalize, null_matrices, smallest_eigen_matrix};
use super::ransac::Estimator;
use super::refine::{Chart, MAX_PARAMETERS, rotation_from_vector, rotations_of, set_column, skew};
use super::scoring::Transfer;

/// The direct linear transform of four pairs and of many.
pub struct Homography;

impl Estimator for Homography {
    type Residual = Transfer;
    type Chart = HomographyChart;
    const SAMPLE_SIZE: usize = 4;
    const TRIALS: (usize, usize) = (30, 1000);

    fn minimal(sample: &[[f64; 4]], models: &mut Vec<Matrix3<f64>>) {
        models.extend(four_point(sample));
    }

    fn least_squares(pairs: &[[f64; 4]]) -> Option<Matrix3<f64>> {
        direct_linear_transform(pairs)
    }
}

/// The two rows of x2 x (H x1) = 0 in the row-major entries of H.
fn transfer_rows(&[x1, y1, x2, y2]: &[f64; 4]) -> [[f64; 9]; 2] {
    [
        [x1, y1, 1.0, 0.0, 0.0, 0.0, -x2 * x1, -x2 * y1, -x2],
        [0.0, 0.0, 0.0, x1, y1, 1.0, -y2 * x1, -y2 * y1, -y2],
    ]
}

/// The homography of four pairs; none where three of a side are on a line or the sides are of opposite sense.
pub fn four_point(sample: &[[f64; 4]]) -> Option<Matrix3<f64>> {
    let area = |side: usize, [a, b, c]: [usize; 3]| {
        let point = |i: usize| [sample[i][2 * side], sample[i][2 * side + 1]];
        let ([ax, ay], [bx, by], [cx, cy]) = (point(a), point(b), point(c));
        (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
    };
    let triples = [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]];
    let same_sense = triples.iter().all(|t| area(0, *t) * area(1, *t) > 0.0);
    if !same_sense {
        return None;
    }
    let rows: [[f64; 9]; 8] = std::array::from_fn(|i| transfer_rows(&sample[i / 2])[i % 2]);
    null_matrices::<8, 1>(rows).map(|[matrix]| matrix)
}

/// The normalised direct linear transform (Hartley and Zisserman 2004, algorithm 4.2).
pub fn direct_linear_transform(pairs: &[[f64; 4]]) -> Option<Matrix3<f64>> {
    if pairs.len() < 4 {
        return None;
    }
    let mut pairs = pairs.to_vec();
    let (first, second) = (normalize(&mut pairs, 0)?, normalize(&mut pairs, 1)?);
    let mut products = SMatrix::zeros();
    for row in pairs.iter().flat_map(transfer_rows) {
        add_products(&mut products, &row);
    }
    Some((second.try_inverse()? * smallest_eigen_matrix(products)? * first).normalize())
}

/// A homography of Frobenius norm 1.
#[derive(Clone, Debug, PartialEq)]
pub struct HomographyChart(Matrix3<f64>);

impl Chart for HomographyChart {
    fn from_matrix(matrix: &Matrix3<f64>) -> Option<Self> {
        matrix.try_normalize(1e-12).filter(|m| m.iter().all(|v| v.is_finite())).map(HomographyChart)
    }

    fn matrix(&self) -> Matrix3<f64> {
        self.0
    }

    /// The other columns of the reflection that turns the matrix onto its largest entry.
    fn tangents(&self) -> SMatrix<f64, 9, MAX_PARAMETERS> {
        let h = SVector::<f64, 9>::from_fn(|i, _| self.0[(i / 3, i % 3)]);
        let axis = h.iamax();
        let mut reflector = h;
        reflector[axis] += 1.0_f64.copysign(h[axis]);
        let scale = 2.0 / reflector.norm_squared();
        let mut tangents = SMatrix::<f64, 9, MAX_PARAMETERS>::zeros();
        for (column, other) in (0..9).filter(|i| *i != axis).enumerate() {
            let mut tangent = reflector * (-scale * reflector[other]);
            tangent[other] += 1.0;
            tangents.set_column(column, &tangent);
        }
        tangents
    }

    fn step(&self, delta: &SVector<f64, MAX_PARAMETERS>) -> Self {
        let moved = self.tangents() * delta;
        HomographyChart((self.0 + Matrix3::from_row_slice(moved.as_slice())).normalize())
    }
}

/// The homography of a rotation on rays.
#[derive(Clone, Debug, PartialEq)]
pub struct RotationChart(pub Matrix3<f64>);

impl Chart for RotationChart {
    fn from_matrix(matrix: &Matrix3<f64>) -> Option<Self> {
        // H and -H are one homography, a rotation has determinant 1.
        let (u, _, v) = rotations_of(&(matrix * matrix.determinant().signum()))?;
        Some(RotationChart(u * v.transpose()))
    }

    fn matrix(&self) -> Matrix3<f64> {
        self.0
    }

    fn tangents(&self) -> SMatrix<f64, 9, MAX_PARAMETERS> {
        let mut tangents = SMatrix::zeros();
        for axis in 0..3 {
            set_column(&mut tangents, axis, &(self.0 * skew(&Vector3::ith(axis, 1.0))));
        }
        tangents
    }

    fn step(&self, delta: &SVector<f64, MAX_PARAMETERS>) -> Self {
        RotationChart(self.0 * rotation_from_vector(&delta.fixed_rows::<3>(0).into_owned()))
    }
}
