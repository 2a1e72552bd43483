//! Errors that several parts share, and how they are said.

/// An error and its causes on one line: "what: why: why that". A cause that the text before it already says is left
/// out.
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let why = error.to_string();
        if !text.contains(&why) {
            text = format!("{text}: {why}");
        }
        cause = error.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

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
