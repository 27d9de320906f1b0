//! Warnings of the API server: the `Warning` header of answers, such as that v1 Endpoints are deprecated.
//!
//! client-go's default logs each; this logs each text once, as kubectl does, because the server repeats it with every
//! request. Upstream: `rest/warnings.go` in client-go, `net.ParseWarningHeaders` in apimachinery.

use std::collections::HashSet;

use http::HeaderMap;
use http::header::WARNING;
use parking_lot::Mutex;

/// How many different texts are logged. A server that makes up texts cannot fill the log or the memory.
const MOST_TEXTS: usize = 100;
/// What is kept of a text, in bytes.
const LONGEST_TEXT: usize = 1000;
/// The code of the warnings that Kubernetes sends: "miscellaneous persistent warning".
const MISCELLANEOUS: &str = "299";

/// The warnings that were logged.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<HashSet<String>>);

impl Warnings {
    /// Logs the warnings of an answer that were not logged before.
    pub(crate) fn log(&self, headers: &HeaderMap, path: &str) {
        for header in headers.get_all(WARNING) {
            for text in texts(&String::from_utf8_lossy(header.as_bytes())) {
                if self.is_new(&text) {
                    tracing::warn!(path, "the API server warns: {text}");
                }
            }
        }
    }

    fn is_new(&self, text: &str) -> bool {
        let mut logged = self.0.lock();
        !logged.contains(text) && logged.len() < MOST_TEXTS && logged.insert(text.to_owned())
    }
}

/// The texts of a header: `299 - "text"`, perhaps with a date, perhaps several of them with commas in between. What does not
/// have this form ends the list.
fn texts(header: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut rest = header.trim_start_matches([' ', ',']);
    while let Some((code, text, after)) = warning(rest) {
        if code == MISCELLANEOUS && !text.is_empty() {
            texts.push(text);
        }
        rest = after.trim_start_matches([' ', ',']);
    }
    texts
}

/// The first warning: its code, its text, and what follows.
fn warning(header: &str) -> Option<(&str, String, &str)> {
    let (code, rest) = header.split_once(' ')?;
    let (_agent, rest) = rest.split_once(' ')?;
    let (text, mut rest) = quoted(rest)?;
    if let Some((_date, after)) = quoted(rest.trim_start()) {
        rest = after;
    }
    Some((code, text, rest))
}

/// A quoted string without its quotes, escapes and control characters, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let text = text.strip_prefix('"')?;
    let mut content = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        let char = match char {
            '"' => return Some((content, text.get(at + 1..)?)),
            '\\' => chars.next()?.1,
            char => char,
        };
        if !char.is_control() && content.len() < LONGEST_TEXT {
            content.push(char);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_a_header() {
        let check = |header: &str, expected: &[&str]| assert_eq!(texts(header), expected, "{header}");
        check(r#"299 - "v1 Endpoints is deprecated""#, &["v1 Endpoints is deprecated"]);
        check(
            r#"299 - "a, b" "Wed, 21 Oct 2026 07:28:00 GMT", 299 host:80 "say \"c\" \\""#,
            &["a, b", r#"say "c" \"#],
        );
        check(r#"199 - "another code", 299 - "this""#, &["this"]);
        check("299 - \"two\tlines\"", &["twolines"]);
        for invalid in ["", "299", "299 -", "299 - text", r#"299 - "open"#, r#"299 - "open\"#, "\u{fffd}"] {
            check(invalid, &[]);
        }
        let long = "é".repeat(LONGEST_TEXT);
        assert_eq!(texts(&format!("299 - \"{long}\"")), ["é".repeat(LONGEST_TEXT / 2)]);
    }

    #[test]
    fn each_text_is_new_once_and_their_number_is_bounded() {
        let warnings = Warnings::default();
        let new =
            (0..10 * MOST_TEXTS).filter(|number| warnings.is_new(&format!("text {}", number / 2))).count();
        assert_eq!(new, MOST_TEXTS);
        assert!(!warnings.is_new("text 0"));
    }
}
