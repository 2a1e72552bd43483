//! Video files through GStreamer: the only module that knows it.
