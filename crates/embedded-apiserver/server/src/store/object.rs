//! One stored object: its bytes, in a layout that lists, reads and all watchers share without
//! encoding again.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::meta::Meta;

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    Added,
    Modified,
    Deleted,
}

impl EventKind {
    /// Returns the first bytes of a watch event of this type; the object and [`END`] follow.
    pub(crate) fn prefix(self) -> &'static [u8] {
        match self {
            Self::Added => br#"{"type":"ADDED","object":"#,
            Self::Modified => br#"{"type":"MODIFIED","object":"#,
            Self::Deleted => br#"{"type":"DELETED","object":"#,
        }
    }

    /// Returns the type in a watch event.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// The last bytes of a watch event.
const END: &[u8] = b"}\n";

/// An object's JSON with a gap for its resource version, so that encoding need not know the
/// version.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Encoded {
    text: Vec<u8>,
    /// The offset of the members after `apiVersion` and `kind`.
    rest_at: usize,
    /// The offset of the digits of the version.
    version_at: usize,
}

impl Encoded {
    /// Encodes an object, with `apiVersion` and `kind` first, and without its resourceVersion.
    pub(crate) fn of(object: &Value) -> Self {
        let mut text = Vec::with_capacity(1024);
        text.push(b'{');
        for name in ["apiVersion", "kind"] {
            if let Some(value) = object.get(name) {
                member(&mut text, name, value);
                text.push(b',');
            }
        }
        let rest_at = text.len();
        text.extend_from_slice(br#""metadata":{"#);
        let mut version_at = None;
        for (name, value) in object.get("metadata").and_then(Value::as_object).into_iter().flatten() {
            if name == "resourceVersion" {
                continue;
            }
            if version_at.is_none() && name.as_str() > "resourceVersion" {
                version_at = Some(version_gap(&mut text));
                text.push(b',');
            }
            member(&mut text, name, value);
            text.push(b',');
        }
        let version_at = match version_at {
            Some(at) => {
                text.pop();
                at
            }
            None => version_gap(&mut text),
        };
        text.push(b'}');
        for (name, value) in object.as_object().into_iter().flatten() {
            if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                text.push(b',');
                member(&mut text, name, value);
            }
        }
        text.push(b'}');
        Self { text, rest_at, version_at }
    }
}

