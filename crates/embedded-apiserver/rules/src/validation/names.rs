//! Formats of names, labels and ports, with upstream's messages; an empty list of messages means
//! valid. The checks do without regular expressions, which would dominate the cost of a request.

/// The protocols of a port, in the order of error texts.
pub(crate) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

const LABEL_1123: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_1123: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

fn explain(message: &str, pattern: &str, examples: &str) -> String {
    format!("{message} (e.g. {examples}, regex used for validation is '{pattern}')")
}

fn too_long(most: usize) -> String {
    format!("must be no more than {most} characters")
}

/// Returns the message of `content.MaxLenError`, which upstream uses for the keys and values of
/// labels.
fn too_many_bytes(most: usize) -> String {
    format!("must be no more than {most} bytes")
}

/// Returns a message such as `must be between 1 and 65535, inclusive`.
pub(crate) fn range(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

fn is_lower(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

fn matches_label(value: &str) -> bool {
    let bytes = value.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(f), Some(l)) if is_lower(*f) && is_lower(*l))
        && bytes.iter().all(|b| is_lower(*b) || *b == b'-')
}

fn matches_subdomain(value: &str) -> bool {
    value.split('.').all(matches_label)
}

fn matches_key(value: &str) -> bool {
    let bytes = value.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(f), Some(l))
        if f.is_ascii_alphanumeric() && l.is_ascii_alphanumeric())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Checks a label of DNS (RFC 1123).
pub(crate) fn dns1123_label(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > 63 {
        messages.push(too_long(63));
    }
    if !matches_label(value) {
        messages.push(if matches_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            explain(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                 start and end with an alphanumeric character",
                LABEL_1123,
                "'my-name',  or '123-abc'",
            )
        });
    }
    messages
}

/// Checks a subdomain of DNS (RFC 1123).
pub(crate) fn dns1123_subdomain(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > 253 {
        messages.push(too_long(253));
    }
    if !matches_subdomain(value) {
        messages.push(not_a_subdomain());
    }
    messages
}

fn not_a_subdomain() -> String {
    explain(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
         start and end with an alphanumeric character",
        SUBDOMAIN_1123,
        "'example.com'",
    )
}

/// Checks the key of a label. Finalizers, app protocols and conditions have the same format.
pub(crate) fn qualified_name(value: &str) -> Vec<String> {
    const WHAT: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                        alphanumeric character";
    const EXAMPLES: &str = "'MyName',  or 'my.name',  or '123-abc'";
    let mut messages = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, rest)) if rest.contains('/') => {
            let why = explain(&format!("a valid label key {WHAT}"), KEY, EXAMPLES);
            return vec![format!(
                "{why} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                messages.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > 253 {
                    messages.push(format!("prefix part {}", too_many_bytes(253)));
                }
                if !matches_subdomain(prefix) {
                    messages.push(format!("prefix part {}", not_a_subdomain()));
                }
            }
            name
        }
    };
    if name.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        messages.push(format!("name part {}", too_many_bytes(63)));
    }
    if !matches_key(name) {
        messages.push(format!("name part {}", explain(WHAT, KEY, EXAMPLES)));
    }
    messages
}

/// Checks the value of a label.
pub(crate) fn label_value(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > 63 {
        messages.push(too_many_bytes(63));
    }
    if !value.is_empty() && !matches_key(value) {
        messages.push(explain(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            "'MyValue',  or 'my_value',  or '12345'",
        ));
    }
    messages
}

/// Checks the number of a port.
pub(crate) fn port_number(port: i64) -> Vec<String> {
    if (1..=65535).contains(&port) { Vec::new() } else { vec![range(1, 65535)] }
}

/// Checks the name of a container's port (RFC 6335).
pub(crate) fn port_name(name: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if name.len() > 15 {
        messages.push(too_long(15));
    }
    if name.is_empty() || !name.bytes().all(|b| is_lower(b) || b == b'-') {
        messages.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        messages.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        messages.push("must not begin or end with a hyphen".to_owned());
    }
    messages
}

/// Checks a name that is a segment of a path of the API.
pub(crate) fn path_segment(name: &str, prefix: bool) -> Vec<String> {
    if !prefix && matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"].iter().filter(|c| name.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_names() {
        for good in ["a", "a-b", "0", "123-abc"] {
            assert!(dns1123_label(good).is_empty(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a_b", "ä", &"a".repeat(64)] {
            assert!(!dns1123_label(bad).is_empty(), "{bad}");
        }
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert!(dns1123_subdomain("a.b-c.d").is_empty());
        assert!(!dns1123_subdomain("a..b").is_empty());
        for good in ["simple", "now-with-dashes/simple", "1.2.3.4/5678", "example.com/Uppercase_Is_OK_123"] {
            assert!(qualified_name(good).is_empty(), "{good}");
        }
        for bad in
            ["nospecialchars%^=@", "cantendwithadash-", "only/one/slash", "Example.com/abc", "/simple", "a/"]
        {
            assert!(!qualified_name(bad).is_empty(), "{bad}");
        }
        assert!(label_value("").is_empty() && label_value("a.b_C").is_empty());
        assert!(!label_value(".a").is_empty());
        assert!(port_name("http-1").is_empty());
        assert_eq!(port_name("1").len(), 1);
        assert_eq!(port_name("").len(), 2);
    }

    #[test]
    fn messages_are_upstreams() {
        insta::assert_snapshot!(dns1123_label("A_").join("\n"), @"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')");
        insta::assert_snapshot!(qualified_name("a/b/c").join("\n"), @"a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')");
    }
}
