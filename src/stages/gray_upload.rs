//! Stage `gray_upload`.
