//! Uids and generated names, from one seeded generator so that a run is reproducible.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The letters of generated names, as upstream's: no vowels and no digits that look like them.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The maximum length of the base of a generated name.
const LONGEST_BASE: usize = 58;

/// The server's source of randomness.
#[derive(Debug)]
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    /// Returns a generator with this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Returns a uid in the form of a UUID of version 4.
    pub(crate) fn uid(&mut self) -> String {
        let mut bytes = [0u8; 16];
        self.0.fill_bytes(&mut bytes);
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let mut text = String::with_capacity(36);
        for (index, byte) in bytes.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
            }
        }
        text
    }

    /// Returns a name made from `generateName` and five random letters.
    pub(crate) fn name(&mut self, base: &str) -> String {
        let mut end = base.len().min(LONGEST_BASE);
        while !base.is_char_boundary(end) {
            end -= 1;
        }
        let mut name = base[..end].to_owned();
        for _ in 0..5 {
            name.push(char::from(LETTERS[self.0.next_u32() as usize % LETTERS.len()]));
        }
        name
    }

    /// Returns a number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_determines_uids_and_names() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (random.uid(), random.name("web-"))
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let (uid, name) = draw(1);
        assert_eq!((uid.len(), &uid[14..15]), (36, "4"));
        assert!("89ab".contains(&uid[19..20]));
        assert_eq!(name.len(), 9);
    }

    #[test]
    fn long_bases_are_cut() {
        let mut random = Random::new(0);
        assert_eq!(random.name(&"x".repeat(100)).len(), 63);
    }
}
