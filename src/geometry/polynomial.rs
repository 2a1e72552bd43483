//! Real roots of a polynomial.

/// Highest degree that `real_roots` takes.
pub(super) const MAX_DEGREE: usize = 10;
const MAX_ITERATIONS: usize = 80;

/// Writes the real roots of c0 + c1 x + c2 x^2 + ... and says how many there are: those within [-1, 1] in ascending
/// order, then the others as the inverses of the roots of the reversed polynomial. A root of even multiplicity may be
/// missed.
pub(super) fn real_roots(coefficients: &[f64], roots: &mut [f64; MAX_DEGREE]) -> usize {
    let Some(degree) = effective_degree(coefficients) else { return 0 };
    let mut polynomial = [0.0; MAX_DEGREE + 1];
    polynomial[..=degree].copy_from_slice(&coefficients[..=degree]);
    let n_inner = roots_in_unit(&polynomial[..=degree], roots);
    polynomial[..=degree].reverse();
    let mut inverses = [0.0; MAX_DEGREE];
    let n_inverses = roots_in_unit(&polynomial[..=degree], &mut inverses);
    let outer = inverses[..n_inverses].iter().filter(|w| w.abs() < 1.0 && **w != 0.0).map(|w| 1.0 / w);
    // Rounding may count a root at -1 or 1 twice; there are never more than the degree.
    let mut count = n_inner;
    for (root, z) in roots[n_inner..degree].iter_mut().zip(outer) {
        *root = z;
        count += 1;
    }
    count
}

/// The roots within [-1, 1]. The roots of the derivative cut the interval into pieces with at most one root each, where
/// a bracketed Newton's method cannot fail; the derivative's roots are found the same way, from degree 1 upwards.
fn roots_in_unit(polynomial: &[f64], roots: &mut [f64; MAX_DEGREE]) -> usize {
    let degree = polynomial.len() - 1;
    let mut count = 0;
    let mut derivative = [0.0; MAX_DEGREE + 1];
    for order in (0..degree).rev() {
        let n = degree - order;
        for i in 0..=n {
            derivative[i] = polynomial[i + order] * FALLING[order][i];
        }
        let tolerance = if order == 0 { 1e-14 } else { 1e-8 };
        count = next_roots(&derivative[..=n], tolerance, roots, count);
    }
    count
}

/// `[order][i]`: what the derivative of that order multiplies the coefficient of its x^i by.
const FALLING: [[f64; MAX_DEGREE + 1]; MAX_DEGREE] = {
    let mut table = [[1.0; MAX_DEGREE + 1]; MAX_DEGREE];
    let mut order = 1;
    while order < MAX_DEGREE {
        let mut i = 0;
        while i <= MAX_DEGREE {
            table[order][i] = table[order - 1][i] * (i + order) as f64;
            i += 1;
        }
        order += 1;
    }
    table
};

/// Replaces the roots of the derivative of `polynomial` by its own.
fn next_roots(polynomial: &[f64], tolerance: f64, roots: &mut [f64; MAX_DEGREE], n_critical: usize) -> usize {
    let mut count = 0;
    let mut low = -1.0;
    let mut at_low = evaluate(polynomial, low).0;
    for piece in 0..=n_critical {
        let high = if piece < n_critical { roots[piece] } else { 1.0 };
        let at_high = evaluate(polynomial, high).0;
        if (at_low < 0.0) != (at_high < 0.0) && count < polynomial.len() - 1 {
            // `count <= piece`, so no critical point is overwritten before it is read.
            roots[count] = bracketed_root(polynomial, tolerance, [low, high], [at_low, at_high]);
            count += 1;
        }
        (low, at_low) = (high, at_high);
    }
    count
}

/// The root between two points where the polynomial has opposite signs, from where the chord meets 0.
fn bracketed_root(
    polynomial: &[f64],
    tolerance: f64,
    [mut low, mut high]: [f64; 2],
    [at_low, at_high]: [f64; 2],
) -> f64 {
    let chord = low + (high - low) * (at_low / (at_low - at_high));
    let mut x = if chord > low && chord < high { chord } else { 0.5 * (low + high) };
    for _ in 0..MAX_ITERATIONS {
        let (value, slope) = evaluate(polynomial, x);
        if (value < 0.0) == (at_low < 0.0) {
            low = x;
        } else {
            high = x;
        }
        let newton = x - value / slope;
        let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        let step = (next - x).abs();
        x = next;
        if step <= tolerance {
            break;
        }
    }
    x
}

/// Value and derivative by Horner's rule.
#[inline]
fn evaluate(polynomial: &[f64], x: f64) -> (f64, f64) {
    let (mut value, mut slope) = (0.0, 0.0);
    for &c in polynomial.iter().rev() {
        slope = slope * x + value;
        value = value * x + c;
    }
    (value, slope)
}

/// The degree without leading coefficients that are nothing beside the others.
fn effective_degree(coefficients: &[f64]) -> Option<usize> {
    let largest = coefficients.iter().fold(0.0_f64, |m, c| m.max(c.abs()));
    (1..coefficients.len()).rev().find(|&i| coefficients[i].abs() > 1e-14 * largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_roots(roots: &[f64]) -> Vec<f64> {
        let mut polynomial = vec![1.0];
        for root in roots {
            let mut next = vec![0.0; polynomial.len() + 1];
            for (i, c) in polynomial.iter().enumerate() {
                next[i + 1] += c;
                next[i] -= c * root;
            }
            polynomial = next;
        }
        polynomial
    }

    #[test]
    fn finds_all_real_roots() {
        let expected = [-30.0, -2.5, -0.3, -0.29, 0.0, 0.7, 1.0, 4.0, 9.0, 55.0];
        let mut roots = [0.0; MAX_DEGREE];
        assert_eq!(real_roots(&with_roots(&expected), &mut roots), 10);
        roots.sort_by(f64::total_cmp);
        for (root, expected) in roots.iter().zip(expected) {
            assert!((root - expected).abs() < 1e-7, "{root} {expected}");
        }
    }

    #[test]
    fn complex_roots_and_degenerate_input() {
        let mut roots = [0.0; MAX_DEGREE];
        // (x^2 + 1)(x - 2)
        assert_eq!(real_roots(&[-2.0, 1.0, -2.0, 1.0], &mut roots), 1);
        assert!((roots[0] - 2.0).abs() < 1e-12);
        assert_eq!(real_roots(&[1.0, 0.0, 1.0], &mut roots), 0);
        assert_eq!(real_roots(&[-6.0, 2.0, 0.0, 0.0], &mut roots), 1);
        assert!((roots[0] - 3.0).abs() < 1e-12);
        assert_eq!(real_roots(&[0.0; 11], &mut roots), 0);
        assert_eq!(real_roots(&[f64::NAN; 11], &mut roots), 0);
    }
}
