//! One stored object: its bytes, laid out so that a list, a read and every watcher share them without encoding again.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::meta::Meta;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// It came to be.
    Added,
    /// It changed.
    Modified,
    /// It is gone.
    Deleted,
}

impl EventKind {
    /// What a watch event of this kind starts with; the object and [`END`] follow.
    pub(crate) fn prefix(self) -> &'static [u8] {
        match self {
            Self::Added => br#"{"type":"ADDED","object":"#,
            Self::Modified => br#"{"type":"MODIFIED","object":"#,
            Self::Deleted => br#"{"type":"DELETED","object":"#,
        }
    }

    /// The type as a watch event carries it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// What a watch event ends with.
const END: &[u8] = b"}\n";

/// An object's JSON with a gap where its resource version goes, so that it can be encoded before the version is known.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Encoded {
    text: Vec<u8>,
    /// Where the members after `apiVersion` and `kind` begin.
    rest_at: usize,
    /// Where the digits of the version go.
    version_at: usize,
}

impl Encoded {
    /// Encodes an object. `apiVersion` and `kind` come first; a resourceVersion that it has is left out.
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

/// Writes an empty resourceVersion and returns where its digits go.
fn version_gap(text: &mut Vec<u8>) -> usize {
    text.extend_from_slice(br#""resourceVersion":""#);
    let at = text.len();
    text.push(b'"');
    at
}

fn member(text: &mut Vec<u8>, name: &str, value: &Value) {
    // Writing JSON values into memory cannot fail: keys are strings and the writer never errs.
    let _ = serde_json::to_writer(&mut *text, name);
    text.push(b':');
    let _ = serde_json::to_writer(&mut *text, value);
}

/// One object at one version.
#[derive(Debug)]
pub(crate) struct Stored {
    /// `namespace/name`, or the name alone for what lives in no namespace. Keys sort as the real store's do.
    pub(crate) key: Box<str>,
    /// Its resource version.
    pub(crate) version: u64,
    /// What the server reads of it.
    pub(crate) meta: Arc<Meta>,
    /// The whole watch event.
    frame: Bytes,
    kind: EventKind,
    rest_at: u32,
    version_at: u32,
}

impl Stored {
    /// Puts the version into the gap and the frame of a watch event around the object.
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

    /// The same object at another version, as an event of another kind.
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

    /// The object's JSON.
    pub(crate) fn bytes(&self) -> Bytes {
        self.frame.slice(self.kind.prefix().len()..self.frame.len() - END.len())
    }

    /// The object's JSON without the opening brace, apiVersion and kind, which items of a list do not carry.
    pub(crate) fn item(&self) -> &[u8] {
        &self.frame[self.kind.prefix().len() + self.rest_at as usize..self.frame.len() - END.len()]
    }

    /// The object as a value.
    pub(crate) fn value(&self) -> Value {
        // The bytes were written by this server's own encoder.
        serde_json::from_slice(&self.bytes()).unwrap_or_default()
    }

    /// Hands over the watch event of the given kind, in as few pieces as possible, none of them copied.
    pub(crate) fn event(&self, kind: EventKind, mut out: impl FnMut(Bytes)) {
        if kind == self.kind {
            out(self.frame.clone());
        } else {
            out(Bytes::from_static(kind.prefix()));
            out(self.frame.slice(self.kind.prefix().len()..));
        }
    }

    /// The namespace, empty for what lives in none.
    pub(crate) fn namespace(&self) -> &str {
        self.key.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The name.
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
