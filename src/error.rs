//! Errors that several parts share.

/// A stage's option out of its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{option} = {value}: {must}")]
pub struct OptionError {
    /// The option's name.
    pub option: &'static str,
    /// The value as the user would write it.
    pub value: String,
    /// What it must be, or what to do: "must be odd and in 3..=31".
    pub must: String,
}

impl OptionError {
    /// `option = value: must`.
    pub fn new(option: &'static str, value: impl std::fmt::Display, must: impl Into<String>) -> Self {
        OptionError { option, value: value.to_string(), must: must.into() }
    }
}
