//! Essential matrices: x2' E x1 = 0 on rays, E = [t]x R.

use nalgebra::{Matrix3, SMatrix, SVector, Vector3};

use super::linear::{epipolar_row, null_matrices};
use super::polynomial::{MAX_DEGREE, real_roots};
use super::ransac::Estimator;
use super::refine::{Chart, MAX_PARAMETERS, rotation_from_vector, rotations_of, set_column, skew};
use super::scoring::Sampson;

/// The five-point method.
pub struct Essential;

impl Estimator for Essential {
    type Residual = Sampson;
    type Chart = EssentialChart;
    const SAMPLE_SIZE: usize = 5;
    const TRIALS: (usize, usize) = (30, 2000);

    fn minimal(sample: &[[f64; 4]], models: &mut Vec<Matrix3<f64>>) {
        five_point(sample, models);
    }
}

/// Monomials in x, y, z by their exponents. Cubic ones in the order of Nister 2004, section 3.2.2.
const LINEAR: [[u8; 3]; 4] = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]];
const QUADRATIC: [[u8; 3]; 10] = [
    [2, 0, 0],
    [1, 1, 0],
    [1, 0, 1],
    [1, 0, 0],
    [0, 2, 0],
    [0, 1, 1],
    [0, 1, 0],
    [0, 0, 2],
    [0, 0, 1],
    [0, 0, 0],
];
#[rustfmt::skip]
const CUBIC: [[u8; 3]; 20] = [
    [3, 0, 0], [0, 3, 0], [2, 1, 0], [1, 2, 0], [2, 0, 1], [2, 0, 0], [0, 2, 1], [0, 2, 0], [1, 1, 1], [1, 1, 0],
    [1, 0, 2], [1, 0, 1], [1, 0, 0], [0, 1, 2], [0, 1, 1], [0, 1, 0], [0, 0, 3], [0, 0, 2], [0, 0, 1], [0, 0, 0],
];
const QUADRATIC_OF: [[usize; 4]; 4] = product_table(&LINEAR, &LINEAR, &QUADRATIC);
const CUBIC_OF: [[usize; 4]; 10] = product_table(&QUADRATIC, &LINEAR, &CUBIC);

const fn product_table<const A: usize, const B: usize, const C: usize>(
    a: &[[u8; 3]; A],
    b: &[[u8; 3]; B],
    products: &[[u8; 3]; C],
) -> [[usize; B]; A] {
    let mut table = [[C; B]; A];
    let mut i = 0;
    while i < A * B * C {
        let (p, q, r) = (a[i / (B * C)], b[i / C % B], products[i % C]);
        if p[0] + q[0] == r[0] && p[1] + q[1] == r[1] && p[2] + q[2] == r[2] {
            table[i / (B * C)][i / C % B] = i % C;
        }
        i += 1;
    }
    table
}

type Linear = [f64; 4];
type Quadratic = [f64; 10];
type Cubic = [f64; 20];

#[inline(always)]
fn add_quadratic(sum: &mut Quadratic, a: &Linear, b: &Linear, factor: f64) {
    for i in 0..4 {
        for j in 0..4 {
            sum[QUADRATIC_OF[i][j]] += factor * a[i] * b[j];
        }
    }
}

#[inline(always)]
fn add_cubic(sum: &mut Cubic, a: &Quadratic, b: &Linear) {
    for i in 0..10 {
        for j in 0..4 {
            sum[CUBIC_OF[i][j]] += a[i] * b[j];
        }
    }
}

