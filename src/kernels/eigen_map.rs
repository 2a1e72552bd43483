//! Kernel `eigen_map`.
