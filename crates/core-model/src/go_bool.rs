//! Booleans as Go programs read them from text.

/// Parses a boolean as Go's `strconv.ParseBool` does. Returns `None` if the text is no boolean.
pub fn parse(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}
