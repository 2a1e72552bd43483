//! Kernel `klt_occupancy`.