/// Up to ten essential matrices of five pairs (Nister 2004: the determinant of degree 10 in z).
pub fn five_point(sample: &[[f64; 4]], models: &mut Vec<Matrix3<f64>>) {
    let rows: [[f64; 9]; 5] = std::array::from_fn(|i| epipolar_row(&sample[i]));
    let Some(basis) = null_matrices::<5, 4>(rows) else { return };
    let mut constraints = constraints_of(&basis);
    if !eliminate(&mut constraints) {
        return;
    }
    let action = action_of(&constraints);
    let mut roots = [0.0; MAX_DEGREE];
    let n_roots = real_roots(&determinant(&action), &mut roots);
    for &z in &roots[..n_roots] {
        let rows = action.map(|[a, b, c]| Vector3::new(at(&a, z), at(&b, z), at(&c, z)));
        // (x, y, 1) is orthogonal to all three rows: the longest of the cross products.
        let candidates = [rows[0].cross(&rows[1]), rows[1].cross(&rows[2]), rows[2].cross(&rows[0])];
        let solution =
            candidates.into_iter().reduce(|a, b| if b.norm_squared() > a.norm_squared() { b } else { a });
        let Some(solution) = solution.filter(|s| s.z.abs() > 1e-12 * s.norm()) else { continue };
        let (x, y) = (solution.x / solution.z, solution.y / solution.z);
        let matrix = basis[0] * x + basis[1] * y + basis[2] * z + basis[3];
        models.push(matrix.normalize());
    }
}

/// The ten cubic constraints on E = x X + y Y + z Z + W: E E'E - trace(E E') E / 2 = 0 and det E = 0.
fn constraints_of(basis: &[Matrix3<f64>; 4]) -> [Cubic; 10] {
    let e: [[Linear; 3]; 3] =
        std::array::from_fn(|i| std::array::from_fn(|j| std::array::from_fn(|k| basis[k][(i, j)])));
    let mut square = [[[0.0; 10]; 3]; 3];
    for i in 0..3 {
        for j in i..3 {
            for k in 0..3 {
                add_quadratic(&mut square[i][j], &e[i][k], &e[j][k], 1.0);
            }
            square[j][i] = square[i][j];
        }
    }
    let half_trace: Quadratic =
        std::array::from_fn(|m| 0.5 * (square[0][0][m] + square[1][1][m] + square[2][2][m]));
    for i in 0..3 {
        for m in 0..10 {
            square[i][i][m] -= half_trace[m];
        }
    }
    let mut constraints = [[0.0; 20]; 10];
    for (at, constraint) in constraints[..9].iter_mut().enumerate() {
        for k in 0..3 {
            add_cubic(constraint, &square[at / 3][k], &e[k][at % 3]);
        }
    }
    for (i, j, k) in [(0, 1, 2), (1, 2, 0), (2, 0, 1)] {
        let mut minor = [0.0; 10];
        add_quadratic(&mut minor, &e[1][j], &e[2][k], 1.0);
        add_quadratic(&mut minor, &e[1][k], &e[2][j], -1.0);
        add_cubic(&mut constraints[9], &minor, &e[0][i]);
    }
    constraints
}

/// Gauss-Jordan with row pivoting: the first ten columns become the identity.
fn eliminate(rows: &mut [Cubic; 10]) -> bool {
    for k in 0..10 {
        let Some(pivot) = (k..10).reduce(|a, b| if rows[b][k].abs() > rows[a][k].abs() { b } else { a })
        else {
            return false;
        };
        rows.swap(k, pivot);
        let scale = 1.0 / rows[k][k];
        if !scale.is_finite() {
            return false;
        }
        let row = rows[k].map(|v| v * scale);
        rows[k] = row;
        for (i, other) in rows.iter_mut().enumerate() {
            if i != k {
                let factor = other[k];
                for m in 0..20 {
                    other[m] -= factor * row[m];
                }
            }
        }
    }
    true
}

/// A polynomial in z, the constant first.
type InZ = [f64; 5];

