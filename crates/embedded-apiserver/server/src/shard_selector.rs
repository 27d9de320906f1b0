//! `shardSelector`: selects the objects whose uid or namespace has a hash in some ranges (KEP-5866,
//! alpha in Kubernetes 1.36, `k8s.io/apiserver/pkg/sharding`).

use kube_endpoint_apiserver_rules::status::Status;

use crate::store::Stored;

/// 2^64, the end of the last range.
const END: u128 = 1 << 64;

/// A parsed selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardSelector {
    by: Field,
    /// The start and the end of each range, without the end.
    ranges: Vec<(u128, u128)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Uid,
    Namespace,
}

impl Field {
    fn path(self) -> &'static str {
        match self {
            Self::Uid => "object.metadata.uid",
            Self::Namespace => "object.metadata.namespace",
        }
    }
}

impl ShardSelector {
    /// Parses `shardRange(FIELD, 'START', 'END') || …`. The real server reads it as an expression
    /// in CEL, and answers 500 with these messages to anything else; only its message about a
    /// syntax error is longer.
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        Self::parse_text(text).map_err(|why| Status::new(500, "", format!("invalid shard selector: {why}")))
    }

    fn parse_text(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err(
                "empty shard selector is not allowed; omit the parameter for unfiltered lists".to_owned()
            );
        }
        let mut calls = Vec::new();
        expression(text, &mut calls)?;
        let by = calls.first().map_or(Field::Uid, |(by, _)| *by);
        if let Some((other, _)) = calls.iter().find(|(other, _)| *other != by) {
            let (one, other) = (by.path(), other.path());
            return Err(format!("all shard ranges must use the same field, got {one:?} and {other:?}"));
        }
        Ok(Self { by, ranges: calls.into_iter().map(|(_, range)| range).collect() })
    }

    /// Returns true if this selects the object.
    pub(crate) fn matches(&self, object: &Stored) -> bool {
        let hash = u128::from(fnv1a(match self.by {
            Field::Uid => &object.meta.uid,
            Field::Namespace => object.namespace(),
        }));
        self.ranges.iter().any(|(start, end)| (*start..*end).contains(&hash))
    }

    /// Returns the text that the server repeats in `shardInfo`.
    pub(crate) fn text(&self) -> String {
        let path = self.by.path();
        let call =
            |(start, end): &(u128, u128)| format!("shardRange({path}, '0x{start:016x}', '0x{end:016x}')");
        self.ranges.iter().map(call).collect::<Vec<_>>().join(" || ")
    }
}

/// Reads calls that `||` connects, in parentheses or not.
fn expression(text: &str, calls: &mut Vec<(Field, (u128, u128))>) -> Result<(), String> {
    let text = text.trim();
    let parts = split(text, "||");
    if parts.len() > 1 {
        return parts.into_iter().try_for_each(|part| expression(part, calls));
    }
    if split(text, "&&").len() > 1 {
        return Err(unsupported("_&&_"));
    }
    if text.starts_with('!') {
        return Err(unsupported("!_"));
    }
    let Some((name, arguments)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) else {
        return Err(if is_literal(text) {
            "unexpected expression kind 5; expected shardRange() call or || operator".to_owned()
        } else if is_identifier(text) {
            "unexpected expression kind 3; expected shardRange() call or || operator".to_owned()
        } else {
            format!("CEL parse error: Syntax error in {text:?}")
        });
    };
    match name.trim() {
        "" => expression(arguments, calls),
        "shardRange" => {
            calls.push(shard_range(&split(arguments, ","))?);
            Ok(())
        }
        name => Err(unsupported(name)),
    }
}

fn unsupported(function: &str) -> String {
    format!("unsupported function {function:?}; only shardRange() and || are allowed")
}

