//! Kernel `match_descriptors`.
