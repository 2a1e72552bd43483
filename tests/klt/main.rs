//! The tracker held to its design: a frozen scene with known motion, the cases that end, an independent form of it in
//! f64, and properties that hold for any picture. What is a bar and what the design reports stands in `klt_cases.rs`.
//!
//! `tools/mutate_tracker.py` breaks the tracker on purpose, one fault at a time, and says which of these tests sees it.

#[path = "../support/klt_cases.rs"]
mod klt_cases;
#[path = "../support/klt_oracle.rs"]
mod klt_oracle;
#[path = "../support/klt_reference.rs"]
mod klt_reference;
#[path = "../support/klt_scene.rs"]
mod klt_scene;

mod bars;
mod bits;
mod brightness;
mod endings;
mod hardness;
mod motion;
mod oracle;
mod properties;
