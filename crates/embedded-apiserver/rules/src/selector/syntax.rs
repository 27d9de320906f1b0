//! What a label's key and value may look like, with the messages of apimachinery's `api/validate/content`.

const NAME_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;
const NAME_FORMAT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                         alphanumeric character";
const NAME_EXAMPLES: &str = "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is";

/// What is wrong with a label key; empty when nothing is.
pub(super) fn label_key_errors(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let mut parts = key.split('/');
    let (prefix, name) = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => (None, name),
        (Some(prefix), Some(name), None) => (Some(prefix), name),
        _ => {
            return vec![format!(
                "a valid label key {NAME_RULE} {NAME_EXAMPLES} '{NAME_FORMAT}') with an optional DNS subdomain \
                 prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if let Some(prefix) = prefix {
        subdomain_errors(prefix, &mut errors);
    }
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > NAME_MAX {
        errors.push(format!("name part must be no more than {NAME_MAX} bytes"));
    }
    if !is_name(name) {
        errors.push(format!("name part {NAME_RULE} {NAME_EXAMPLES} '{NAME_FORMAT}')"));
    }
    errors
}

/// What is wrong with a label value; empty when nothing is.
pub(super) fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > NAME_MAX {
        errors.push(format!("must be no more than {NAME_MAX} bytes"));
    }
    if !value.is_empty() && !is_name(value) {
        errors.push(format!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
             for validation is '({NAME_FORMAT})?')"
        ));
    }
    errors
}

fn subdomain_errors(prefix: &str, errors: &mut Vec<String>) {
    if prefix.is_empty() {
        errors.push("prefix part must be non-empty".to_owned());
        return;
    }
    if prefix.len() > SUBDOMAIN_MAX {
        errors.push(format!("prefix part must be no more than {SUBDOMAIN_MAX} bytes"));
    }
    let is_edge = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(is_edge)
            && bytes.last().is_some_and(is_edge)
            && bytes.iter().all(|b| is_edge(b) || *b == b'-')
    };
    if !prefix.split('.').all(is_label) {
        errors.push(
            "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
             '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
             validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
}

/// Whether `name` matches [`NAME_FORMAT`].
fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}
