//! trackweave: a video of a static scene in, a COLMAP database out.
//!
//! ```text
//!                      tracks (1 initial token: the empty table)
//!         +----------------------------------------------------------+
//!         v                                                          |
//! decode -> gray_upload -> klt_push -> keyframe_gate -> sift_extract -> keyframe_join -> descriptor_match -> pair_merge -> epipolar_verify -> export
//!                                                                    ^                                                           |
//!                                                                    +--------- verdicts (L initial empty tokens) ---------------+
//! ```
//!
//! One token a sampled frame: at each firing a stage takes exactly one token from each input and gives one on each
//! output, so the result depends on input, options and backend alone, never on timing or thread count.
//!
//! The modules below stand in reading order.

pub mod message;
pub mod stages;

pub mod error;
pub mod launcher;
pub mod pipeline;
pub mod record;

pub mod picture;
pub mod video;

pub mod device;
pub mod gray;
pub mod kernels;
pub mod klt;
pub mod matching;
pub mod numerics;
pub mod sift;

pub mod geometry;

pub mod colmap;

pub mod scene;
