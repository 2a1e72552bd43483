//! Kernel `gaussian_blur`.
