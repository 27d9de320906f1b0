//! The subsets of an Endpoints object, or the summary of them that a store keeps.
//!
//! The endpoints controller can make the content of its objects again, so a store need not hold it:
//! a digest is enough to compare an object with the wanted content.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::{Index, IndexMut};

use serde::ser::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::endpoints::{EndpointAddress, EndpointSubset, EndpointsPort};
use crate::repack::{repack, same_but_versions};

/// The subsets of an Endpoints object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subsets {
    Listed(Vec<EndpointSubset>),
    Summarized(SubsetsSummary),
}

/// The summary that a store keeps instead of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SubsetsSummary {
    pub subsets: usize,
    /// Number of ready addresses. An address in two subsets counts twice.
    pub ready: usize,
    /// Number of addresses that are not ready.
    pub not_ready: usize,
    /// A digest. It is the same for subsets that have the same canonical form apart from resource
    /// versions of targets, unless one of them lists an address twice for the same port, or twice
    /// with another hostname, node or target. It differs between two processes.
    pub digest: u128,
}

impl Subsets {
    /// Returns the subsets, or `None` if this is only a summary.
    pub fn listed(&self) -> Option<&[EndpointSubset]> {
        match self {
            Self::Listed(subsets) => Some(subsets),
            Self::Summarized(_) => None,
        }
    }

    /// Returns a mutable reference to the subsets, or `None` if this is only a summary.
    pub fn listed_mut(&mut self) -> Option<&mut Vec<EndpointSubset>> {
        match self {
            Self::Listed(subsets) => Some(subsets),
            Self::Summarized(_) => None,
        }
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Listed(subsets) => subsets.is_empty(),
            Self::Summarized(summary) => summary.subsets == 0,
        }
    }

    /// Returns the numbers of addresses, ready and not ready. An address in two subsets counts
    /// twice.
    pub fn counts(&self) -> (usize, usize) {
        match self {
            Self::Listed(subsets) => subsets.iter().fold((0, 0), |(ready, not_ready), subset| {
                (ready + subset.addresses.len(), not_ready + subset.not_ready_addresses.len())
            }),
            Self::Summarized(summary) => (summary.ready, summary.not_ready),
        }
    }

    /// Returns the summary that a store keeps.
    pub fn summary(&self) -> SubsetsSummary {
        match self {
            Self::Listed(subsets) => {
                let (ready, not_ready) = self.counts();
                SubsetsSummary { subsets: subsets.len(), ready, not_ready, digest: digest(subsets) }
            }
            Self::Summarized(summary) => *summary,
        }
    }

    /// Returns true if `wanted` has the same canonical form, apart from resource versions of
    /// targets. Of subsets that are not kept the digests are compared.
    pub fn is_equivalent_to(&self, wanted: &[EndpointSubset]) -> bool {
        match self {
            // Another writer may have used a form that is not canonical. The wanted subsets need
            // not be canonical either: after truncation two of them may have the same addresses.
            Self::Listed(subsets) => {
                same_but_versions(subsets, wanted) || same_but_versions(&repack(subsets), &repack(wanted))
            }
            Self::Summarized(summary) => summary.digest == digest(wanted),
        }
    }
}

/// Computes the sum over all triples of an address, its state and a port, so that neither their
/// order nor their distribution over subsets matters.
fn digest(subsets: &[EndpointSubset]) -> u128 {
    // Any two odd numbers.
    const READY: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    const NOT_READY: u128 = 0xc2b2_ae3d_27d4_eb4f_1656_67b1_9e37_79f9;
    let mut hashed = Hashed::default();
    let of_subset = |subset: &EndpointSubset| {
        let EndpointSubset { addresses, not_ready_addresses, ports } = subset;
        let ready = digest_of_addresses(addresses).wrapping_mul(READY);
        let addresses = ready.wrapping_add(digest_of_addresses(not_ready_addresses).wrapping_mul(NOT_READY));
        let of_ports = match ports.as_slice() {
            [] => hashed.digest(|hasher| hasher.write_u8(0)),
            ports => {
                let of_port = |port: &EndpointsPort| hashed.digest(|hasher| port.hash(hasher));
                ports.iter().map(of_port).fold(0, u128::wrapping_add)
            }
        };
        addresses.wrapping_mul(of_ports)
    };
    subsets.iter().map(of_subset).fold(0, u128::wrapping_add)
}

