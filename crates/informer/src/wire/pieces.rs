//! Cuts bytes that arrive in chunks into pieces of known length.

use bytes::{Buf, Bytes, BytesMut};

/// The current chunk, and the beginning of an incomplete piece. It copies no piece that is within
/// one chunk, and any other once.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    partial: BytesMut,
    chunk: Bytes,
}

impl Pieces {
    /// Adds the next chunk. Call it when the chunk before is used up.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.chunk = chunk;
    }

    /// Returns the next piece, or `None` if it needs another chunk. Then call it again with the
    /// same length.
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
        // Gives the buffer away, so that it does not stay large after a huge piece.
        Some(std::mem::take(&mut self.partial).freeze())
    }

    /// Returns the next byte, or `None` if it needs another chunk.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.chunk.has_remaining().then(|| self.chunk.get_u8())
    }

    /// Drops bytes. Returns how many of them the current chunk lacks.
    pub(crate) fn skip(&mut self, length: u64) -> u64 {
        let here = usize::try_from(length).unwrap_or(usize::MAX).min(self.chunk.len());
        self.chunk.advance(here);
        length - here as u64
    }

    /// Returns the number of bytes held.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.partial.capacity() + self.chunk.len()
    }
}
