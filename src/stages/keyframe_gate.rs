//! Stage `keyframe_gate`.