fn is_literal(text: &str) -> bool {
    matches!(text, "true" | "false" | "null") || text.starts_with(['\'', '"']) || text.parse::<f64>().is_ok()
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Splits a text at a separator outside of parentheses.
fn split<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 && at >= start && text[at..].starts_with(separator) => {
                parts.push(&text[start..at]);
                start = at + separator.len();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn shard_range(arguments: &[&str]) -> Result<(Field, (u128, u128)), String> {
    let [path, start, end] = arguments[..] else {
        return Err(format!("shardRange() requires exactly 3 arguments, got {}", arguments.len()));
    };
    let path = path.trim();
    if is_literal(path) {
        return Err(
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind 5"
                .to_owned(),
        );
    }
    let by = [Field::Uid, Field::Namespace].into_iter().find(|field| field.path() == path);
    let supported = "supported: object.metadata.uid, object.metadata.namespace";
    let by = by.ok_or_else(|| format!("unsupported field path {path:?}; {supported}"))?;
    let (start, end) = (bound("hexStart", start)?, bound("hexEnd", end)?);
    if start >= end {
        return Err(format!("shard range start 0x{start:016x} must be less than end 0x{end:016x}"));
    }
    Ok((by, (start, end)))
}

/// Reads a bound: 0x and 16 hexadecimal digits, or 2^64.
fn bound(name: &str, literal: &str) -> Result<u128, String> {
    let literal = literal.trim();
    let unquoted = ['\'', '"']
        .into_iter()
        .find_map(|quote| literal.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)));
    let text = unquoted.ok_or_else(|| {
        let found = if literal.parse::<i64>().is_ok() { "int64" } else { literal };
        format!("{name} must be a string literal, got {found}")
    })?;
    let digits = text.strip_prefix("0x");
    let digits = digits.ok_or_else(|| format!("{name} must have '0x' prefix, got {text:?}"))?;
    let length = digits.len();
    if digits.is_empty() {
        return Err(format!("{name}: hex value is required after '0x'"));
    }
    if length > 17 {
        return Err(format!("{name}: hex value too long ({length} chars, max 17): {digits:?}"));
    }
    if let Some(odd) = digits.chars().find(|digit| !matches!(digit, '0'..='9' | 'a'..='f')) {
        return Err(format!("{name}: invalid hex character \"{odd}\" in {text:?}"));
    }
    let number = u128::from_str_radix(digits, 16).map_err(|error| format!("{name}: {error}"))?;
    match length {
        16 => Ok(number),
        17 if number == END => Ok(END),
        17 => Err(format!("{name}: 17-digit hex value must be '0x10000000000000000' (2^64), got {text:?}")),
        _ => Err(format!(
            "{name} must be a 0x-prefixed 16-digit hex value, got {text:?} (did you mean \"0x{digits:0>16}\"?)"
        )),
    }
}

