//! Kernel `scharr`.
