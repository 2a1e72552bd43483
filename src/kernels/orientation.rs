//! Kernel `orientation`.
