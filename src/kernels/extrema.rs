//! Kernel `extrema`.
