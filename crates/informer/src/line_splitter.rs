//! Cuts a body that comes in pieces into lines.

use bytes::{Buf, Bytes};

/// Takes pieces and hands out lines. LineSplitter that lie within one piece are not copied, others once; no byte is looked at
/// twice, however long a line is.
#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    /// The beginning of a line whose end has not come yet.
    begun: Vec<u8>,
    /// What is left of the last piece.
    piece: Bytes,
}

impl LineSplitter {
    /// Takes the next piece. All lines of the one before must have been taken.
    pub(crate) fn push(&mut self, piece: Bytes) {
        self.begun.extend_from_slice(&self.piece);
        self.piece = piece;
    }

    /// The next complete line without its end; none if more must come first. Empty lines are left out.
    pub(crate) fn next(&mut self) -> Option<Bytes> {
        loop {
            let Some(end) = self.piece.iter().position(|byte| *byte == b'\n') else {
                self.begun.extend_from_slice(&self.piece);
                self.piece = Bytes::new();
                return None;
            };
            let rest = self.piece.split_to(end);
            self.piece.advance(1);
            let line = if self.begun.is_empty() {
                rest
            } else {
                self.begun.extend_from_slice(&rest);
                // The buffer goes with the line: one that has once grown to hold a huge line is not kept.
                Bytes::from(std::mem::take(&mut self.begun))
            };
            if !line.trim_ascii().is_empty() {
                return Some(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(pieces: &[&[u8]]) -> Vec<String> {
        let mut lines = LineSplitter::default();
        let mut out = Vec::new();
        for piece in pieces {
            lines.push(Bytes::copy_from_slice(piece));
            while let Some(line) = lines.next() {
                out.push(String::from_utf8(line.to_vec()).unwrap());
            }
        }
        out
    }

    #[test]
    fn lines_come_whole_and_an_unfinished_one_does_not_come() {
        let check = |pieces: &[&str], want: &[&str]| {
            let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
            assert_eq!(all(&pieces), want);
        };
        check(&[], &[]);
        check(&["a\nb\n"], &["a", "b"]);
        check(&["a", "", "b\n", "\n\r\n", "c"], &["ab"]);
        check(&["a\nb", "c", "\nd\n"], &["a", "bc", "d"]);
    }

    #[test]
    fn a_line_of_many_megabytes_takes_linear_time() {
        let piece = vec![b'x'; 8 << 10];
        let mut pieces: Vec<&[u8]> = vec![&piece; 4 << 10];
        pieces.push(b"\nnext\n");
        let started = std::time::Instant::now();
        let lines = all(&pieces);
        assert_eq!(lines.iter().map(String::len).collect::<Vec<_>>(), [32 << 20, 4]);
        // Quadratic work would take 70 GB of copying or searching.
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }

    proptest! {
        #[test]
        fn where_the_pieces_are_cut_does_not_matter(text in "[ab\n]{0,60}", cuts in prop::collection::vec(0usize..60, 0..8)) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&text.as_bytes()[from..cut]);
                from = cut;
            }
            pieces.push(&text.as_bytes()[from..]);
            let complete = text.rfind('\n').map_or("", |end| &text[..end]);
            let want: Vec<&str> = complete.split('\n').filter(|line| !line.is_empty()).collect();
            prop_assert_eq!(all(&pieces), want);
        }
    }
}
