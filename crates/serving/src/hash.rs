//! Hashes secrets to keys of caches, so that a key does not reveal its secret.
#![expect(clippy::disallowed_types, reason = "the seed is in the log and would reveal the key")]

use ring::hmac::{HMAC_SHA256, Key, sign};
use ring::rand::SystemRandom;

use crate::error::ServingError;

/// Hashes secrets and long texts. The key is random, as upstream's: an attacker can neither compute
/// collisions nor find a token whose hash is known.
pub(crate) struct Hasher(Key);

impl Hasher {
    pub(crate) fn new() -> Result<Self, ServingError> {
        Key::generate(HMAC_SHA256, &SystemRandom::new()).map(Self).map_err(|_| ServingError::Random)
    }

    pub(crate) fn hash(&self, text: &[u8]) -> [u8; 32] {
        let mut hash = [0; 32];
        hash.copy_from_slice(sign(&self.0, text).as_ref());
        hash
    }
}
