//! Fundamental matrices: x2' F x1 = 0.

use nalgebra::{Matrix3, SMatrix, SVector, Vector3};

use super::linear::{add_products, epipolar_row, normalize, null_matrices, smallest_eigen_matrix};
use super::polynomial::{MAX_DEGREE, real_roots};
use super::ransac::Estimator;
use super::refine::{Chart, MAX_PARAMETERS, rotation_from_vector, rotations_of, set_column, skew};
use super::scoring::Sampson;

/// The seven-point method and the normalised eight-point method.
pub struct Fundamental;

impl Estimator for Fundamental {
    type Residual = Sampson;
    type Chart = FundamentalChart;
    const SAMPLE_SIZE: usize = 7;
    const TRIALS: (usize, usize) = (30, 4000);

    fn minimal(sample: &[[f64; 4]], models: &mut Vec<Matrix3<f64>>) {
        seven_point(sample, models);
    }

    fn least_squares(pairs: &[[f64; 4]]) -> Option<Matrix3<f64>> {
        eight_point(pairs)
    }
}

/// One or three fundamental matrices of seven pairs (Hartley and Zisserman 2004, 11.1.2).
pub fn seven_point(sample: &[[f64; 4]], models: &mut Vec<Matrix3<f64>>) {
    let rows: [[f64; 9]; 7] = std::array::from_fn(|i| epipolar_row(&sample[i]));
    let Some([a, b]) = null_matrices::<7, 2>(rows) else { return };
    // det(a + x b): the mixed terms by the columns' adjugates.
    let mixed = |m: &Matrix3<f64>, n: &Matrix3<f64>| adjugate(m).component_mul(&n.transpose()).sum();
    let cubic = [a.determinant(), mixed(&a, &b), mixed(&b, &a), b.determinant()];
    let mut roots = [0.0; MAX_DEGREE];
    let n_roots = real_roots(&cubic, &mut roots);
    models.extend(roots[..n_roots].iter().map(|x| (a + b * *x).normalize()));
}

fn adjugate(m: &Matrix3<f64>) -> Matrix3<f64> {
    let rows = [1, 2, 0].map(|i| m.row(i).transpose());
    let next = [2, 0, 1].map(|i| m.row(i).transpose());
    Matrix3::from_columns(&[rows[0].cross(&next[0]), rows[1].cross(&next[1]), rows[2].cross(&next[2])])
}

/// The normalised eight-point method (Hartley 1997), of rank 2.
pub fn eight_point(pairs: &[[f64; 4]]) -> Option<Matrix3<f64>> {
    if pairs.len() < 8 {
        return None;
    }
    let mut pairs = pairs.to_vec();
    let (first, second) = (normalize(&mut pairs, 0)?, normalize(&mut pairs, 1)?);
    let mut products = SMatrix::zeros();
    for pair in &pairs {
        add_products(&mut products, &epipolar_row(pair));
    }
    let chart = FundamentalChart::from_matrix(&smallest_eigen_matrix(products)?)?;
    Some((second.transpose() * chart.matrix() * first).normalize())
}

/// F = U diag(1, s, 0) V' with rotations U and V (Bartoli and Sturm 2004).
#[derive(Clone, Debug, PartialEq)]
pub struct FundamentalChart {
    u: Matrix3<f64>,
    ratio: f64,
    v: Matrix3<f64>,
}

impl Chart for FundamentalChart {
    fn from_matrix(matrix: &Matrix3<f64>) -> Option<Self> {
        let (u, singular_values, v) = rotations_of(matrix)?;
        let ratio = singular_values[1] / singular_values[0];
        ratio.is_finite().then_some(FundamentalChart { u, ratio, v })
    }

    fn matrix(&self) -> Matrix3<f64> {
        self.u * Matrix3::from_diagonal(&Vector3::new(1.0, self.ratio, 0.0)) * self.v.transpose()
    }

    fn tangents(&self) -> SMatrix<f64, 9, MAX_PARAMETERS> {
        let mut tangents = SMatrix::zeros();
        let middle = Matrix3::from_diagonal(&Vector3::new(1.0, self.ratio, 0.0));
        for axis in 0..3 {
            let turn = skew(&Vector3::ith(axis, 1.0));
            set_column(&mut tangents, axis, &(self.u * turn * middle * self.v.transpose()));
            set_column(&mut tangents, 3 + axis, &(self.u * middle * turn.transpose() * self.v.transpose()));
        }
        set_column(&mut tangents, 6, &(self.u.column(1) * self.v.column(1).transpose()));
        tangents
    }

    fn step(&self, delta: &SVector<f64, MAX_PARAMETERS>) -> Self {
        FundamentalChart {
            u: self.u * rotation_from_vector(&delta.fixed_rows::<3>(0).into_owned()),
            ratio: self.ratio + delta[6],
            v: self.v * rotation_from_vector(&delta.fixed_rows::<3>(3).into_owned()),
        }
    }
}
