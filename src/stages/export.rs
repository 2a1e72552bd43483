//! Stage `export`.
