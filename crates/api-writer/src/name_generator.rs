//! Generates names for new objects. The server does not, so that the writer can retry a create
//! whose answer was lost under the same name, without creating a second object.

use kube_endpoint_core_model::Text;
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Characters of a suffix: those that the API server uses, without vowels and look-alikes, so that
/// they form no words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Number of random characters (`randomLength` of `k8s.io/apiserver/pkg/storage/names`).
const SUFFIX_LENGTH: usize = 5;
/// Longest generated name (`maxNameLength` there).
const MAX_NAME_LENGTH: usize = 63;

/// Generates object names from a prefix, as the API server does for `generateName`.
#[derive(Debug)]
pub struct NameGenerator {
    random: Mutex<ChaCha8Rng>,
}

impl NameGenerator {
    /// A generator. Equal seeds generate equal sequences of suffixes.
    pub fn new(seed: u64) -> Self {
        Self { random: Mutex::new(ChaCha8Rng::seed_from_u64(seed)) }
    }

    /// The prefix followed by five random characters. A prefix that is too long is truncated.
    pub fn generate_name(&self, prefix: &str) -> Text {
        let longest = prefix.len().min(MAX_NAME_LENGTH - SUFFIX_LENGTH);
        let end = (0..=longest).rev().find(|at| prefix.is_char_boundary(*at)).unwrap_or_default();
        let prefix = &prefix[..end];
        let mut random = self.random.lock();
        let suffix: String = (0..SUFFIX_LENGTH)
            .map(|_| char::from(ALPHABET[random.random_range(0..ALPHABET.len())]))
            .collect();
        format!("{prefix}{suffix}").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_generates_the_same_distinct_names() {
        let names = |seed| {
            let generator = NameGenerator::new(seed);
            (0..1000).map(|_| generator.generate_name("web-")).collect::<Vec<_>>()
        };
        assert_eq!(names(1), names(1));
        assert_ne!(names(1), names(2));
        let mut distinct = names(1);
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), 1000);
        assert!(names(1).iter().all(|name| name.starts_with("web-") && name.len() == 9));
    }

    #[test]
    fn long_prefixes_are_truncated() {
        let name = NameGenerator::new(1).generate_name(&format!("{}-", "x".repeat(100)));
        assert_eq!(name.len(), 63);
        assert!(name.starts_with(&"x".repeat(58)));
    }
}
