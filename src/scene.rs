//! The rendered demo scene with its known cameras.
