//! Stage `sift_extract`.
