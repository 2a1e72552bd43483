//! What the record of a run tells about mapping it.
