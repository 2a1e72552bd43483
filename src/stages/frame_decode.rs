//! Stage `frame_decode`.
