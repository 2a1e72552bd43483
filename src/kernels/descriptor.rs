//! Kernel `descriptor`.
