//! Names for new objects, made here and not by the server, so that a create whose answer was lost can be tried again under
//! the same name and is not carried out twice.

use kube_endpoint_core_model::Text;
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Letters of a suffix: as the server's, without vowels and look-alikes, so that they spell nothing.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX: usize = 5;
/// As long as the server lets a made name be (`maxNameLength` of `k8s.io/apiserver/pkg/storage/names`).
const LONGEST: usize = 63;

/// Makes names from a seed that was handed in.
#[derive(Debug)]
pub struct NameMaker {
    random: Mutex<ChaCha8Rng>,
}

impl NameMaker {
    /// A maker of names; the same seed makes the same names.
    pub fn new(seed: u64) -> Self {
        Self { random: Mutex::new(ChaCha8Rng::seed_from_u64(seed)) }
    }

    /// The prefix, cut if it is too long, and five random letters.
    pub fn make(&self, prefix: &str) -> Text {
        let cut = prefix.char_indices().map(|(at, _)| at).take_while(|at| *at <= LONGEST - SUFFIX).last();
        let prefix =
            if prefix.len() <= LONGEST - SUFFIX { prefix } else { &prefix[..cut.unwrap_or_default()] };
        let mut random = self.random.lock();
        let suffix: String =
            (0..SUFFIX).map(|_| char::from(ALPHABET[random.random_range(0..ALPHABET.len())])).collect();
        format!("{prefix}{suffix}").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_names_and_no_two_alike() {
        let names = |seed| {
            let maker = NameMaker::new(seed);
            (0..1000).map(|_| maker.make("web-")).collect::<Vec<_>>()
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
    fn long_prefixes_are_cut() {
        let name = NameMaker::new(1).make(&format!("{}-", "x".repeat(100)));
        assert_eq!(name.len(), 63);
        assert!(name.starts_with(&"x".repeat(58)));
    }
}
