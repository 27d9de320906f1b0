//! Formats errors on one line, for logs and for people.

use std::error::Error;

/// Formats an error and its sources on one line. It leaves out a source whose text the line already
/// contains.
pub fn causes(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
        next = cause.source();
    }
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Outer {
        text: &'static str,
        source: std::io::Error,
    }

    #[test]
    fn each_source_is_printed_once_on_one_line() {
        let check = |text, want| {
            let source = std::io::Error::other("connection\n  refused");
            assert_eq!(causes(&Outer { text, source }), want);
        };
        check("no answer", "no answer: connection refused");
        check("no answer: connection\n  refused", "no answer: connection refused");
    }
}
