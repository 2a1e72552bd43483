//! Stage `keyframe_join`.
