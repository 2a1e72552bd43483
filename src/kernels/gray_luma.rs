//! Kernel `gray_luma`.
