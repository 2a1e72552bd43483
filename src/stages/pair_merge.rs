//! Stage `pair_merge`.
