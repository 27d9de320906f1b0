//! Splits the body of a list in protobuf into its items while it arrives.

use bytes::Bytes;
use kube_endpoint_core_model::protobuf::{self, Envelope, ListMeta, MAGIC};

use crate::error::{ListWatchError, excerpt};
use crate::wire::decode::Page;
use crate::wire::frame_splitter::MAX_FRAME;
use crate::wire::pieces::Pieces;

/// The most bytes of a part of a list that is not an item.
const MAX_PART: u64 = 1 << 20;

/// Takes chunks of an envelope that holds a list, and returns the list's items.
#[derive(Debug)]
pub(crate) struct ProtobufList {
    /// The expected `kind`.
    list_kind: &'static str,
    pieces: Pieces,
    next: Next,
    /// The current varint, and how many of its bits are known.
    number: (u64, u32),
    /// The number of bytes that are left of the list, or `None` outside of it.
    left: Option<u64>,
    kind: String,
    metadata: ListMeta,
    /// The content of an envelope that does not hold a list.
    other: Option<Bytes>,
    is_complete: bool,
}

/// The meaning of the next bytes.
#[derive(Clone, Copy, Debug)]
enum Next {
    Magic,
    Tag,
    Number,
    Length { field: u64 },
    Content { field: u64, length: usize },
    Skipped { length: u64 },
}

impl ProtobufList {
    pub(crate) fn new(list_kind: &'static str) -> Self {
        Self {
            list_kind,
            pieces: Pieces::default(),
            next: Next::Magic,
            number: (0, 0),
            left: None,
            kind: String::new(),
            metadata: ListMeta::default(),
            other: None,
            is_complete: false,
        }
    }

    /// Adds the next chunk. Call it after [`next`](Self::next) has returned `None`.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.pieces.push(chunk);
    }

    /// Returns the next complete item, or `None` if it needs another chunk.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, ListWatchError> {
        loop {
            match self.next {
                Next::Magic => {
                    let Some(magic) = self.pieces.take(MAGIC.len()) else { return Ok(None) };
                    if magic != MAGIC {
                        return Err(invalid(&format!("protobuf that begins with {:?}", excerpt(&magic))));
                    }
                    self.next = Next::Tag;
                }
                Next::Tag => {
                    if self.left == Some(0) {
                        (self.left, self.is_complete) = (None, true);
                    }
                    let Some(tag) = self.varint()? else { return Ok(None) };
                    self.next = match tag & 7 {
                        0 => Next::Number,
                        2 => Next::Length { field: tag >> 3 },
                        1 => self.skipped(8)?,
                        5 => self.skipped(4)?,
                        _ => return Err(invalid("a list whose protobuf encoding is broken")),
                    };
                }
                Next::Number => {
                    if self.varint()?.is_none() {
                        return Ok(None);
                    }
                    self.next = Next::Tag;
                }
                Next::Length { field } => {
                    let Some(length) = self.varint()? else { return Ok(None) };
                    self.next = self.begin(field, length)?;
                }
                Next::Content { field, length } => {
                    let Some(content) = self.pieces.take(length) else { return Ok(None) };
                    self.next = Next::Tag;
                    if self.left.is_some() && field == 2 {
                        return Ok(Some(content));
                    }
                    self.read_part(field, content)?;
                }
                Next::Skipped { length } => {
                    let length = self.pieces.skip(length);
                    if length > 0 {
                        self.next = Next::Skipped { length };
                        return Ok(None);
                    }
                    self.next = Next::Tag;
                }
            }
        }
    }

    /// Returns the page without its items. Call it after the last chunk.
    ///
    /// # Errors
    ///
    /// If the body was cut off, or is not a list of the expected kind.
    pub(crate) fn finish(self) -> Result<Page, ListWatchError> {
        let between_fields = matches!(self.next, Next::Tag) && self.number.1 == 0;
        let is_complete = self.is_complete || self.left == Some(0);
        if let Some(other) = &self.other {
            if self.kind == "Status" {
                let status = protobuf::Status::read(other).map_err(|error| invalid(&error.to_string()))?;
                return Err(ListWatchError::from_protobuf(status, Some(500)));
            }
            let list_kind = self.list_kind;
            return Err(invalid(&format!("received a {:?}, expected a {list_kind:?}", self.kind)));
        }
        if !is_complete || !between_fields {
            return Err(invalid("the list is cut off"));
        }
        if self.metadata.resource_version.is_none() {
            return Err(invalid(&format!("the {} has no resourceVersion", self.list_kind)));
        }
        let ListMeta { resource_version, continue_token, .. } = self.metadata;
        let next = Some(continue_token).filter(|token| !token.is_empty());
        Ok(Page { resource_version, next })
    }

    /// Reads a varint, or returns `None` if it needs another chunk.
    fn varint(&mut self) -> Result<Option<u64>, ListWatchError> {
        while let Some(byte) = self.pieces.byte() {
            self.consume(1)?;
            let (number, bits) = &mut self.number;
            match protobuf::continued_varint(byte, number, bits) {
                Some(true) => return Ok(Some(std::mem::take(&mut self.number).0)),
                Some(false) => {}
                None => return Err(invalid("a list whose protobuf encoding is broken")),
            }
        }
        Ok(None)
    }

    /// Counts bytes of the list.
    fn consume(&mut self, length: u64) -> Result<(), ListWatchError> {
        if let Some(left) = &mut self.left {
            *left = left
                .checked_sub(length)
                .ok_or_else(|| invalid("a field of the list is longer than the list"))?;
        }
        Ok(())
    }

    fn skipped(&mut self, length: u64) -> Result<Next, ListWatchError> {
        self.consume(length)?;
        Ok(Next::Skipped { length })
    }

    /// Begins a field of the envelope or of the list.
    fn begin(&mut self, field: u64, length: u64) -> Result<Next, ListWatchError> {
        let in_list = self.left.is_some();
        let limit = match field {
            2 if !in_list && self.kind == self.list_kind => {
                self.left = Some(length);
                return Ok(Next::Tag);
            }
            2 if in_list => MAX_FRAME as u64,
            1..=3 => MAX_PART,
            _ => return self.skipped(length),
        };
        if length > limit {
            let what = if in_list { "the list" } else { "the envelope" };
            return Err(invalid(&format!(
                "field {field} of {what} has {length} bytes; at most {limit} are read"
            )));
        }
        self.consume(length)?;
        Ok(Next::Content { field, length: usize::try_from(length).unwrap_or_default() })
    }

    fn read_part(&mut self, field: u64, content: Bytes) -> Result<(), ListWatchError> {
        let broken = |error: protobuf::DecodeError| invalid(&error.to_string());
        match (self.left.is_some(), field) {
            (false, 1) => self.kind = Envelope::type_meta(&content).map_err(broken)?.1.to_owned(),
            (false, 2) => self.other = Some(content),
            (false, 3) if !content.is_empty() => return Err(invalid("its contentEncoding is not supported")),
            (true, 1) => self.metadata = ListMeta::read(&content).map_err(broken)?,
            _ => {}
        }
        Ok(())
    }
}

fn invalid(what: &str) -> ListWatchError {
    ListWatchError::InvalidResponse(what.to_owned())
}

#[cfg(test)]
pub(crate) mod tests;
