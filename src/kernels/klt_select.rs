//! Kernel `klt_select`.
