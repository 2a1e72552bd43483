//! Kernel `klt_suppress`.