fn fnv1a(text: &str) -> u64 {
    let mut hash = 14_695_981_039_346_656_037_u64;
    for byte in text.bytes() {
        hash ^= u64::from(byte);
        hash = hash.wrapping_mul(1_099_511_628_211);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_parsed_and_written() {
        let check = |text: &str| assert_eq!(ShardSelector::parse(text).unwrap().text(), text);
        check("shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')");
        check(
            "shardRange(object.metadata.namespace, '0x0000000000000000', '0x4000000000000000') || \
             shardRange(object.metadata.namespace, '0x8000000000000000', '0x10000000000000000')",
        );
    }

    #[test]
    fn selectors_may_be_written_in_other_ways() {
        let check = |text: &str, want: &str| assert_eq!(ShardSelector::parse(text).unwrap().text(), want);
        let one = "shardRange(object.metadata.namespace, '0x0000000000000000', '0x8000000000000000')";
        check("shardRange(object.metadata.namespace,'0x0000000000000000','0x8000000000000000')", one);
        check(
            " shardRange( object.metadata.namespace , \"0x0000000000000000\" , \"0x8000000000000000\" ) ",
            one,
        );
        check(&format!("({one})"), one);
        check(&format!("(({one}) || {one})"), &format!("{one} || {one}"));
    }

    /// The messages of a kube-apiserver 1.36.2.
    #[test]
    fn anything_else_is_refused() {
        let check = |text: &str, why: &str| {
            let status = ShardSelector::parse(text).unwrap_err();
            assert_eq!(status.code, 500, "{text}");
            assert_eq!(status.message, format!("invalid shard selector: {why}"), "{text}");
        };
        let range = |start: &str, end: &str| format!("shardRange(object.metadata.namespace, {start}, {end})");
        let bounds = |start: &str, end: &str, why: &str| check(&range(start, end), why);
        let (low, middle) = ("'0x0000000000000000'", "'0x8000000000000000'");
        check(" ", "empty shard selector is not allowed; omit the parameter for unfiltered lists");
        bounds(
            "'0x0'",
            middle,
            "hexStart must be a 0x-prefixed 16-digit hex value, got \"0x0\" (did you mean \"0x0000000000000000\"?)",
        );
        bounds(low, "'0xABCDEF0000000000'", "hexEnd: invalid hex character \"A\" in \"0xABCDEF0000000000\"");
        bounds(
            low,
            "'0x010000000000000000'",
            "hexEnd: hex value too long (18 chars, max 17): \"010000000000000000\"",
        );
        bounds(
            low,
            "'0x20000000000000000'",
            "hexEnd: 17-digit hex value must be '0x10000000000000000' (2^64), got \"0x20000000000000000\"",
        );
        bounds(
            "'0x9000000000000000'",
            middle,
            "shard range start 0x9000000000000000 must be less than end 0x8000000000000000",
        );
        bounds(
            middle,
            middle,
            "shard range start 0x8000000000000000 must be less than end 0x8000000000000000",
        );
        bounds(
            "'0x10000000000000000'",
            "'0x10000000000000000'",
            "shard range start 0x10000000000000000 must be less than end 0x10000000000000000",
        );
        bounds("''", "''", "hexStart must have '0x' prefix, got \"\"");
        bounds(low, "''", "hexEnd must have '0x' prefix, got \"\"");
        bounds(low, "'0x'", "hexEnd: hex value is required after '0x'");
        bounds("0", "1", "hexStart must be a string literal, got int64");
        check(
            "shardRange(object.metadata.namespace, '0x0000000000000000')",
            "shardRange() requires exactly 3 arguments, got 2",
        );
        check(
            &range(low, middle).replace("namespace", "name"),
            "unsupported field path \"object.metadata.name\"; \
             supported: object.metadata.uid, object.metadata.namespace",
        );
        check(
            &range(low, middle).replace("object.metadata.namespace", "'object.metadata.namespace'"),
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind 5",
        );
        let one = range(low, middle);
        check(
            &format!("{} || {one}", one.replace("namespace", "uid")),
            "all shard ranges must use the same field, got \"object.metadata.uid\" and \"object.metadata.namespace\"",
        );
        let functions = "only shardRange() and || are allowed";
        check(&format!("{one} && {one}"), &format!("unsupported function \"_&&_\"; {functions}"));
        check(&format!("!{one}"), &format!("unsupported function \"!_\"; {functions}"));
        check(
            &one.replace("shardRange", "otherCall"),
            &format!("unsupported function \"otherCall\"; {functions}"),
        );
        let expected = "expected shardRange() call or || operator";
        check("true", &format!("unexpected expression kind 5; {expected}"));
        check("nonsense", &format!("unexpected expression kind 3; {expected}"));
        // The real server goes on with a list of the tokens that it expected.
        for text in [&format!("{one} ||"), &format!("|| {one}"), "nonsense("] {
            let status = ShardSelector::parse(text).unwrap_err();
            let start = "invalid shard selector: CEL parse error: Syntax error";
            assert!(status.message.starts_with(start), "{}", status.message);
        }
    }
}
