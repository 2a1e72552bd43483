//! Kernel `gray_rgb`.
