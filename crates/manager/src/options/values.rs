//! Parsers of flag values. Their errors say what a valid value looks like.

use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{OsStringValueParser, TypedValueParser};
use kube_endpoint_api_client::ContentType;
use kube_endpoint_core_model::go_bool;

/// Takes a path, or an empty value, which
/// [`Options::unset_empty_paths`](super::Options::unset_empty_paths) removes.
pub(crate) fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// Parses an integer.
pub(crate) fn whole<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| match text.parse::<i128>() {
        Ok(..0) => "it must not be negative",
        Ok(_) => "it is too large",
        Err(_) => "write a whole number, such as 5",
    })
}

/// Parses a number that may have a fraction.
pub(crate) fn number(text: &str) -> Result<f64, &'static str> {
    text.parse().ok().filter(|number: &f64| number.is_finite()).ok_or("write a number, such as 5 or 0.5")
}

/// Parses the encoding of requests.
pub(crate) fn content_type(text: &str) -> Result<ContentType, &'static str> {
    let known = ContentType::ALL.into_iter().find(|content_type| content_type.as_str() == text);
    known.ok_or("write application/vnd.kubernetes.protobuf or application/json")
}

/// Parses a boolean, as Go does.
pub(crate) fn boolean(text: &str) -> Result<bool, &'static str> {
    go_bool::parse(text).ok_or("write true or false")
}
