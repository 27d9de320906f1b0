//! Finds the candidate of an existing endpoint without allocating, compares the two, and builds the
//! endpoints to write.

use std::fmt::Write;
use std::net::IpAddr;

use kube_endpoint_core_model::{Endpoint, IpFamily, ObjectReference, Pod, Text, address};

use super::index::{CandidateIndex, Index};
use super::pods::{Candidate, Source};

const POD: &str = "Pod";

impl Candidate<'_> {
    /// Returns true if its endpoint is ready.
    pub(super) fn is_ready(&self) -> bool {
        self.conditions.ready == Some(true)
    }

    /// Returns true if an endpoint whose target has this pod's name is the endpoint of this
    /// candidate (upstream's endpoint hash).
    pub(super) fn is(&self, endpoint: &Endpoint, family: IpFamily) -> bool {
        let pod = match self.source {
            Source::Pod(pod) => pod,
            Source::Endpoint(own) => return std::ptr::eq(own, endpoint),
        };
        let target_namespace = endpoint.target_ref.as_ref().map(|target| &target.namespace);
        target_namespace.is_some_and(|namespace| *namespace == pod.key.namespace)
            && endpoint.hostname.as_deref().unwrap_or_default()
                == self.hostname.map_or("", |hostname| &**hostname)
            && has_addresses(pod, &endpoint.addresses, family)
    }

    /// Returns true if everything else in its endpoint is up to date (upstream
    /// `EndpointsEqualBeyondHash`).
    pub(super) fn agrees_with(&self, endpoint: &Endpoint) -> bool {
        let Source::Pod(pod) = self.source else { return true };
        endpoint.node_name == pod.node_name
            && endpoint.zone == self.zone
            && endpoint.conditions == self.conditions
            && endpoint.target_ref.as_ref().is_some_and(|target| {
                *target.kind == *POD
                    && target.uid == pod.uid
                    && target.api_version.is_empty()
                    && target.field_path.is_empty()
            })
    }
}

fn has_addresses(pod: &Pod, texts: &[Text], family: IpFamily) -> bool {
    let mut addresses = pod.addresses(family);
    match (addresses.next(), addresses.next(), texts) {
        (None, ..) => false,
        (Some(address), None, [text]) => prints_as(address, text),
        (Some(_), None, _) => false,
        _ => {
            let mut texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
            texts.sort_unstable();
            address_texts(pod, family).iter().map(|text| &**text).eq(texts)
        }
    }
}

fn address_texts(pod: &Pod, family: IpFamily) -> Vec<Text> {
    // The stores keep the list, so it gets no more memory than it needs.
    let mut texts = Vec::with_capacity(pod.addresses(family).count());
    texts.extend(pod.addresses(family).map(address::to_text));
    texts.sort_unstable();
    texts
}

/// Returns true if [`Builder::build`] makes the same endpoint again, apart from hints, from the
/// candidate that [`agrees_with`](Candidate::agrees_with) it.
pub(super) fn is_canonical(endpoint: &Endpoint) -> bool {
    endpoint.addresses.is_sorted()
        && endpoint.deprecated_topology.is_empty()
        && endpoint.hostname.as_ref().is_none_or(|hostname| !hostname.is_empty())
        && endpoint.target_ref.as_ref().is_some_and(|target| target.resource_version.is_empty())
}

/// Returns true if an address prints as `text`, without allocating.
fn prints_as(address: &IpAddr, text: &str) -> bool {
    match address {
        // Rust parses a dotted quad only in its canonical form.
        IpAddr::V4(address) => text.parse() == Ok(*address),
        IpAddr::V6(address) => {
            let mut rest = Unprinted(text.as_bytes());
            write!(rest, "{address}").is_ok() && rest.0.is_empty()
        }
    }
}

/// The rest of an expected text; writing anything else fails.
struct Unprinted<'a>(&'a [u8]);

impl Write for Unprinted<'_> {
    fn write_str(&mut self, printed: &str) -> std::fmt::Result {
        self.0 = self.0.strip_prefix(printed.as_bytes()).ok_or(std::fmt::Error)?;
        Ok(())
    }
}

/// Builds endpoints of one family (upstream `podToEndpoint`).
pub(super) struct Builder {
    family: IpFamily,
}

impl Builder {
    pub(super) fn new(family: IpFamily) -> Self {
        Self { family }
    }

    /// Builds an endpoint without hints. If there is an endpoint of the same candidate, its
    /// addresses are shared.
    pub(super) fn build(&self, candidate: &Candidate<'_>, previous: Option<&Endpoint>) -> Endpoint {
        let pod = match candidate.source {
            Source::Pod(pod) => pod,
            Source::Endpoint(endpoint) => return Endpoint { hints: None, ..endpoint.clone() },
        };
        let addresses = match previous {
            Some(previous) => {
                let mut addresses = previous.addresses.clone();
                addresses.sort_unstable();
                addresses
            }
            None => address_texts(pod, self.family),
        };
        Endpoint {
            addresses,
            conditions: candidate.conditions,
            hostname: candidate.hostname.cloned(),
            target_ref: Some(ObjectReference::to_pod(&pod.key, &pod.uid)),
            node_name: pod.node_name.clone(),
            zone: candidate.zone.clone(),
            ..Endpoint::default()
        }
    }
}

/// Finds candidates by pod name. Most slices hold pods in order, so this tries the next candidate
/// before it searches.
pub(super) struct ByName<'c, 'a> {
    list: &'c [Candidate<'a>],
    next: usize,
}

impl<'c, 'a> ByName<'c, 'a> {
    pub(super) fn new(list: &'c [Candidate<'a>]) -> Self {
        Self { list, next: 0 }
    }

    /// Returns the candidate that an endpoint's target names.
    pub(super) fn find(&mut self, endpoint: &Endpoint) -> Option<CandidateIndex> {
        let name = &endpoint.target_ref.as_ref()?.name;
        let named = |candidate: &Candidate<'_>| candidate.name == name;
        if !self.list.get(self.next).is_some_and(named) {
            self.next = self.list.binary_search_by(|candidate| candidate.name.cmp(name)).ok()?;
        }
        self.next += 1;
        Some(CandidateIndex::new(self.next - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_prints_as_its_canonical_text_only() {
        let check = |address: &str, text: &str, want: bool| {
            assert_eq!(prints_as(&address.parse().unwrap(), text), want, "{address} {text}");
        };
        check("10.0.0.1", "10.0.0.1", true);
        check("10.0.0.1", "10.0.0.01", false);
        check("10.0.0.1", "10.0.0.10", false);
        check("10.0.0.1", "", false);
        check("fd00::1", "fd00::1", true);
        check("fd00::1", "fd00:0::1", false);
        check("fd00::1", "FD00::1", false);
        check("fd00::1", "fd00::", false);
        check("fd00::1", "fd00::12", false);
        check("fd00::1", "10.0.0.1", false);
    }
}
