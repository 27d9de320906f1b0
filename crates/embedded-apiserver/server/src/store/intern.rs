//! Shared strings: label keys and values, node names and owners' uids repeat over thousands of
//! objects.

use std::collections::HashSet;
use std::sync::Arc;

/// A shared string.
pub(crate) type Text = Arc<str>;

/// Keeps one shared copy of each string. Nobody iterates over the set for output, so its order does
/// not matter.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    known: HashSet<Text>,
    /// The size of the set at which it drops unused strings.
    sweep_at: usize,
}

impl Interner {
    /// Returns the shared copy of `text`.
    pub(crate) fn text(&mut self, text: &str) -> Text {
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        if self.known.len() >= self.sweep_at.max(1024) {
            self.known.retain(|text| Arc::strong_count(text) > 1);
            self.sweep_at = self.known.len() * 2;
        }
        let shared: Text = text.into();
        self.known.insert(shared.clone());
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_are_one_and_unused_ones_are_dropped() {
        let mut interner = Interner::default();
        let first = interner.text("app");
        assert!(Arc::ptr_eq(&first, &interner.text("app")));
        for number in 0..5000 {
            interner.text(&number.to_string());
        }
        assert!(interner.known.len() <= 1025, "{}", interner.known.len());
        assert!(Arc::ptr_eq(&first, &interner.text("app")));
    }
}
