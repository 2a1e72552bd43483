//! The COLMAP database.
