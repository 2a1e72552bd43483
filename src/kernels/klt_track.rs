//! Kernel `klt_track`.
