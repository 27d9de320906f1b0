//! Warnings of the API server: the `Warning` header of answers, such as that a field of an object
//! is deprecated.
//!
//! client-go's default logs each; this logs each text once, as kubectl does, because the server
//! repeats it with every request. Upstream: `rest/warnings.go` in client-go,
//! `net.ParseWarningHeaders` in apimachinery.

use std::collections::{HashSet, VecDeque};

use http::HeaderMap;
use http::header::WARNING;
use kube_endpoint_core_model::is_harmless;
use parking_lot::Mutex;

/// The most different texts that the client logs, so that a server that makes up texts cannot fill
/// the log or the memory.
const MOST_TEXTS: usize = 100;
/// The most bytes that the client keeps of a text.
const LONGEST_TEXT: usize = 1000;
/// The most headers that the client remembers as they arrived, and the longest of them in bytes.
const MOST_HEADERS: usize = 16;
const LONGEST_HEADER: usize = 1000;
/// The start of the warning about each request for Endpoints. The controllers maintain Endpoints
/// because clients still read them, so nobody can act on it.
const EXPECTED: &str = "v1 Endpoints is deprecated";
/// The code of the warnings that Kubernetes sends: "miscellaneous persistent warning".
const MISCELLANEOUS: &str = "299";

/// The warnings that the client has logged.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<Logged>);

#[derive(Debug, Default)]
struct Logged {
    texts: HashSet<String>,
    /// The last headers that have nothing more to log. The server answers each write of Endpoints
    /// with the same header, and parsing it takes thousands of instructions.
    headers: VecDeque<Box<[u8]>>,
}

impl Warnings {
    /// Logs the warnings of an answer that the client has not logged before.
    pub(crate) fn log(&self, headers: &HeaderMap, path: &str) {
        for header in headers.get_all(WARNING) {
            for text in self.new_texts(header.as_bytes()) {
                tracing::warn!(path, "the API server warns: {text}");
            }
        }
    }

    /// Returns the texts of a header that the client has not logged, and records them.
    fn new_texts(&self, header: &[u8]) -> Vec<String> {
        if self.0.lock().headers.iter().any(|known| **known == *header) {
            return Vec::new();
        }
        let mut texts = texts(&String::from_utf8_lossy(header));
        let mut logged = self.0.lock();
        texts.retain(|text| {
            !text.starts_with(EXPECTED)
                && !logged.texts.contains(text)
                && logged.texts.len() < MOST_TEXTS
                && logged.texts.insert(text.clone())
        });
        // Two threads may both add a header. It is then there twice, until newer ones take its
        // places.
        if header.len() <= LONGEST_HEADER {
            if logged.headers.len() == MOST_HEADERS {
                logged.headers.pop_front();
            }
            logged.headers.push_back(header.into());
        }
        texts
    }
}

/// Returns the texts of a header: `299 - "text"`, perhaps with a date, perhaps several of them with
/// commas in between. The first part of another form ends the list.
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

/// Returns the first warning: its code, its text, and the rest of the header.
fn warning(header: &str) -> Option<(&str, String, &str)> {
    let (code, rest) = header.split_once(' ')?;
    let (_agent, rest) = rest.split_once(' ')?;
    let (text, mut rest) = quoted(rest)?;
    if let Some((_date, after)) = quoted(rest.trim_start()) {
        rest = after;
    }
    Some((code, text, rest))
}

/// Returns a quoted string without its quotes, escapes and control characters, and the text after
/// it.
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
        if is_harmless(char) && content.len() < LONGEST_TEXT {
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

    fn header(text: &str) -> String {
        format!("299 - \"{text}\"")
    }

    #[test]
    fn each_text_is_new_once_and_their_number_is_bounded() {
        let warnings = Warnings::default();
        let new = |text: &str| warnings.new_texts(header(text).as_bytes()).len();
        let count: usize = (0..10 * MOST_TEXTS).map(|number| new(&format!("text {}", number / 2))).sum();
        assert_eq!(count, MOST_TEXTS);
        assert_eq!(new("text 0"), 0);
    }

    #[test]
    fn a_text_is_logged_once_whatever_header_it_arrives_in() {
        let warnings = Warnings::default();
        let check = |header: &str, expected: &[&str]| {
            assert_eq!(warnings.new_texts(header.as_bytes()), expected, "{header}");
        };
        check(r#"299 - "a", 299 - "b""#, &["a", "b"]);
        check(r#"299 - "b""#, &[]);
        check(r#"299 - "c", 299 - "b", 299 - "c""#, &["c"]);
        check("299 -", &[]);
    }

    #[test]
    fn that_endpoints_are_deprecated_is_expected() {
        let text = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
        let both = format!("{}, {}", header(text), header("v1 ComponentStatus is deprecated in v1.19+"));
        let logged = Warnings::default().new_texts(both.as_bytes());
        assert_eq!(logged, ["v1 ComponentStatus is deprecated in v1.19+"]);
    }

    #[test]
    fn the_last_headers_are_not_parsed_again() {
        let warnings = Warnings::default();
        let parsed = |text: &str| {
            // A logged text would not be returned, parsed or not.
            warnings.0.lock().texts.clear();
            !warnings.new_texts(header(text).as_bytes()).is_empty()
        };
        assert!(parsed("deprecated"));
        assert!(!parsed("deprecated"));
        for number in 1..MOST_HEADERS {
            assert!(parsed(&number.to_string()));
        }
        assert!(!parsed("deprecated"));
        assert!(parsed("one too many"));
        assert!(parsed("deprecated"));
        assert_eq!(warnings.0.lock().headers.len(), MOST_HEADERS);

        let long = "x".repeat(LONGEST_HEADER);
        assert!(parsed(&long));
        assert!(parsed(&long), "it is too long to be remembered");
    }
}
