//! Kernel `upsample`.