/// Writes an empty resourceVersion and returns the offset of its digits.
fn version_gap(text: &mut Vec<u8>) -> usize {
    text.extend_from_slice(br#""resourceVersion":""#);
    let at = text.len();
    text.push(b'"');
    at
}

fn member(text: &mut Vec<u8>, name: &str, value: &Value) {
    // Writing JSON into memory cannot fail: keys are strings and the writer returns no errors.
    let _ = serde_json::to_writer(&mut *text, name);
    text.push(b':');
    let _ = serde_json::to_writer(&mut *text, value);
}

/// One object at one version.
#[derive(Debug)]
pub(crate) struct Stored {
    /// `namespace/name`, or the name of a cluster-scoped object. Keys sort as in the real store.
    pub(crate) key: Box<str>,
    /// Its resource version.
    pub(crate) version: u64,
    /// The fields that the server reads.
    pub(crate) meta: Arc<Meta>,
    /// The whole watch event.
    frame: Bytes,
    kind: EventKind,
    rest_at: u32,
    version_at: u32,
}

impl Stored {
    /// Fills the version into the gap and wraps the object in a watch event.
    pub(crate) fn new(key: &str, version: u64, kind: EventKind, encoded: &Encoded, meta: Arc<Meta>) -> Self {
        let (before, after) = encoded.text.split_at(encoded.version_at);
        Self {
            key: key.into(),
            version,
            meta,
            frame: frame(kind, before, version, after),
            kind,
            rest_at: encoded.rest_at as u32,
            version_at: encoded.version_at as u32,
        }
    }

    /// Returns the same object with another version, as an event of another type.
    pub(crate) fn restamped(&self, kind: EventKind, version: u64) -> Self {
        let text = self.bytes();
        let (before, rest) = text.split_at(self.version_at as usize);
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        Self {
            key: self.key.clone(),
            version,
            meta: self.meta.clone(),
            frame: frame(kind, before, version, &rest[digits..]),
            kind,
            rest_at: self.rest_at,
            version_at: self.version_at,
        }
    }

    /// Returns the object's JSON.
    pub(crate) fn bytes(&self) -> Bytes {
        self.frame.slice(self.kind.prefix().len()..self.frame.len() - END.len())
    }

    /// Returns the size of its JSON in bytes, with the frame of a watch event.
    pub(crate) fn size(&self) -> usize {
        self.frame.len()
    }

    /// Returns the object's JSON without the opening brace, apiVersion and kind, which items of a
    /// list do not have.
    pub(crate) fn item(&self) -> &[u8] {
        &self.frame[self.kind.prefix().len() + self.rest_at as usize..self.frame.len() - END.len()]
    }

    /// Returns the object as a value.
    pub(crate) fn value(&self) -> Value {
        // The bytes come from this server's encoder, so they are valid.
        serde_json::from_slice(&self.bytes()).unwrap_or_default()
    }

    /// Passes the watch event of the given type to `out`, in one or two pieces, without copying.
    pub(crate) fn event(&self, kind: EventKind, mut out: impl FnMut(Bytes)) {
        if kind == self.kind {
            out(self.frame.clone());
        } else {
            out(Bytes::from_static(kind.prefix()));
            out(self.frame.slice(self.kind.prefix().len()..));
        }
    }

    /// Returns the namespace, empty for a cluster-scoped object.
    pub(crate) fn namespace(&self) -> &str {
        self.key.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// Returns the name.
    pub(crate) fn name(&self) -> &str {
        self.key.split_once('/').map_or(&*self.key, |(_, name)| name)
    }
}

fn frame(kind: EventKind, before: &[u8], version: u64, after: &[u8]) -> Bytes {
    let digits = version.to_string();
    let parts = [kind.prefix(), before, digits.as_bytes(), after, END];
    let mut frame = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| frame.extend_from_slice(part));
    Bytes::from(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stored(object: &Value, version: u64, kind: EventKind) -> Stored {
        Stored::new("ns/a", version, kind, &Encoded::of(object), Arc::default())
    }

    #[test]
    fn the_version_goes_into_the_gap_wherever_it_lies() {
        for metadata in [
            json!({"name": "a", "uid": "u"}),
            json!({"name": "a"}),
            json!({}),
            json!({"uid": "u"}),
            json!({"name": "a", "resourceVersion": "1", "uid": "u"}),
        ] {
            let object =
                json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"x": "é\""}});
            let mut expected = object.clone();
            expected["metadata"]["resourceVersion"] = "42".into();
            let stored = stored(&object, 42, EventKind::Added);
            assert_eq!(stored.value(), expected);
            assert!(stored.bytes().starts_with(br#"{"apiVersion":"v1","kind":"Pod","metadata":{"#));
        }
    }

    #[test]
    fn events_of_any_kind_are_made_of_shared_bytes() {
        let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}});
        let stored = stored(&object, 7, EventKind::Modified);
        for kind in [EventKind::Added, EventKind::Modified, EventKind::Deleted] {
            let mut text = Vec::new();
            stored.event(kind, |part| text.extend_from_slice(&part));
            let event: Value = serde_json::from_slice(&text).unwrap();
            assert_eq!(event["type"], kind.name());
            assert_eq!(event["object"], stored.value());
            assert!(text.ends_with(b"}\n"));
        }
    }

    #[test]
    fn a_new_stamp_changes_only_the_version() {
        let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "uid": "9"}});
        let before = stored(&object, 9, EventKind::Added);
        let after = before.restamped(EventKind::Deleted, 1000);
        let mut expected = before.value();
        expected["metadata"]["resourceVersion"] = "1000".into();
        assert_eq!(after.value(), expected);
        assert_eq!(after.version, 1000);
    }

    #[test]
    fn items_of_lists_carry_no_kind() {
        let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}});
        assert_eq!(
            stored(&object, 3, EventKind::Added).item(),
            br#""metadata":{"name":"a","resourceVersion":"3"}}"#
        );
    }
}
