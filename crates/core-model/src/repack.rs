//! The canonical form of v1 Endpoints: all lists of subsets with the same meaning have the same
//! one.

use std::collections::BTreeMap;

use crate::endpoints::{EndpointAddress, EndpointSubset, EndpointsPort};

/// Brings subsets into canonical form (upstream `RepackSubsets`): ports that the same addresses
/// serve in the same state share a subset, each address is there once for each port, and not ready
/// wins over ready.
///
/// Two addresses are the same if their IP and target uid are equal; the first one determines
/// hostname, node and target. The result has addresses in the order of their IP text, then uid, and
/// ports and subsets in the order of ports, while upstream sorts them by hash. It has no subset
/// without addresses, and no subset without ports whose addresses serve ports in the same state
/// elsewhere.
pub fn repack(subsets: &[EndpointSubset]) -> Vec<EndpointSubset> {
    repack_by(subsets, |_, _| 0)
}

/// Like [`repack`], but two ports with an application protocol are never the same port, even if
/// they are equal. Upstream does this with objects that it has read, because it compares pointers
/// to the protocol, so a caller that needs upstream's subsets must do the same. Several subsets of
/// the result can have the same ports.
pub fn repack_by_place(subsets: &[EndpointSubset]) -> Vec<EndpointSubset> {
    repack_by(subsets, |port, place| if port.app_protocol.is_some() { place } else { 0 })
}

/// Ranks of addresses among the distinct ones. The second value is true if the address is ready.
type Ranked = Vec<(usize, bool)>;

/// Two ports are the same if they are equal and `distinction` returns the same number for both.
/// `distinction` gets a port and its position among all ports.
fn repack_by(
    subsets: &[EndpointSubset],
    distinction: impl Fn(&EndpointsPort, usize) -> usize,
) -> Vec<EndpointSubset> {
    let found: Vec<&EndpointAddress> = subsets
        .iter()
        .flat_map(|subset| subset.addresses.iter().chain(&subset.not_ready_addresses))
        .collect();
    let (distinct, ranks) = rank(&found);

    let mut by_port: BTreeMap<Option<(&EndpointsPort, usize)>, Ranked> = BTreeMap::new();
    let mut ranks = ranks.into_iter();
    let mut place = 0;
    for subset in subsets {
        let ready = ranks.by_ref().take(subset.addresses.len()).map(|rank| (rank, true));
        let mut own: Ranked = ready.collect();
        own.extend(ranks.by_ref().take(subset.not_ready_addresses.len()).map(|rank| (rank, false)));
        if own.is_empty() {
            continue;
        }
        if subset.ports.is_empty() {
            by_port.entry(None).or_default().extend_from_slice(&own);
        }
        for port in &subset.ports {
            place += 1;
            let key = (port.port > 0).then(|| (port, distinction(port, place)));
            by_port.entry(key).or_default().extend_from_slice(&own);
        }
    }

    let mut by_addresses: BTreeMap<Ranked, Vec<EndpointsPort>> = BTreeMap::new();
    for (port, mut own) in by_port {
        // False sorts before true, so that not ready wins.
        own.sort_unstable();
        own.dedup_by_key(|(rank, _)| *rank);
        let ports = by_addresses.entry(own).or_default();
        // This merges equal ports of two places that have the same addresses: the API server
        // refuses duplicate ports.
        ports.extend(port.map(|(port, _)| port).filter(|port| ports.last() != Some(port)).cloned());
    }

    let mut packed: Vec<EndpointSubset> = by_addresses
        .into_iter()
        .map(|(own, ports)| {
            let pick = |wanted: bool| {
                own.iter()
                    .filter(move |(_, ready)| *ready == wanted)
                    .filter_map(|(rank, _)| distinct.get(*rank).map(|address| (*address).clone()))
                    .collect()
            };
            EndpointSubset { addresses: pick(true), not_ready_addresses: pick(false), ports }
        })
        .collect();
    packed.sort_by(|a, b| (&a.ports, a).cmp(&(&b.ports, b)));
    packed
}

