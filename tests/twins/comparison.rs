//! What the device gave against what the twin gave. The two cannot be mixed up: each has a type.

use libtest_mimic::Failed;
use trackweave::device::{AdapterKind, Gpu};

/// Values of the device.
pub struct Dev<'a, T>(pub &'a [T]);

/// Values of the twin.
pub struct Cpu<'a, T>(pub &'a [T]);

/// Equal bits on a software adapter, elsewhere equal within `tolerance`.
pub fn compare(
    gpu: &Gpu,
    name: &str,
    found: Dev<f32>,
    expected: Cpu<f32>,
    tolerance: f32,
) -> Result<(), Failed> {
    if gpu.adapter().kind == AdapterKind::Software {
        return compare_bits(name, found, expected);
    }
    let is_close = |a: f32, b: f32| a == b || (a - b).abs() <= tolerance;
    report(name, found, expected, |a, b| is_close(*a, *b))
}

/// Equal bits.
pub fn compare_bits(name: &str, found: Dev<f32>, expected: Cpu<f32>) -> Result<(), Failed> {
    report(name, found, expected, |a, b| a.to_bits() == b.to_bits())
}

/// Equal values.
pub fn compare_equal<T: std::fmt::Debug + PartialEq>(
    name: &str,
    found: Dev<T>,
    expected: Cpu<T>,
) -> Result<(), Failed> {
    report(name, found, expected, |a, b| a == b)
}

fn report<T: std::fmt::Debug>(
    name: &str,
    Dev(found): Dev<T>,
    Cpu(expected): Cpu<T>,
    is_equal: impl Fn(&T, &T) -> bool,
) -> Result<(), Failed> {
    if found.len() != expected.len() {
        return Err(format!("{name} has {} values, the twin's {}", found.len(), expected.len()).into());
    }
    let pairs = found.iter().zip(expected).enumerate();
    let wrong: Vec<_> = pairs.filter(|(_, (a, b))| !is_equal(a, b)).collect();
    match wrong.first() {
        None => Ok(()),
        Some((index, (a, b))) => {
            let count = format!("{} of {} differ", wrong.len(), found.len());
            Err(format!("{name}[{index}] is {a:?}, the twin's {b:?} ({count})").into())
        }
    }
}
