//! Splits the body of a list into its items while it arrives.
//!
//! The text of a list of 150,000 pods has more than a gigabyte. The splitter cuts items out of the
//! body one by one, so that it holds only the current chunk and an incomplete item.

use bytes::{Bytes, BytesMut};

use crate::error::{ListWatchError, excerpt};
use crate::wire::frame_splitter::MAX_FRAME;

/// The most bytes that a list may have besides its items. Real lists have a few hundred.
const MAX_ENVELOPE: usize = 1 << 20;

/// Takes chunks of a JSON object and returns the elements of its top-level array `items`. It
/// collects everything else as the envelope, which is the same object with an empty array.
///
/// It checks only the structure, by counting brackets outside of strings. The caller decodes the
/// items and the envelope.
#[derive(Debug, Default)]
pub(crate) struct ListSplitter {
    chunk: Bytes,
    envelope: BytesMut,
    /// The beginning of an incomplete item.
    partial: BytesMut,
    /// The number of open brackets.
    depth: usize,
    /// True if the scan is inside a string; `is_escaped` is true if its last byte was a backslash.
    in_string: bool,
    is_escaped: bool,
    /// True if the last top-level string is `"items"`.
    key_is_items: bool,
    /// The position in the envelope at which the last top-level string begins.
    string_start: usize,
    in_items: bool,
}

