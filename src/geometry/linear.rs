//! Null spaces, and Hartley's normalisation before them.

use nalgebra::{Matrix3, SMatrix};

/// Moves the points of one image (0: the first, 1: the second) to mean 0 and mean squared distance 2 (Hartley 1997);
/// the matrix that does it. None where all points are one.
pub(super) fn normalize(pairs: &mut [[f64; 4]], image: usize) -> Option<Matrix3<f64>> {
    let (x, y) = (2 * image, 2 * image + 1);
    let n = pairs.len() as f64;
    let mean = |i: usize| pairs.iter().map(|p| p[i]).sum::<f64>() / n;
    let (cx, cy) = (mean(x), mean(y));
    let spread = pairs.iter().map(|p| (p[x] - cx) * (p[x] - cx) + (p[y] - cy) * (p[y] - cy)).sum::<f64>() / n;
    let scale = (2.0 / spread).sqrt();
    if !(scale.is_finite() && scale < 1e9) {
        return None;
    }
    for pair in pairs {
        pair[x] = (pair[x] - cx) * scale;
        pair[y] = (pair[y] - cy) * scale;
    }
    Some(Matrix3::new(scale, 0.0, -scale * cx, 0.0, scale, -scale * cy, 0.0, 0.0, 1.0))
}

/// Adds row row' to `products`.
pub(super) fn add_products(products: &mut SMatrix<f64, 9, 9>, row: &[f64; 9]) {
    for i in 0..9 {
        for j in 0..9 {
            products[(i, j)] += row[i] * row[j];
        }
    }
}

/// The coefficients of x2' M x1 in the row-major entries of M.
#[inline]
pub(super) fn epipolar_row(&[x1, y1, x2, y2]: &[f64; 4]) -> [f64; 9] {
    [x2 * x1, x2 * y1, x2, y2 * x1, y2 * y1, y2, x1, y1, 1.0]
}

/// An orthonormal basis of the vectors that all `N` rows are orthogonal to: `count` matrices whose row-major entries
/// are those vectors. Householder reflections of the rows, with column pivoting; none where the rows are dependent.
pub(super) fn null_matrices<const N: usize, const COUNT: usize>(
    mut rows: [[f64; 9]; N],
) -> Option<[Matrix3<f64>; COUNT]> {
    const { assert!(N + COUNT == 9) };
    let mut largest = 0.0;
    for k in 0..N {
        let norm2 = |row: &[f64; 9]| row[k..].iter().map(|v| v * v).sum::<f64>();
        let pivot = (k..N).reduce(|a, b| if norm2(&rows[b]) > norm2(&rows[a]) { b } else { a })?;
        rows.swap(k, pivot);
        let norm = norm2(&rows[k]).sqrt();
        largest = if k == 0 { norm } else { largest };
        if !(norm.is_finite() && norm > 1e-10 * largest && largest > 0.0) {
            return None;
        }
        // The reflector v replaces the row: H = I - 2 v v' / v'v turns the row onto axis k.
        let mut v = rows[k];
        v[..k].fill(0.0);
        v[k] += norm.copysign(v[k]);
        let scale = 2.0 / v.iter().map(|c| c * c).sum::<f64>();
        for row in &mut rows[k + 1..] {
            reflect(row, &v, scale);
        }
        let unit = (0.5 * scale).sqrt();
        rows[k] = v.map(|c| c * unit);
    }
    Some(std::array::from_fn(|i| {
        let mut vector = [0.0; 9];
        vector[N + i] = 1.0;
        for reflector in rows.iter().rev() {
            reflect(&mut vector, reflector, 2.0);
        }
        Matrix3::from_row_slice(&vector)
    }))
}

#[inline]
fn reflect(vector: &mut [f64; 9], reflector: &[f64; 9], scale: f64) {
    let along: f64 = vector.iter().zip(reflector).map(|(a, b)| a * b).sum();
    for (c, r) in vector.iter_mut().zip(reflector) {
        *c -= scale * along * r;
    }
}

/// The unit matrix M that makes m' A m smallest, m its row-major entries; none where A is not finite.
pub(super) fn smallest_eigen_matrix(products: SMatrix<f64, 9, 9>) -> Option<Matrix3<f64>> {
    if !products.iter().all(|v| v.is_finite()) {
        return None;
    }
    let eigen = products.symmetric_eigen();
    let smallest = eigen.eigenvalues.imin();
    Some(Matrix3::from_row_slice(eigen.eigenvectors.column(smallest).as_slice()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::SplitMix64;

    #[test]
    fn null_matrices_are_orthonormal_and_orthogonal_to_the_rows() {
        let mut rng = SplitMix64::new(3, 0);
        let rows: [[f64; 9]; 5] = std::array::from_fn(|_| std::array::from_fn(|_| rng.unit() - 0.5));
        let null: [Matrix3<f64>; 4] = null_matrices(rows).unwrap();
        for (i, a) in null.iter().enumerate() {
            assert!(rows.iter().all(|row| Matrix3::from_row_slice(row).dot(a).abs() < 1e-14));
            for (j, b) in null.iter().enumerate() {
                let expected = if i == j { 1.0 } else { 0.0 };
                assert!((a.dot(b) - expected).abs() < 1e-14);
            }
        }
        let mut dependent = rows;
        dependent[3] = std::array::from_fn(|i| rows[0][i] - 2.0 * rows[1][i]);
        assert!(null_matrices::<5, 4>(dependent).is_none());
        assert!(null_matrices::<5, 4>([[0.0; 9]; 5]).is_none());
        assert!(null_matrices::<5, 4>([[f64::NAN; 9]; 5]).is_none());
    }
}
