//! Splits a body that arrives in chunks into lines.

use bytes::{Buf, Bytes};

use crate::error::ListWatchError;
use crate::wire::frame_splitter::MAX_FRAME;

/// Takes chunks and returns lines. It copies no line that is within one chunk, and any other line
/// once. It searches each byte once, however long a line is.
#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    /// The beginning of an incomplete line.
    partial: Vec<u8>,
    /// The rest of the last chunk.
    chunk: Bytes,
}

impl LineSplitter {
    /// Adds the next chunk. Call it after [`next`](Self::next) has returned `None`.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.partial.extend_from_slice(&self.chunk);
        self.chunk = chunk;
    }

    /// Returns the next complete line without its line feed, or `None` if it needs another chunk.
    /// Skips empty lines.
    ///
    /// # Errors
    ///
    /// If a line is longer than [`MAX_FRAME`].
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, ListWatchError> {
        loop {
            let Some(end) = self.chunk.iter().position(|byte| *byte == b'\n') else {
                self.partial.extend_from_slice(&self.chunk);
                self.chunk = Bytes::new();
                if self.partial.len() > MAX_FRAME {
                    let error = format!(
                        "a watch event of more than {MAX_FRAME} bytes, which is the most that is read"
                    );
                    return Err(ListWatchError::InvalidResponse(error));
                }
                return Ok(None);
            };
            let rest = self.chunk.split_to(end);
            self.chunk.advance(1);
            let line = if self.partial.is_empty() {
                rest
            } else {
                self.partial.extend_from_slice(&rest);
                // Gives the buffer away, so that it does not stay large after a huge line.
                Bytes::from(std::mem::take(&mut self.partial))
            };
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(chunks: &[&[u8]]) -> Vec<String> {
        let mut lines = LineSplitter::default();
        let mut out = Vec::new();
        for chunk in chunks {
            lines.push(Bytes::copy_from_slice(chunk));
            while let Some(line) = lines.next().unwrap() {
                out.push(String::from_utf8(line.to_vec()).unwrap());
            }
        }
        out
    }

    #[test]
    fn complete_lines_are_returned_and_an_incomplete_one_is_not() {
        let check = |chunks: &[&str], want: &[&str]| {
            let chunks: Vec<&[u8]> = chunks.iter().map(|chunk| chunk.as_bytes()).collect();
            assert_eq!(all(&chunks), want);
        };
        check(&[], &[]);
        check(&["a\nb\n"], &["a", "b"]);
        check(&["a", "", "b\n", "\n\r\n", "c"], &["ab"]);
        check(&["a\nb", "c", "\nd\n"], &["a", "bc", "d"]);
    }

    #[test]
    fn a_line_without_an_end_is_refused() {
        let mut lines = LineSplitter::default();
        let chunk = Bytes::from(vec![b'x'; 1 << 20]);
        for _ in 0..16 {
            lines.push(chunk.clone());
            assert_eq!(lines.next().unwrap(), None);
        }
        lines.push(chunk);
        let error = lines.next().unwrap_err().to_string();
        assert!(error.contains("a watch event of more than 16777216 bytes"), "{error}");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "it measures real time")]
    fn a_line_of_many_megabytes_takes_linear_time() {
        let chunk = vec![b'x'; 8 << 10];
        let mut chunks: Vec<&[u8]> = vec![&chunk; 2 << 10];
        chunks.push(b"\nnext\n");
        let started = std::time::Instant::now();
        let lines = all(&chunks);
        assert_eq!(lines.iter().map(String::len).collect::<Vec<_>>(), [16 << 20, 4]);
        // Quadratic work would copy or search 17 GB.
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_matter(text in "[ab\n]{0,60}", cuts in prop::collection::vec(0usize..60, 0..8)) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts {
                chunks.push(&text.as_bytes()[from..cut]);
                from = cut;
            }
            chunks.push(&text.as_bytes()[from..]);
            let complete = text.rfind('\n').map_or("", |end| &text[..end]);
            let want: Vec<&str> = complete.split('\n').filter(|line| !line.is_empty()).collect();
            prop_assert_eq!(all(&chunks), want);
        }
    }
}
