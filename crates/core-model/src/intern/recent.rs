//! A cache of the latest parts: most strings of an object occur in the objects before it.
//!
//! Each part has one place, and replaces the part that was there. Anybody can guess the cheap hash
//! that chooses the place, which does no harm: if parts compete for a place, the interner looks
//! them up as it does without this cache.

use super::have_same_strings;
use crate::pod::ContainerPorts;
use crate::{StringMap, Text};

const PLACES: usize = 256;

/// The latest parts.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// Empty or of length [`PLACES`].
    texts: Vec<Text>,
    maps: Vec<StringMap>,
    /// The ports of the last pod.
    pub(super) ports: ContainerPorts,
}

impl Recent {
    /// Returns the shared copy of a string, if it is one of the last.
    pub(super) fn text(&self, text: &str) -> Option<&Text> {
        self.texts.get(place_of_text(text.as_bytes())).filter(|recent| ***recent == *text)
    }

    pub(super) fn add_text(&mut self, text: &Text) {
        self.texts.resize(PLACES, Text::default());
        self.texts[place_of_text(text.as_bytes())] = Text::clone(text);
    }

    /// Returns the shared map of these pairs, whose strings are shared too, if it is one of the
    /// last.
    pub(super) fn map(&self, pairs: &[(Text, Text)]) -> Option<&StringMap> {
        self.maps.get(place_of_map(pairs)).filter(|recent| have_same_strings(&recent.0, pairs))
    }

    pub(super) fn add_map(&mut self, map: &StringMap) {
        self.maps.resize(PLACES, StringMap::default());
        self.maps[place_of_map(&map.0)] = map.clone();
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

fn place(mixed: u64) -> usize {
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

/// Computes the place of a short string from all of its bytes, and that of a longer one from its
/// length and its first, middle and last eight bytes: names of nodes differ in one of these.
fn place_of_text(text: &[u8]) -> usize {
    let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) else {
        return place(text.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
    };
    let middle = text.get((text.len() - 8) / 2..).and_then(|rest| rest.first_chunk()).unwrap_or(first);
    let [first, middle, last] = [first, middle, last].map(|word| u64::from_le_bytes(*word));
    place(first ^ middle.rotate_left(21) ^ last.rotate_left(42) ^ ((text.len() as u64) << 56))
}

fn place_of_map(pairs: &[(Text, Text)]) -> usize {
    let address = |text: &Text| text.as_ptr() as u64;
    let mix = |mixed: u64, (key, value): &(Text, Text)| {
        mixed.rotate_left(11) ^ address(key) ^ address(value).rotate_left(29)
    };
    place(pairs.iter().fold(0, mix))
}
