//! Bytes that arrive in chunks and are read in pieces of known length.

use bytes::{Buf, Bytes, BytesMut};

/// The chunk being read, and the beginning of an incomplete piece. A piece within one chunk is not
/// copied, any other is copied once.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    partial: BytesMut,
    chunk: Bytes,
}

impl Pieces {
    /// Adds the next chunk. Call it when the chunk before has been read.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.chunk = chunk;
    }

    /// The next piece; none if another chunk is needed. Call it again with the same length then.
    pub(crate) fn take(&mut self, length: usize) -> Option<Bytes> {
        let needed = length - self.partial.len().min(length);
        if self.chunk.len() < needed {
            self.partial.extend_from_slice(&self.chunk);
            self.chunk = Bytes::new();
            return None;
        }
        let rest = self.chunk.split_to(needed);
        if self.partial.is_empty() {
            return Some(rest);
        }
        self.partial.extend_from_slice(&rest);
        // The buffer is given away, so that it does not stay large after a huge piece.
        Some(std::mem::take(&mut self.partial).freeze())
    }

    /// The next byte; none if another chunk is needed.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.chunk.has_remaining().then(|| self.chunk.get_u8())
    }

    /// Drops bytes. Returns how many are missing in this chunk.
    pub(crate) fn skip(&mut self, length: u64) -> u64 {
        let here = usize::try_from(length).unwrap_or(usize::MAX).min(self.chunk.len());
        self.chunk.advance(here);
        length - here as u64
    }

    /// The number of bytes that are held.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.partial.capacity() + self.chunk.len()
    }
}
