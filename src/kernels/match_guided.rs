//! Kernel `match_guided`.
