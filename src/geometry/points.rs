//! Point pairs in blocks of eight, and what the estimators compute over all of them.

use nalgebra::{Matrix3, SMatrix, SVector};

/// Point pairs in a block: sums over pairs have this many partial sums, folded 4, 2, 1.
pub const LANES: usize = 8;
/// A value of each pair of a block.
pub type Lanes = [f64; LANES];

/// Eight point pairs, column by column. Unused lanes have weight 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Block {
    /// Point in the first image.
    pub x1: Lanes,
    /// See `x1`.
    pub y1: Lanes,
    /// Point in the second image.
    pub x2: Lanes,
    /// See `x2`.
    pub y2: Lanes,
    /// 1 for a pair, 0 for padding.
    pub weight: Lanes,
}

/// Point pairs [x1, y1, x2, y2] on the planes z = 1 of the two cameras.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointPairs {
    n: usize,
    blocks: Vec<Block>,
}

impl FromIterator<[f64; 4]> for PointPairs {
    fn from_iter<I: IntoIterator<Item = [f64; 4]>>(pairs: I) -> Self {
        let mut all = PointPairs::default();
        for pair in pairs {
            let lane = all.n % LANES;
            if lane == 0 {
                all.blocks.push(Block::default());
            }
            let block = &mut all.blocks[all.n / LANES];
            let columns = [&mut block.x1, &mut block.y1, &mut block.x2, &mut block.y2];
            for (column, value) in columns.into_iter().zip(pair) {
                column[lane] = value;
            }
            block.weight[lane] = 1.0;
            all.n += 1;
        }
        all
    }
}

impl PointPairs {
    /// How many pairs.
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// The blocks; the last may be padded.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Pair `i` as [x1, y1, x2, y2].
    pub fn pair(&self, i: usize) -> [f64; 4] {
        let (block, lane) = (&self.blocks[i / LANES], i % LANES);
        [block.x1[lane], block.y1[lane], block.x2[lane], block.y2[lane]]
    }

    /// All pairs.
    pub fn iter(&self) -> impl Iterator<Item = [f64; 4]> + Clone {
        (0..self.n).map(|i| self.pair(i))
    }
}

/// Row-major entries of a matrix.
pub fn row_major(matrix: &Matrix3<f64>) -> [f64; 9] {
    std::array::from_fn(|i| matrix[(i / 3, i % 3)])
}

/// The sum of the lanes: 4, 2, 1.
#[inline(always)]
pub fn fold(mut lanes: Lanes) -> f64 {
    for width in [4, 2, 1] {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
    }
    lanes[0]
}

/// A residual of each pair of a block and its derivatives by the nine entries of the matrix, row-major.
pub struct Row {
    /// The residual.
    pub residual: Lanes,
    /// Derivative by each entry.
    pub gradient: [Lanes; 9],
}

/// Sums of weighted products of `Row`s: the normal equations in the nine entries of the matrix.
pub struct NormalEquations {
    /// Upper triangle of the sum of gradient gradient', row by row.
    products: [Lanes; 45],
    /// Sum of gradient residual.
    right: [Lanes; 9],
}

impl Default for NormalEquations {
    fn default() -> Self {
        NormalEquations { products: [[0.0; LANES]; 45], right: [[0.0; LANES]; 9] }
    }
}

impl NormalEquations {
    /// Adds a row of a block.
    #[inline(always)]
    pub fn add(&mut self, row: &Row, weight: &Lanes) {
        let mut at = 0;
        for i in 0..9 {
            let mut weighted = [0.0; LANES];
            for lane in 0..LANES {
                weighted[lane] = weight[lane] * row.gradient[i][lane];
                self.right[i][lane] += weighted[lane] * row.residual[lane];
            }
            for j in i..9 {
                for lane in 0..LANES {
                    self.products[at][lane] += weighted[lane] * row.gradient[j][lane];
                }
                at += 1;
            }
        }
    }

    /// The 9 x 9 matrix and the right-hand side.
    pub fn sum(&self) -> (SMatrix<f64, 9, 9>, SVector<f64, 9>) {
        let mut matrix = SMatrix::zeros();
        let mut at = 0;
        for i in 0..9 {
            for j in i..9 {
                matrix[(i, j)] = fold(self.products[at]);
                matrix[(j, i)] = matrix[(i, j)];
                at += 1;
            }
        }
        (matrix, SVector::from_fn(|i, _| fold(self.right[i])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_back_and_padding_weighs_nothing() {
        let pairs: Vec<[f64; 4]> = (0..11).map(|i| std::array::from_fn(|c| (4 * i + c) as f64)).collect();
        let points: PointPairs = pairs.iter().copied().collect();
        assert_eq!((points.len(), points.blocks().len()), (11, 2));
        assert!(points.iter().eq(pairs));
        assert_eq!(points.blocks()[1].weight, [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn normal_equations_add_weighted_products() {
        let row = Row {
            residual: [2.0; LANES],
            gradient: std::array::from_fn(|i| std::array::from_fn(|lane| (i + lane) as f64)),
        };
        let mut equations = NormalEquations::default();
        let weight = [1.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        equations.add(&row, &weight);
        let (matrix, right) = equations.sum();
        let expected = |i: f64, j: f64| i * j + 3.0 * (i + 2.0) * (j + 2.0);
        assert_eq!((matrix[(2, 5)], matrix[(5, 2)]), (expected(2.0, 5.0), expected(2.0, 5.0)));
        assert_eq!(right[4], 2.0 * (4.0 + 3.0 * 6.0));
    }
}
