//! Kernel `klt_check`.
