//! Shards: the namespaces divided by a hash of their names.
//!
//! A Service and its pods, slices and Endpoints have the same namespace, so a shard by namespace
//! holds all that a sync reads.

use std::fmt;
use std::str::FromStr;

/// One of several shards of the namespaces. Each namespace is in exactly one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u32,
    count: u32,
}

/// The reason why a shard is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidShard {
    /// It is not written as `INDEX/COUNT`.
    #[error("write it as INDEX/COUNT, such as 0/3, 1/3 and 2/3 for three shards")]
    Format,
    /// The index is not below the count.
    #[error("the index must be lower than the count, as in 0/3, 1/3 and 2/3")]
    Index,
    #[error("the count must be at most {MAX_COUNT}")]
    Count,
}

const MAX_COUNT: u32 = 1024;

impl Shard {
    /// Returns the shard of this index, counted from 0, among `count` shards.
    ///
    /// # Errors
    ///
    /// [`InvalidShard`] if there is no such shard, or if there are more than 1024.
    pub fn new(index: u32, count: u32) -> Result<Self, InvalidShard> {
        if index >= count {
            return Err(InvalidShard::Index);
        }
        if count > MAX_COUNT {
            return Err(InvalidShard::Count);
        }
        Ok(Self { index, count })
    }

    /// Returns the index, counted from 0.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Returns the number of shards.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns true if a namespace is in this shard.
    pub fn contains(&self, namespace: &str) -> bool {
        let hash = u128::from(mixed(fnv1a(namespace)));
        self.bound(self.index) <= hash && hash < self.bound(self.index + 1)
    }

    /// Returns the lowest hash of the shard of an index, or 2^64 after the last one.
    fn bound(&self, index: u32) -> u128 {
        (u128::from(index) << 64) / u128::from(self.count)
    }
}

/// Computes FNV-1a with 64 bits, as Go's `hash/fnv.New64a`.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Lets every bit of the result depend on every bit of a hash, as the last step of MurmurHash3
/// does.
fn mixed(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = InvalidShard;

    fn from_str(text: &str) -> Result<Self, InvalidShard> {
        let (index, count) = text.split_once('/').ok_or(InvalidShard::Format)?;
        let number = |text: &str| text.trim().parse().map_err(|_| InvalidShard::Format);
        Self::new(number(index)?, number(count)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hashes_are_those_of_gos_fnv() {
        // From `hash_test.go` of apimachinery: HashField("") and the published vectors of FNV-1a.
        assert_eq!(fnv1a(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn numbered_namespaces_are_divided_evenly() {
        let numbered: Vec<String> = (0..1000).map(|number| format!("ns-{number:03}")).collect();
        for count in [2, 3, 4, 8] {
            let shards = (0..count).map(|index| Shard::new(index, count).unwrap());
            let size = |shard: Shard| numbered.iter().filter(|name| shard.contains(name)).count();
            let (sizes, mean): (Vec<_>, _) = (shards.map(size).collect(), 1000 / count as usize);
            assert!(sizes.iter().all(|size| size.abs_diff(mean) < mean / 4), "{sizes:?}");
        }
    }

    #[test]
    fn invalid_shards_are_refused() {
        let check = |text: &str, want: InvalidShard| assert_eq!(text.parse::<Shard>(), Err(want), "{text}");
        for text in ["", "1", "a/2", "1/b", "-1/2", "1/2/3", "1,2"] {
            check(text, InvalidShard::Format);
        }
        for text in ["2/2", "0/0", "7/3"] {
            check(text, InvalidShard::Index);
        }
        check("0/1025", InvalidShard::Count);
    }

    proptest! {
        #[test]
        fn each_namespace_is_in_one_shard(namespace in "[a-z0-9-]{0,63}", count in 1..=MAX_COUNT) {
            let shards: Vec<_> = (0..count).map(|index| Shard::new(index, count).unwrap()).collect();
            prop_assert_eq!(shards.iter().filter(|shard| shard.contains(&namespace)).count(), 1);
        }
    }
}
