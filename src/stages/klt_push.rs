//! Stage `klt_push`.
