//! The error of an invalid option.

use std::fmt::Display;

/// An invalid option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid value {value:?} for {option}: {why}")]
pub struct InvalidOption {
    pub option: String,
    pub value: String,
    /// The reason, and the valid values.
    pub why: String,
}

impl InvalidOption {
    pub(crate) fn new(option: &str, value: impl Display, why: impl Into<String>) -> Self {
        Self { option: option.into(), value: value.to_string(), why: why.into() }
    }
}

/// Returns the value if it is between `least` and `most`, both inclusive.
pub(crate) fn in_range<T: PartialOrd + Display + Copy>(
    option: &str,
    value: T,
    least: T,
    most: T,
) -> Result<T, InvalidOption> {
    if value >= least && value <= most {
        return Ok(value);
    }
    Err(InvalidOption::new(option, value, format!("it must be between {least} and {most}")))
}
