//! Kernel `pyramid_down`.
