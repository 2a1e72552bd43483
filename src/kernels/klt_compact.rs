//! Kernel `klt_compact`.