/// Returns the part of a digest that comes from addresses: from all fields but the resource
/// versions of their targets. A missing node name equals an empty one.
fn digest_of_addresses(addresses: &[EndpointAddress]) -> u128 {
    let mut hashed = Hashed::default();
    let of_address = |address: &EndpointAddress| {
        let EndpointAddress { ip, hostname, node_name, target_ref } = address;
        hashed.digest(|hasher| {
            (ip, hostname, node_name.as_deref().unwrap_or_default()).hash(hasher);
            if let Some(target) = target_ref {
                let names = (&target.kind, &target.namespace, &target.name, &target.uid);
                (names, &target.api_version, &target.field_path).hash(hasher);
            }
        })
    };
    addresses.iter().map(of_address).fold(0, u128::wrapping_add)
}

/// Collects the bytes of a value before hashing them, because this hashes each byte twice, and one
/// long write costs less than many short ones.
struct Hashed(Vec<u8>);

impl Default for Hashed {
    /// Reserves room for an address.
    fn default() -> Self {
        Self(Vec::with_capacity(256))
    }
}

impl Hashed {
    /// Returns two hashes of 64 bits of the bytes that `write` writes.
    fn digest(&mut self, write: impl FnOnce(&mut Self)) -> u128 {
        self.0.clear();
        write(self);
        let half = |number: u8| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u8(number);
            hasher.write(&self.0);
            u128::from(hasher.finish())
        };
        half(1) << 64 | half(2)
    }
}

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        // Nobody calls this: `digest` hashes all bytes.
        0
    }
}

impl Default for Subsets {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

impl From<Vec<EndpointSubset>> for Subsets {
    fn from(subsets: Vec<EndpointSubset>) -> Self {
        Self::Listed(subsets)
    }
}

impl Index<usize> for Subsets {
    type Output = EndpointSubset;

