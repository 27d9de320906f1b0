//! Splits the body of a watch in protobuf into its frames.

use bytes::Bytes;

use crate::error::ListWatchError;
use crate::wire::pieces::Pieces;

/// The longest frame that a reflector reads, as in client-go, and the longest line of a watch or
/// item of a list in JSON. etcd stores objects of at most 1.5 MiB.
pub(crate) const MAX_FRAME: usize = 16 << 20;

/// Takes chunks and returns frames. Each begins with its length in four bytes, big-endian.
#[derive(Debug, Default)]
pub(crate) struct FrameSplitter {
    pieces: Pieces,
    /// The length of the current frame, if its first four bytes have arrived.
    length: Option<usize>,
}

impl FrameSplitter {
    /// Adds the next chunk. Call it after [`next`](Self::next) has returned `None`.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.pieces.push(chunk);
    }

    /// Returns the next complete frame without its length, or `None` if it needs another chunk.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, ListWatchError> {
        if self.length.is_none() {
            let Some(prefix) = self.pieces.take(4) else { return Ok(None) };
            let length = prefix.iter().fold(0usize, |length, byte| length << 8 | usize::from(*byte));
            if length > MAX_FRAME {
                let error = format!("a watch event of {length} bytes; at most {MAX_FRAME} are read");
                return Err(ListWatchError::InvalidResponse(error));
            }
            self.length = Some(length);
        }
        let frame = self.pieces.take(self.length.unwrap_or_default());
        if frame.is_some() {
            self.length = None;
        }
        Ok(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(body: &[u8], size: usize) -> Result<Vec<Bytes>, ListWatchError> {
        let mut splitter = FrameSplitter::default();
        let mut frames = Vec::new();
        for chunk in body.chunks(size) {
            splitter.push(Bytes::copy_from_slice(chunk));
            while let Some(frame) = splitter.next()? {
                frames.push(frame);
            }
        }
        Ok(frames)
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_matter(
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..6), size in 1usize..40, cut in 0usize..5,
        ) {
            let mut body = Vec::new();
            for frame in &frames {
                body.extend((frame.len() as u32).to_be_bytes());
                body.extend(frame);
            }
            prop_assert_eq!(&split(&body, size).unwrap(), &frames);
            // The splitter does not return a frame that is cut off.
            body.truncate(body.len().saturating_sub(cut));
            let got = split(&body, size).unwrap();
            prop_assert!(got.len() <= frames.len() && got == frames[..got.len()]);
        }
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_before_it_is_read() {
        for prefix in [[0xff; 4], ((MAX_FRAME + 1) as u32).to_be_bytes()] {
            let error = split(&prefix, 1).unwrap_err().to_string();
            assert!(error.contains("bytes; at most 16777216 are read"), "{error}");
        }
        assert!(split(&(MAX_FRAME as u32).to_be_bytes(), 2).unwrap().is_empty());
    }
}
