//! Errors in one line, for logs and for people.

use std::error::Error;

/// An error and everything that is behind it, in one line. What a cause repeats of another is said once.
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
    fn each_cause_is_said_once_and_in_one_line() {
        let check = |text, want| {
            let source = std::io::Error::other("connection\n  refused");
            assert_eq!(causes(&Outer { text, source }), want);
        };
        check("no answer", "no answer: connection refused");
        check("no answer: connection\n  refused", "no answer: connection refused");
    }
}
