//! Kernel `dog`.
