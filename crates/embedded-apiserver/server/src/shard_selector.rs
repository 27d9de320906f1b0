//! `shardSelector`: the objects whose uid or namespace has a hash in some ranges (KEP-5866, alpha in Kubernetes 1.36,
//! `k8s.io/apiserver/pkg/sharding`).

use kube_endpoint_apiserver_rules::status::Status;

use crate::store::Stored;

/// 2^64, the end of the last range.
const END: u128 = 1 << 64;

/// A parsed selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardSelector {
    by: Field,
    /// Each with its start and its end, which is not part of it.
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
    /// Parses `shardRange(FIELD, 'START', 'END') || …`. The real server answers 500 for anything else.
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        let calls: Result<Vec<_>, String> = text.split("||").map(|call| range(call.trim())).collect();
        let invalid = |why: String| Status::new(500, "", format!("invalid shard selector: {why}"));
        let calls = calls.map_err(invalid)?;
        let by = calls.first().map_or(Field::Uid, |(by, _)| *by);
        if let Some((other, _)) = calls.iter().find(|(other, _)| *other != by) {
            let (one, other) = (by.path(), other.path());
            return Err(invalid(format!(
                "all shard ranges must use the same field, got {one:?} and {other:?}"
            )));
        }
        Ok(Self { by, ranges: calls.into_iter().map(|(_, range)| range).collect() })
    }

    /// Whether an object is selected.
    pub(crate) fn matches(&self, object: &Stored) -> bool {
        let hash = u128::from(fnv1a(match self.by {
            Field::Uid => &object.meta.uid,
            Field::Namespace => object.namespace(),
        }));
        self.ranges.iter().any(|(start, end)| (*start..*end).contains(&hash))
    }

    /// The text that the server repeats in `shardInfo`.
    pub(crate) fn text(&self) -> String {
        let path = self.by.path();
        let call =
            |(start, end): &(u128, u128)| format!("shardRange({path}, '0x{start:016x}', '0x{end:016x}')");
        self.ranges.iter().map(call).collect::<Vec<_>>().join(" || ")
    }
}

fn range(call: &str) -> Result<(Field, (u128, u128)), String> {
    let arguments = call.strip_prefix("shardRange(").and_then(|rest| rest.strip_suffix(')'));
    let arguments =
        arguments.ok_or_else(|| format!("unexpected expression {call:?}; expected shardRange()"))?;
    let arguments: Vec<&str> = arguments.split(',').map(str::trim).collect();
    let [path, start, end] = arguments[..] else {
        return Err(format!("shardRange() requires exactly 3 arguments, got {}", arguments.len()));
    };
    let by = [Field::Uid, Field::Namespace].into_iter().find(|field| field.path() == path);
    let supported = "supported: object.metadata.uid, object.metadata.namespace";
    let by = by.ok_or_else(|| format!("unsupported field path {path:?}; {supported}"))?;
    let (start, end) = (bound(start)?, bound(end)?);
    if start >= end {
        return Err(format!("shard range start 0x{start:016x} must be less than end 0x{end:016x}"));
    }
    Ok((by, (start, end)))
}

fn bound(text: &str) -> Result<u128, String> {
    let digits = text.strip_prefix("'0x").and_then(|rest| rest.strip_suffix('\''));
    let digits =
        digits.filter(|it| it.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)));
    let number = digits.and_then(|digits| u128::from_str_radix(digits, 16).ok());
    match (digits.map(str::len), number) {
        (Some(16), Some(number)) => Ok(number),
        (Some(17), Some(END)) => Ok(END),
        _ => Err(format!("a bound must be a 0x-prefixed 16-digit hex value, got {text}")),
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
    fn anything_else_is_refused() {
        let check = |text: &str, why: &str| {
            let status = ShardSelector::parse(text).unwrap_err();
            assert_eq!(status.code, 500, "{text}");
            assert!(status.message.contains(why), "{}", status.message);
        };
        check("", "expected shardRange()");
        check("true", "expected shardRange()");
        check("shardRange(object.metadata.uid)", "exactly 3 arguments");
        check(
            "shardRange(object.metadata.name, '0x0000000000000000', '0x8000000000000000')",
            "unsupported field",
        );
        check("shardRange(object.metadata.uid, '0x0', '0x8000000000000000')", "16-digit");
        check("shardRange(object.metadata.uid, '0x0000000000000000', '0x20000000000000000')", "16-digit");
        check("shardRange(object.metadata.uid, '0x8000000000000000', '0x8000000000000000')", "must be less");
        check(
            "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000') || \
             shardRange(object.metadata.namespace, '0x8000000000000000', '0x10000000000000000')",
            "the same field",
        );
    }
}