impl ListSplitter {
    /// Adds the next chunk. Call it after [`next`](Self::next) has returned `None`.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.chunk = chunk;
    }

    /// Returns the next complete item, or `None` if it needs another chunk.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, ListWatchError> {
        while !self.chunk.is_empty() {
            if self.in_items {
                let Some(end) = self.end_of_item() else {
                    self.partial.extend_from_slice(&self.chunk);
                    self.chunk = Bytes::new();
                    if self.partial.len() > MAX_FRAME {
                        return Err(ListWatchError::InvalidResponse(format!(
                            "an item of more than {MAX_FRAME} bytes, which is the most that is read: {}",
                            excerpt(&self.partial)
                        )));
                    }
                    return Ok(None);
                };
                let item = self.chunk.split_to(end);
                let item = if self.partial.is_empty() {
                    item
                } else {
                    self.partial.extend_from_slice(&item);
                    // Gives the buffer away, so that it does not stay large after a huge item.
                    std::mem::take(&mut self.partial).freeze()
                };
                // The byte after the item is a comma or the end of the array.
                self.in_items = self.chunk.split_to(1).first() == Some(&b',');
                if !self.in_items {
                    self.envelope.extend_from_slice(b"]");
                    self.depth = self.depth.saturating_sub(1);
                }
                if !item.trim_ascii().is_empty() {
                    return Ok(Some(item));
                }
            } else {
                self.read_envelope();
                if self.envelope.len() > MAX_ENVELOPE {
                    let text = excerpt(&self.envelope);
                    return Err(ListWatchError::InvalidResponse(format!("too long, and not a list: {text}")));
                }
            }
        }
        Ok(None)
    }

    /// Returns the envelope. Call it after the last chunk.
    pub(crate) fn finish(mut self) -> Bytes {
        // An item that was cut off makes the envelope invalid, as does the missing end of the
        // array.
        self.envelope.extend_from_slice(&self.partial);
        self.envelope.freeze()
    }

    /// Returns the position of the comma or bracket that ends the current item, or `None` if the
    /// chunk ends before.
    fn end_of_item(&mut self) -> Option<usize> {
        for (at, byte) in self.chunk.iter().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                // The list and its array are open.
                b',' | b']' if self.depth <= 2 => return Some(at),
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        None
    }

    /// Moves bytes of the chunk to the envelope, up to the beginning of the items.
    fn read_envelope(&mut self) {
        let mut read = 0;
        for byte in &self.chunk {
            let at = self.envelope.len() + read;
            read += 1;
            if self.in_string {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => {
                        self.in_string = false;
                        // The beginning of the string may be in the envelope, in the chunk, or in
                        // both.
                        let start = self.string_start;
                        let text = (start..at).map(|at| {
                            let held = self.envelope.len();
                            if at < held { self.envelope.get(at) } else { self.chunk.get(at - held) }
                        });
                        self.key_is_items = self.depth == 1 && text.eq(b"items".iter().map(Some));
                    }
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => (self.in_string, self.string_start) = (true, at + 1),
                b'{' | b'[' => {
                    self.depth += 1;
                    if *byte == b'[' && self.depth == 2 && self.key_is_items {
                        (self.in_items, self.key_is_items) = (true, false);
                        break;
                    }
                    self.key_is_items = false;
                }
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                b':' | b' ' | b'\t' | b'\r' | b'\n' => {}
                _ => self.key_is_items = false,
            }
        }
        let head = self.chunk.split_to(read);
        self.envelope.extend_from_slice(&head);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    /// Splits a body that arrives in these chunks. Returns the items, the envelope, and the most
    /// bytes held between two chunks.
    fn split(chunks: &[&[u8]]) -> (Vec<Bytes>, Bytes, usize) {
        let mut splitter = ListSplitter::default();
        let (mut items, mut held) = (Vec::new(), 0);
        for chunk in chunks {
            splitter.push(Bytes::copy_from_slice(chunk));
            while let Some(item) = splitter.next().unwrap() {
                items.push(item);
            }
            held = held.max(splitter.partial.capacity() + splitter.envelope.capacity());
        }
        (items, splitter.finish(), held)
    }

    fn check(body: &str, want_items: &[&str], want_envelope: &str) {
        for size in [1, 2, 3, 7, 1000] {
            let chunks: Vec<&[u8]> = body.as_bytes().chunks(size).collect();
            let (items, envelope, _) = split(&chunks);
            assert_eq!(items, want_items, "chunks of {size}");
            assert_eq!(envelope, want_envelope, "chunks of {size}");
        }
    }

    #[test]
    fn an_item_without_an_end_is_refused() {
        let mut splitter = ListSplitter::default();
        splitter.push(Bytes::from_static(br#"{"items":[{"a":""#));
        assert_eq!(splitter.next().unwrap(), None);
        let chunk = Bytes::from(vec![b'x'; 1 << 20]);
        for _ in 0..15 {
            splitter.push(chunk.clone());
            assert_eq!(splitter.next().unwrap(), None);
        }
        splitter.push(chunk);
        let error = splitter.next().unwrap_err().to_string();
        assert!(
            error
                .contains(r#"an item of more than 16777216 bytes, which is the most that is read: {"a":"xx"#),
            "{error}"
        );
        assert!(error.len() < 1000);
    }

    #[test]
    fn items_are_cut_out_of_the_list() {
        check(
            r#"{"kind":"L","items":[{"a":[1,"]}"]},{}],"z":1}"#,
            &[r#"{"a":[1,"]}"]}"#, "{}"],
            r#"{"kind":"L","items":[],"z":1}"#,
        );
        check(r#"{"items" : [ ] }"#, &[], r#"{"items" : [] }"#);
        check(r#"{"items":null,"a":[1]}"#, &[], r#"{"items":null,"a":[1]}"#);
        check(r#"{"items":["\"]",3]}"#, &[r#""\"]""#, "3"], r#"{"items":[]}"#);
    }

    #[test]
    fn only_the_items_of_the_list_itself_count() {
        for body in [
            r#"{"metadata":{"items":[1,2]}}"#,
            r#"{"a":"items","b":[1]}"#,
            r#"["items",[1]]"#,
            r#""<html>""#,
            "<html>",
            "",
        ] {
            check(body, &[], body);
        }
    }

    #[test]
    fn a_list_that_is_cut_off_has_an_invalid_envelope() {
        let body = r#"{"kind":"L","items":[{"a":1},{"b":2}],"z":1}"#;
        for end in 0..body.len() {
            let (_, envelope, _) = split(&[&body.as_bytes()[..end]]);
            assert!(serde_json::from_slice::<Value>(&envelope).is_err(), "{envelope:?}");
        }
    }

    #[test]
    fn an_endless_envelope_is_refused() {
        let mut splitter = ListSplitter::default();
        let mut pushed = 0;
        let error = loop {
            splitter.push(Bytes::from_static(&[b'x'; 1 << 16]));
            pushed += 1;
            if let Err(error) = splitter.next() {
                break error;
            }
        };
        assert!(error.to_string().contains("too long, and not a list: xxx"), "{error}");
        assert_eq!(pushed, 17);
    }

    #[test]
    fn what_is_held_does_not_grow_with_the_list() {
        // 150,000 items of 700 bytes in chunks of 8 KiB.
        let item = json!({"metadata": {"name": "p", "annotations": {"a": "x".repeat(650)}}}).to_string();
        let body = format!(r#"{{"kind":"PodList","items":[{}{item}]}}"#, format!("{item},").repeat(149_999));
        let chunks: Vec<&[u8]> = body.as_bytes().chunks(8 << 10).collect();
        let mut splitter = ListSplitter::default();
        let (mut items, mut held) = (0, 0);
        for chunk in chunks {
            splitter.push(Bytes::copy_from_slice(chunk));
            while let Some(got) = splitter.next().unwrap() {
                assert_eq!(got.len(), item.len());
                items += 1;
            }
            held =
                held.max(splitter.partial.capacity() + splitter.envelope.capacity() + splitter.chunk.len());
        }
        assert_eq!(items, 150_000);
        assert!(body.len() > 100_000_000 && held < 64 << 10, "{held} bytes of {}", body.len());
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!("items")),
            "[a-z\\\\\"\\[\\]{},: é]{0,6}".prop_map(Value::from),
            any::<i8>().prop_map(Value::from),
            Just(Value::Null),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(prop_oneof![Just("items".to_owned()), "[a-c]"], inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn items_and_envelope_make_up_the_list(before in value(), items in prop::collection::vec(value(), 0..5), after in value(), size in 1usize..40) {
            let before_text = serde_json::to_string_pretty(&before).unwrap();
            let items_text = serde_json::to_string_pretty(&items).unwrap();
            let body = format!(r#"{{ "a": {before_text}, "items": {items_text}, "b": {after} }}"#);
            let chunks: Vec<&[u8]> = body.as_bytes().chunks(size).collect();
            let (got, envelope, _) = split(&chunks);
            let got: Vec<Value> = got.iter().map(|item| serde_json::from_slice(item).unwrap()).collect();
            prop_assert_eq!(got, items);
            let envelope: Value = serde_json::from_slice(&envelope).unwrap();
            prop_assert_eq!(envelope, json!({"a": before, "items": [], "b": after}));
        }
    }
}