    /// Returns a subset; panics if there is none, as a slice does.
    #[expect(clippy::expect_used, reason = "as for slices")]
    fn index(&self, index: usize) -> &EndpointSubset {
        self.listed().and_then(|subsets| subsets.get(index)).expect("there is a subset at the index")
    }
}

impl IndexMut<usize> for Subsets {
    #[expect(clippy::expect_used, reason = "as for slices")]
    fn index_mut(&mut self, index: usize) -> &mut EndpointSubset {
        self.listed_mut().and_then(|subsets| subsets.get_mut(index)).expect("there is a subset at the index")
    }
}

impl Serialize for Subsets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let subsets =
            self.listed().ok_or_else(|| S::Error::custom("the addresses of the Endpoints were not kept"))?;
        subsets.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Subsets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer).map(Option::unwrap_or_default).map(Self::Listed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ObjectReference;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn subsets() -> impl Strategy<Value = Vec<EndpointSubset>> {
        let address = (0..4u8, 0..3u8, 0..12u8).prop_map(|(ip, uid, odd)| EndpointAddress {
            ip: format!("10.0.0.{ip}").into(),
            hostname: if odd == 1 { "h".into() } else { "".into() },
            node_name: (odd != 2).then(|| if odd == 3 { "".into() } else { "node".into() }),
            target_ref: (uid > 0).then(|| ObjectReference {
                name: format!("p{uid}").into(),
                uid: format!("u{uid}").into(),
                resource_version: if odd == 4 { "7".into() } else { "".into() },
                ..ObjectReference::default()
            }),
        });
        let port = (1..4i32).prop_map(|port| EndpointsPort { port, ..EndpointsPort::default() });
        let subset = (vec(address.clone(), 0..3), vec(address, 0..3), vec(port, 0..3));
        let subset = subset.prop_map(|(ready, not_ready, ports)| EndpointSubset {
            addresses: ready,
            not_ready_addresses: not_ready,
            ports,
        });
        vec(subset, 0..4)
    }

    /// Returns the number of triples of address, state and port.
    fn triples(subsets: &[EndpointSubset]) -> usize {
        let addresses = |subset: &EndpointSubset| subset.addresses.len() + subset.not_ready_addresses.len();
        subsets.iter().map(|subset| addresses(subset) * subset.ports.len().max(1)).sum()
    }

    /// Returns true if the same addresses have the same hostname, node and target in all places.
    fn is_consistent(subsets: &[EndpointSubset]) -> bool {
        let lists = subsets.iter().flat_map(|subset| [&subset.addresses, &subset.not_ready_addresses]);
        let all: Vec<&EndpointAddress> = lists.flatten().collect();
        all.iter()
            .all(|one| all.iter().all(|two| one.identity() != two.identity() || one.same_but_version(two)))
    }

    proptest! {
        #[test]
        fn of_canonical_subsets_the_digest_tells_what_a_comparison_tells(one in subsets(), two in subsets()) {
            let (one, two) = (repack(&one), repack(&two));
            let summary = Subsets::Summarized(Subsets::Listed(one.clone()).summary());
            prop_assert_eq!(summary.is_equivalent_to(&two), Subsets::Listed(one.clone()).is_equivalent_to(&two));
            prop_assert!(summary.is_equivalent_to(&one));
        }

        #[test]
        fn the_digest_is_that_of_the_canonical_form(given in subsets()) {
            let packed = repack(&given);
            let summary = Subsets::Summarized(Subsets::Listed(given.clone()).summary());
            if triples(&packed) == triples(&given) && is_consistent(&given) {
                prop_assert!(summary.is_equivalent_to(&packed), "{packed:?}");
            }
            let listed = Subsets::Listed(given.clone());
            prop_assert_eq!((summary.counts(), summary.is_empty()), (listed.counts(), listed.is_empty()));
            let mut reversed = given;
            reversed.reverse();
            prop_assert!(summary.is_equivalent_to(&reversed));
        }
    }

    #[test]
    fn each_field_but_the_version_of_the_target_matters() {
        let target = ObjectReference { uid: "u".into(), ..ObjectReference::default() };
        let address =
            EndpointAddress { ip: "10.0.0.1".into(), target_ref: Some(target), ..EndpointAddress::default() };
        let port = EndpointsPort { port: 80, ..EndpointsPort::default() };
        let subset =
            EndpointSubset { addresses: vec![address], ports: vec![port], ..EndpointSubset::default() };
        let summary = Subsets::Summarized(Subsets::Listed(vec![subset.clone()]).summary());
        let check = |change: fn(&mut EndpointSubset), same: bool| {
            let mut changed = subset.clone();
            change(&mut changed);
            assert_eq!(summary.is_equivalent_to(std::slice::from_ref(&changed)), same, "{changed:?}");
            assert_eq!(Subsets::Listed(vec![subset.clone()]).is_equivalent_to(&[changed]), same);
        };
        check(|_| {}, true);
        check(|it| it.addresses[0].target_ref.as_mut().unwrap().resource_version = "7".into(), true);
        check(|it| it.addresses[0].node_name = Some("".into()), true);
        check(|it| it.addresses[0].node_name = Some("n".into()), false);
        check(|it| it.addresses[0].ip = "10.0.0.2".into(), false);
        check(|it| it.addresses[0].hostname = "h".into(), false);
        check(|it| it.addresses[0].target_ref.as_mut().unwrap().uid = "v".into(), false);
        check(|it| it.addresses[0].target_ref.as_mut().unwrap().name = "p".into(), false);
        check(|it| it.addresses[0].target_ref = None, false);
        check(|it| std::mem::swap(&mut it.addresses, &mut it.not_ready_addresses), false);
        check(|it| it.ports[0].port = 81, false);
        check(|it| it.ports[0].app_protocol = Some("h2c".into()), false);
        check(|it| it.ports.clear(), false);
        check(|it| it.addresses.clear(), false);
    }

    #[test]
    fn what_is_not_kept_is_not_written() {
        let summary = Subsets::Summarized(SubsetsSummary::default());
        let error = serde_json::to_string(&summary).unwrap_err();
        assert_eq!(error.to_string(), "the addresses of the Endpoints were not kept");
    }
}
