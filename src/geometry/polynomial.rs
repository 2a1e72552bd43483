//! Real roots of a polynomial.

/// Highest degree that `real_roots` takes.
pub(super) const MAX_DEGREE: usize = 10;
const MAX_ITERATIONS: usize = 80;

/// Writes the real roots of c0 + c1 x + c2 x^2 + ... in ascending order and says how many there are. A root of even
/// multiplicity may be missed.
///
/// The roots of the derivative cut the line into pieces with at most one root each, where a bracketed Newton's method
/// cannot fail; the derivative's roots are found the same way, from degree 1 upwards.
pub(super) fn real_roots(coefficients: &[f64], roots: &mut [f64; MAX_DEGREE]) -> usize {
    let Some(degree) = effective_degree(coefficients) else { return 0 };
    let bound = root_bound(&coefficients[..=degree]);
    if !bound.is_finite() {
        return 0;
    }
    let mut count = 0;
    let mut derivative = [0.0; MAX_DEGREE + 1];
    for order in (0..degree).rev() {
        let n = degree - order;
        for i in 0..=n {
            let falling: f64 = (i + 1..=i + order).map(|k| k as f64).product();
            derivative[i] = coefficients[i + order] * falling;
        }
        count = next_roots(&derivative[..=n], bound, roots, count);
    }
    count
}

/// Replaces the roots of the derivative of `polynomial` by its own.
fn next_roots(polynomial: &[f64], bound: f64, roots: &mut [f64; MAX_DEGREE], n_critical: usize) -> usize {
    let mut count = 0;
    let mut low = -bound;
    let mut at_low = evaluate(polynomial, low).0;
    for piece in 0..=n_critical {
        let high = if piece < n_critical { roots[piece] } else { bound };
        let at_high = evaluate(polynomial, high).0;
        if (at_low < 0.0) != (at_high < 0.0) && count < polynomial.len() - 1 {
            // `count <= piece`, so no critical point is overwritten before it is read.
            roots[count] = bracketed_root(polynomial, low, high, at_low < 0.0);
            count += 1;
        }
        (low, at_low) = (high, at_high);
    }
    count
}

fn bracketed_root(polynomial: &[f64], mut low: f64, mut high: f64, negative_at_low: bool) -> f64 {
    let mut x = 0.5 * (low + high);
    for _ in 0..MAX_ITERATIONS {
        let (value, slope) = evaluate(polynomial, x);
        if (value < 0.0) == negative_at_low {
            low = x;
        } else {
            high = x;
        }
        let newton = x - value / slope;
        let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        let step = (next - x).abs();
        x = next;
        if step <= 1e-13 * x.abs().max(1e-3) {
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

/// Fujiwara's bound on the absolute value of the roots.
fn root_bound(coefficients: &[f64]) -> f64 {
    let degree = coefficients.len() - 1;
    let ratio = |i: usize| (coefficients[i] / coefficients[degree]).abs();
    (0..degree).fold(0.0_f64, |m, i| m.max(2.0 * libm::pow(ratio(i), 1.0 / (degree - i) as f64)))
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
    fn finds_all_real_roots_in_order() {
        let expected = [-30.0, -2.5, -0.3, -0.29, 0.0, 0.7, 1.0, 4.0, 9.0, 55.0];
        let mut roots = [0.0; MAX_DEGREE];
        assert_eq!(real_roots(&with_roots(&expected), &mut roots), 10);
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
