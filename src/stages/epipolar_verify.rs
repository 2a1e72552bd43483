//! Stage `epipolar_verify`.