/// Returns the distinct addresses in order, and for each found address its rank among them.
fn rank<'a>(found: &[&'a EndpointAddress]) -> (Vec<&'a EndpointAddress>, Vec<usize>) {
    // The sort is stable: of equal addresses the one found first stays first.
    let mut order: Vec<(usize, &'a EndpointAddress)> = found.iter().copied().enumerate().collect();
    order.sort_by(|(_, a), (_, b)| a.identity().cmp(&b.identity()));
    let mut distinct: Vec<&EndpointAddress> = Vec::with_capacity(order.len());
    let mut ranks = vec![0; order.len()];
    for (place, address) in order {
        if distinct.last().is_none_or(|last| last.identity() != address.identity()) {
            distinct.push(address);
        }
        if let Some(rank) = ranks.get_mut(place) {
            *rank = distinct.len() - 1;
        }
    }
    (distinct, ranks)
}

impl EndpointAddress {
    /// Returns the identity of the address within Endpoints: the IP as written, and the target's
    /// uid or the empty string.
    pub fn identity(&self) -> (&str, &str) {
        (&self.ip, self.target_ref.as_ref().map_or("", |target| &target.uid))
    }

    /// Returns true if two addresses are equal except for the resource version of the target. A
    /// missing node name equals an empty one.
    pub fn same_but_version(&self, other: &Self) -> bool {
        self.ip == other.ip
            && self.hostname == other.hostname
            && self.node_name.as_deref().unwrap_or_default() == other.node_name.as_deref().unwrap_or_default()
            && match (&self.target_ref, &other.target_ref) {
                (None, None) => true,
                (Some(one), Some(two)) => one.same_but_version(two),
                _ => false,
            }
    }
}

/// Returns true if two lists of subsets in canonical form are equal except for resource versions of
/// targets (upstream `endpointSubsetsEqualIgnoreResourceVersion`).
pub(crate) fn same_but_versions(one: &[EndpointSubset], two: &[EndpointSubset]) -> bool {
    let same = |one: &[EndpointAddress], two: &[EndpointAddress]| {
        one.len() == two.len() && one.iter().zip(two.iter()).all(|(one, two)| one.same_but_version(two))
    };
    one.len() == two.len()
        && one.iter().zip(two).all(|(one, two)| {
            one.ports == two.ports
                && same(&one.addresses, &two.addresses)
                && same(&one.not_ready_addresses, &two.not_ready_addresses)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ObjectReference;

    /// Parses a subset from `"10.0.0.1 !10.0.0.2/uid : a=80 b=81"`. An exclamation mark stands for
    /// not ready.
    fn subset(text: &str) -> EndpointSubset {
        let (addresses, ports) = text.split_once(':').unwrap();
        let address = |word: &str| {
            let (ip, uid) = word.split_once('/').map_or((word, None), |(ip, uid)| (ip, Some(uid)));
            let target_ref = uid.map(|uid| ObjectReference { uid: uid.into(), ..Default::default() });
            EndpointAddress { ip: ip.into(), target_ref, ..Default::default() }
        };
        let port = |word: &str| {
            let (name, port) = word.split_once('=').unwrap();
            EndpointsPort { name: name.into(), port: port.parse().unwrap(), ..Default::default() }
        };
        let (not_ready, ready): (Vec<_>, Vec<_>) =
            addresses.split_whitespace().partition(|word| word.starts_with('!'));
        EndpointSubset {
            addresses: ready.into_iter().map(address).collect(),
            not_ready_addresses: not_ready.into_iter().map(|word| address(&word[1..])).collect(),
            ports: ports.split_whitespace().map(port).collect(),
        }
    }

    fn subsets(texts: &[&str]) -> Vec<EndpointSubset> {
        texts.iter().map(|text| subset(text)).collect()
    }

    #[test]
    fn subsets_with_the_same_meaning_have_one_canonical_form() {
        let check =
            |given: &[&str], want: &[&str]| assert_eq!(repack(&subsets(given)), subsets(want), "{given:?}");
        check(&[], &[]);
        check(&[": a=1"], &[]);
        check(&["1 2 : a=1"], &["1 2 : a=1"]);
        check(&["2 1 : b=2 a=1"], &["1 2 : a=1 b=2"]);
        check(&["1 : a=1", "2 : a=1"], &["1 2 : a=1"]);
        check(&["1 : a=1", "1 : b=2"], &["1 : a=1 b=2"]);
        check(&["1 : b=2", "2 : a=1"], &["2 : a=1", "1 : b=2"]);
        check(&["1 2 : a=1", "1 : b=2"], &["1 2 : a=1", "1 : b=2"]);
        check(&["1 !2 : a=1", "1 2 : b=2"], &["1 !2 : a=1", "1 2 : b=2"]);
        check(&["1 : a=1", "!1 : a=1"], &["!1 : a=1"]);
        check(&["!1 : a=1", "1 : a=1"], &["!1 : a=1"]);
        check(&["1 1 !1 : a=1 a=1"], &["!1 : a=1"]);
        check(&["1/u 1/v 1 : a=1"], &["1 1/u 1/v : a=1"]);
        check(&["1 10 9 : a=1"], &["1 10 9 : a=1"]);
    }

    #[test]
    fn subsets_without_ports_are_kept() {
        let check =
            |given: &[&str], want: &[&str]| assert_eq!(repack(&subsets(given)), subsets(want), "{given:?}");
        check(&["1 :"], &["1 :"]);
        check(&["1 :", "2 :"], &["1 2 :"]);
        check(&["1 :", "2 : a=1"], &["1 :", "2 : a=1"]);
        check(&["1 :", "1 : a=1"], &["1 : a=1"]);
        check(&["1 : x=0"], &["1 :"]);
    }

    #[test]
    fn of_equal_addresses_the_first_is_kept() {
        let mut given = subsets(&["1/u : a=1", "1/u : b=2"]);
        given[0].addresses[0].hostname = "first".into();
        given[1].addresses[0].hostname = "second".into();
        let packed = repack(&given);
        assert_eq!(packed.len(), 1);
        assert_eq!(&*packed[0].addresses[0].hostname, "first");
    }

    #[test]
    fn equal_application_protocols_are_one() {
        let mut given = subsets(&["1 : a=1", "2 : a=1"]);
        given[0].ports[0].app_protocol = Some("h2c".into());
        given[1].ports[0].app_protocol = Some("h2c".into());
        assert_eq!(repack(&given).len(), 1);
        assert_eq!(repack_by_place(&given).len(), 2, "by place they differ");
        given[1].ports[0].app_protocol = None;
        assert_eq!(repack(&given).len(), 2);
        assert_eq!(repack_by_place(&given).len(), 2);
        given[0].ports[0].app_protocol = None;
        assert_eq!(repack_by_place(&given).len(), 1);
    }

    #[test]
    fn a_subset_does_not_list_equal_ports_of_two_places_twice() {
        let mut given = subsets(&["1 : a=1", "1 : a=1 b=2"]);
        for subset in &mut given {
            subset.ports[0].app_protocol = Some("h2c".into());
        }
        assert_eq!(repack_by_place(&given), repack(&given));
    }

    #[test]
    fn versions_of_targets_and_empty_node_names_make_no_difference() {
        let one = subsets(&["1/u !2 : a=1"]);
        let check = |change: fn(&mut EndpointSubset), same: bool| {
            let mut two = one.clone();
            change(&mut two[0]);
            assert_eq!(same_but_versions(&one, &two), same, "{two:?}");
        };
        check(|_| {}, true);
        check(|subset| subset.addresses[0].node_name = Some("".into()), true);
        check(|subset| subset.addresses[0].node_name = Some("n".into()), false);
        check(|subset| subset.addresses[0].hostname = "h".into(), false);
        check(|subset| subset.addresses[0].target_ref.as_mut().unwrap().resource_version = "7".into(), true);
        check(|subset| subset.addresses[0].target_ref.as_mut().unwrap().name = "p".into(), false);
        check(|subset| subset.addresses[0].target_ref = None, false);
        check(|subset| subset.addresses.extend(subset.not_ready_addresses.pop()), false);
        check(|subset| subset.ports[0].app_protocol = Some("h2c".into()), false);
        assert!(!same_but_versions(&one, &[]));
    }

    proptest::proptest! {
        #[test]
        fn repacking_twice_changes_nothing(
            entries in proptest::collection::vec((0..5u8, 0..2u8, proptest::bool::ANY, 0..4u8), 0..24),
        ) {
            let given: Vec<EndpointSubset> = entries
                .iter()
                .map(|(ip, uid, ready, port)| {
                    let (mark, port) = (if *ready { "" } else { "!" }, if *port == 0 { String::new() } else { format!("p={port}") });
                    subset(&format!("{mark}{ip}/{uid} : {port}"))
                })
                .collect();
            let packed = repack(&given);
            proptest::prop_assert_eq!(&repack(&packed), &packed);
            let mut reversed = given;
            reversed.reverse();
            proptest::prop_assert_eq!(repack(&reversed), packed);
        }
    }
}
