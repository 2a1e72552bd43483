//! Stage `descriptor_match`.
