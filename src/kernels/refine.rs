//! Kernel `refine`.
