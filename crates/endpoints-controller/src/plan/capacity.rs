//! Chooses the addresses that a plan leaves out if there are more than an object may hold.

use kube_endpoint_core_model::endpoints::{EndpointAddress, EndpointSubset};

/// Returns all addresses, ready or not.
pub(super) fn addresses(subsets: &[EndpointSubset]) -> impl Iterator<Item = &EndpointAddress> {
    subsets.iter().flat_map(|subset| subset.addresses.iter().chain(&subset.not_ready_addresses))
}

/// Returns the number of addresses. An address in two subsets counts twice.
pub(super) fn count(subsets: &[EndpointSubset]) -> usize {
    subsets.iter().map(|subset| subset.addresses.len() + subset.not_ready_addresses.len()).sum()
}

/// Returns the subsets without the addresses beyond a capacity, or `None` if all fit (upstream
/// `truncateEndpoints`).
///
/// Ready addresses take precedence: if not all of them fit, they share the capacity; otherwise the
/// addresses that are not ready share the rest. Each subset gets its proportional share, rounded
/// up, so the last subsets may get less: the order of subsets matters. This drops a subset without
/// addresses; upstream keeps it, and the API server refuses the object.
pub(super) fn truncate(full: &[EndpointSubset], capacity: usize) -> Option<Vec<EndpointSubset>> {
    let ready: usize = full.iter().map(|subset| subset.addresses.len()).sum();
    let not_ready = count(full) - ready;
    if ready + not_ready <= capacity {
        return None;
    }
    let ready_fit = ready <= capacity;
    let (total, room) = if ready_fit { (not_ready, capacity - ready) } else { (ready, capacity) };
    let mut left = room;
    let mut first_of = |list: &[EndpointAddress]| {
        let count = share(list.len(), total, room).min(left);
        left -= count;
        list.iter().take(count).cloned().collect()
    };
    let truncated = full.iter().map(|EndpointSubset { addresses, not_ready_addresses, ports }| {
        let (addresses, not_ready_addresses) = if ready_fit {
            (addresses.clone(), first_of(not_ready_addresses))
        } else {
            (first_of(addresses), Vec::new())
        };
        EndpointSubset { addresses, not_ready_addresses, ports: ports.clone() }
    });
    let has_addresses = |it: &EndpointSubset| !it.addresses.is_empty() || !it.not_ready_addresses.is_empty();
    Some(truncated.filter(has_addresses).collect())
}

/// Returns `part / total * room`, rounded up, in floating point, as upstream computes it.
fn share(part: usize, total: usize, room: usize) -> usize {
    // The conversions are exact up to 2^53, and no list has that many entries.
    (part as f64 / total as f64 * room as f64).ceil() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Subsets with the given numbers of ready and not ready addresses.
    fn subsets(sizes: &[(usize, usize)]) -> Vec<EndpointSubset> {
        let list = |count: usize| vec![EndpointAddress::default(); count];
        let subset = |&(ready, not_ready): &(usize, usize)| EndpointSubset {
            addresses: list(ready),
            not_ready_addresses: list(not_ready),
            ports: Vec::new(),
        };
        sizes.iter().map(subset).collect()
    }

    #[test]
    fn ready_addresses_take_precedence_and_the_rest_is_shared_in_proportion() {
        let check = |given: &[(usize, usize)], want: Option<&[(usize, usize)]>| {
            let truncated = truncate(&subsets(given), 1000);
            let sizes: Option<Vec<_>> = truncated.map(|subsets| {
                subsets.iter().map(|s| (s.addresses.len(), s.not_ready_addresses.len())).collect()
            });
            assert_eq!(sizes.as_deref(), want, "{given:?}");
        };
        check(&[], None);
        check(&[(1000, 0)], None);
        check(&[(500, 300), (100, 100)], None);
        check(&[(1001, 0)], Some(&[(1000, 0)]));
        check(&[(0, 1500)], Some(&[(0, 1000)]));
        check(&[(900, 200)], Some(&[(900, 100)]));
        check(&[(1000, 200)], Some(&[(1000, 0)]));
        check(&[(1001, 200)], Some(&[(1000, 0)]));
        check(&[(400, 600), (400, 200)], Some(&[(400, 150), (400, 50)]));
        check(&[(600, 0), (600, 0), (600, 0)], Some(&[(334, 0), (334, 0), (332, 0)]));
        check(&[(1001, 0), (0, 5)], Some(&[(1000, 0)]));
        // Of 999 subsets with two addresses each, the last 499 get none and are dropped.
        check(&vec![(2, 0); 999], Some(&vec![(2, 0); 500]));
    }
}
