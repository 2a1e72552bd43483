//! Kernel `eigen_max`.
