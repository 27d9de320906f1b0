//! Decodes the events of a watch in JSON, one a line.

use std::borrow::Cow;

use serde::Deserialize;

/// Splits pieces of a stream into lines.
#[derive(Default)]
pub(crate) struct Lines {
    buffer: Vec<u8>,
    /// The index at which the next line begins.
    start: usize,
    /// The index before which there is no end of that line.
    searched: usize,
}

impl Lines {
    /// Appends the next piece.
    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        self.buffer.extend_from_slice(piece);
    }

    /// Returns the next whole line, without its end.
    pub(crate) fn next_line(&mut self) -> Option<&[u8]> {
        let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = self.start..self.searched + end;
        self.start = line.end + 1;
        self.searched = self.start;
        Some(&self.buffer[line])
    }
}

#[derive(Deserialize)]
pub(crate) struct Event<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) object: Object<'a>,
}

#[derive(Deserialize)]
pub(crate) struct Object<'a> {
    #[serde(default, borrow)]
    pub(crate) metadata: Metadata<'a>,
    #[serde(default, borrow)]
    pub(crate) endpoints: Option<Vec<Endpoint<'a>>>,
    #[serde(default)]
    pub(crate) subsets: Option<Vec<Subset>>,
    #[serde(default)]
    pub(crate) message: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata<'a> {
    #[serde(default, borrow)]
    pub(crate) name: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(crate) namespace: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(crate) resource_version: Cow<'a, str>,
    #[serde(default)]
    pub(crate) labels: Option<Labels>,
}

#[derive(Deserialize)]
pub(crate) struct Labels {
    #[serde(rename = "kubernetes.io/service-name")]
    pub(crate) service: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Endpoint<'a> {
    #[serde(default)]
    pub(crate) conditions: Conditions,
    #[serde(rename = "targetRef", default, borrow)]
    pub(crate) target: Option<Target<'a>>,
}

#[derive(Default, Deserialize)]
pub(crate) struct Conditions {
    pub(crate) ready: Option<bool>,
}

#[derive(Deserialize)]
pub(crate) struct Target<'a> {
    #[serde(default, borrow)]
    pub(crate) name: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Subset {
    #[serde(default)]
    addresses: Option<Vec<serde::de::IgnoredAny>>,
    #[serde(default)]
    not_ready_addresses: Option<Vec<serde::de::IgnoredAny>>,
}

impl Subset {
    /// Returns all addresses, ready or not.
    pub(crate) fn count(&self) -> usize {
        [&self.addresses, &self.not_ready_addresses].into_iter().flatten().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_however_they_are_cut() {
        let text = b"one\n\ntwo and more\nrest";
        for size in 1..=text.len() {
            let (mut lines, mut found) = (Lines::default(), Vec::new());
            for piece in text.chunks(size) {
                lines.push(piece);
                while let Some(line) = lines.next_line() {
                    found.push(String::from_utf8(line.to_vec()).unwrap());
                }
            }
            assert_eq!(found, ["one", "", "two and more"], "pieces of {size} bytes");
        }
    }
}