/// Rows of polynomials (p, q, r) in z with p x + q y + r = 0: from the rows led by x^2 z and x^2, y^2 z and y^2, xyz
/// and xy the leading terms cancel.
fn action_of(rows: &[Cubic; 10]) -> [[InZ; 3]; 3] {
    [(4, 5), (6, 7), (8, 9)].map(|(with_z, without)| {
        let (a, b) = (&rows[with_z], &rows[without]);
        [
            [a[12], a[11] - b[12], a[10] - b[11], -b[10], 0.0],
            [a[15], a[14] - b[15], a[13] - b[14], -b[13], 0.0],
            [a[19], a[18] - b[19], a[17] - b[18], a[16] - b[17], -b[16]],
        ]
    })
}

fn at(polynomial: &InZ, z: f64) -> f64 {
    polynomial.iter().rev().fold(0.0, |sum, c| sum * z + c)
}

/// The determinant of three rows of polynomials of degrees 3, 3 and 4.
fn determinant(rows: &[[InZ; 3]; 3]) -> [f64; 11] {
    let mut sum = [0.0; 11];
    for (i, j, k) in [(0, 1, 2), (1, 2, 0), (2, 0, 1)] {
        let mut minor = [0.0; 9];
        for a in 0..5 {
            for b in 0..5 {
                minor[a + b] += rows[1][j][a] * rows[2][k][b] - rows[1][k][a] * rows[2][j][b];
            }
        }
        // The products above degree 10 are 0.
        for a in 0..5 {
            for b in 0..9.min(11 - a) {
                sum[a + b] += rows[0][i][a] * minor[b];
            }
        }
    }
    sum
}

/// E = [t]x R with a rotation R and a unit vector t.
#[derive(Clone, Debug, PartialEq)]
pub struct EssentialChart {
    /// R.
    pub rotation: Matrix3<f64>,
    /// t.
    pub translation: Vector3<f64>,
}

impl Chart for EssentialChart {
    fn from_matrix(matrix: &Matrix3<f64>) -> Option<Self> {
        decompose(matrix).map(|[first, ..]| first)
    }

    fn matrix(&self) -> Matrix3<f64> {
        skew(&self.translation) * self.rotation
    }

    fn tangents(&self) -> SMatrix<f64, 9, MAX_PARAMETERS> {
        let mut tangents = SMatrix::zeros();
        let matrix = self.matrix();
        for axis in 0..3 {
            set_column(&mut tangents, axis, &(matrix * skew(&Vector3::ith(axis, 1.0))));
        }
        for (i, side) in across(&self.translation).iter().enumerate() {
            set_column(&mut tangents, 3 + i, &(skew(side) * self.rotation));
        }
        tangents
    }

    fn step(&self, delta: &SVector<f64, MAX_PARAMETERS>) -> Self {
        let [a, b] = across(&self.translation);
        EssentialChart {
            rotation: self.rotation * rotation_from_vector(&delta.fixed_rows::<3>(0).into_owned()),
            translation: (self.translation + a * delta[3] + b * delta[4]).normalize(),
        }
    }
}

/// Two unit vectors at right angles to `v` and to each other.
fn across(v: &Vector3<f64>) -> [Vector3<f64>; 2] {
    let a = v.cross(&Vector3::ith(v.iamin(), 1.0)).normalize();
    [a, v.cross(&a)]
}

/// The four motions of an essential matrix (Hartley and Zisserman 2004, 9.6.2), two rotations by two signs.
pub fn decompose(matrix: &Matrix3<f64>) -> Option<[EssentialChart; 4]> {
    let (u, singular_values, v) = rotations_of(matrix)?;
    let rank_two = singular_values[1] > 1e-12 * singular_values[0];
    if !rank_two {
        return None;
    }
    let quarter = Matrix3::new(0.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0);
    let rotations = [u * quarter * v.transpose(), u * quarter.transpose() * v.transpose()];
    let translation = u.column(2).into_owned();
    Some(
        [(0, 1.0), (0, -1.0), (1, 1.0), (1, -1.0)]
            .map(|(i, sign)| EssentialChart { rotation: rotations[i], translation: translation * sign }),
    )
}
