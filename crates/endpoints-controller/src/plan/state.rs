//! What a plan keeps for the next one.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_endpoint_core_model::endpoints::{EndpointAddress, EndpointSubset, EndpointsPort};
use kube_endpoint_core_model::publish::UnreadableAnnotation;
use kube_endpoint_core_model::well_known::{ANNOTATION_OVER_CAPACITY, TRUNCATED};
use kube_endpoint_core_model::{Endpoints, Service, Text};

use super::change::labels_are_right;
use super::{Made, Plan, PlanInputs, PlanOptions};

/// The addresses of a Service after a plan was carried out, from which [`PlanState::plan`] plans the next sync by the pods that
/// have changed since. The object is shared with the store. Of each pod it holds address, uid and name, some 60 bytes: more
/// pods may be selected than one object holds, and each of them may have to replace another one.
///
/// There is no state if the next plan may depend on more than changed pods: the pods have several sets of ports, or two of
/// them have the same address and uid; the options are those of upstream, which writes without a change; the object was
/// created, or is not as this controller would write it, although it need not be written.
#[derive(Clone)]
pub struct PlanState {
    pub(super) service: Service,
    pub(super) options: PlanOptions,
    pub(super) warning: Option<UnreadableAnnotation>,
    /// The ports of each pod.
    pub(super) pod_ports: Vec<EndpointsPort>,
    /// The ports of the subset.
    pub(super) ports: Vec<EndpointsPort>,
    /// The addresses of pods that are published as ready, also those beyond the capacity.
    pub(super) ready: BTreeSet<Address>,
    /// The addresses of pods that are published as not ready, also those beyond the capacity.
    pub(super) not_ready: BTreeSet<Address>,
    object: Object,
}

/// The object as it should be in the store.
#[derive(Clone)]
struct Object {
    base: Base,
    /// Addresses that differ from `base`.
    fresh: BTreeMap<Address, EndpointAddress>,
    /// Whether the object was written since it was compared with the store.
    written: bool,
}

#[derive(Clone)]
enum Base {
    /// An object that the store had.
    Stored(Arc<Endpoints>),
    /// The subsets of an object that was written.
    Planned(Vec<EndpointSubset>),
}

impl Base {
    fn subset(&self) -> Option<&EndpointSubset> {
        match self {
            Self::Stored(endpoints) => endpoints.subsets.first(),
            Self::Planned(subsets) => subsets.first(),
        }
    }
}

/// The place of an address among others: by text, then by uid of the pod.
#[derive(Clone, Debug)]
pub(super) struct Address {
    ip: Ip,
    uid: Text,
    /// The name of the pod, which does not count.
    pub(super) name: Text,
}

/// The text of an IP address. Short ones, such as all of IPv4, are held in place.
#[derive(Clone, Debug)]
enum Ip {
    /// Filled up with zeros.
    Short([u8; 16]),
    Long(Text),
}

impl Ip {
    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Short(bytes) => {
                let unused = u128::from_be_bytes(*bytes).trailing_zeros() as usize / 8;
                bytes.get(..bytes.len() - unused).unwrap_or_default()
            }
            Self::Long(text) => text.as_bytes(),
        }
    }
}

impl From<&Text> for Ip {
    fn from(text: &Text) -> Self {
        let mut bytes = [0; 16];
        match bytes.get_mut(..text.len()) {
            Some(start) => {
                start.copy_from_slice(text.as_bytes());
                Self::Short(bytes)
            }
            None => Self::Long(Text::clone(text)),
        }
    }
}

impl Address {
    pub(super) fn new(ip: &Text, uid: &Text, name: &Text) -> Self {
        Self { ip: ip.into(), uid: uid.clone(), name: name.clone() }
    }

    /// None if the target is not known.
    pub(super) fn of(address: &EndpointAddress) -> Option<Self> {
        let target = address.target_ref.as_ref()?;
        Some(Self::new(&address.ip, &target.uid, &target.name))
    }

    /// Compares with an address, as [`EndpointAddress::identity`] does.
    fn compare(&self, address: &EndpointAddress) -> Ordering {
        let (ip, uid) = address.identity();
        self.ip.as_bytes().cmp(ip.as_bytes()).then_with(|| match std::ptr::eq(&*self.uid, uid) {
            true => Ordering::Equal,
            false => (*self.uid).cmp(uid),
        })
    }
}

impl Ord for Address {
    fn cmp(&self, other: &Self) -> Ordering {
        let ips = match (&self.ip, &other.ip) {
            (Ip::Short(one), Ip::Short(two)) => one.cmp(two),
            (one, two) => one.as_bytes().cmp(two.as_bytes()),
        };
        ips.then_with(|| self.uid.cmp(&other.uid))
    }
}

impl PartialOrd for Address {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Address {}

/// Of the addresses of one list of the object, those that are known; the others have to be made.
pub(super) type Found<'s> = Vec<Result<&'s EndpointAddress, Address>>;

impl std::fmt::Debug for PlanState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlanState")
            .field("service", &self.service.key)
            .field("ready", &self.ready.len())
            .field("not_ready", &self.not_ready.len())
            .finish_non_exhaustive()
    }
}

impl PlanState {
    /// The state after a plan, if it is carried out. `existing` is the object that it was planned for.
    pub(super) fn after(
        inputs: &PlanInputs<'_>,
        existing: Option<&Arc<Endpoints>>,
        made: Made,
        plan: &Plan,
    ) -> Option<Self> {
        let Made { full, pod_ports, pods } = made;
        let ([all], Some(pod_ports)) = (full.as_slice(), pod_ports) else { return None };
        let options = inputs.options;
        let writes_changes_only = options.keep_equal_truncated && options.ignore_reserved_labels;
        let has_all = all.addresses.len() + all.not_ready_addresses.len() == pods;
        if !writes_changes_only || !has_all {
            return None;
        }
        let places = |list: &[EndpointAddress]| list.iter().map(Address::of).collect::<Option<BTreeSet<_>>>();
        let mut state = Self {
            service: inputs.service.clone(),
            options: options.clone(),
            warning: plan.warning.clone(),
            pod_ports,
            ports: all.ports.clone(),
            ready: places(&all.addresses)?,
            not_ready: places(&all.not_ready_addresses)?,
            object: Object { base: Base::Planned(full), fresh: BTreeMap::new(), written: true },
        };
        let existing = existing.filter(|existing| !existing.metadata.resource_version.is_none())?;
        match plan.writes.update.first() {
            Some(written) => state.object.base = Base::Planned(written.subsets.clone()),
            None => {
                // Compared address by address: what is written later copies from it.
                let same = state.is_met_by(existing);
                state.object = Object::stored(existing);
                return same.then_some(state);
            }
        }
        Some(state)
    }

    /// Takes over the object as the store has it now. Returns false if it, the Service or the options are not what the state
    /// was made for.
    pub(super) fn meets(&mut self, inputs: &PlanInputs<'_>, existing: &Arc<Endpoints>) -> bool {
        let same_service = |before: &Service, now: &Service| {
            Service { resource_version: now.resource_version, ..before.clone() } == *now
        };
        if self.options != *inputs.options
            || !(self.service == *inputs.service || same_service(&self.service, inputs.service))
        {
            return false;
        }
        if let Base::Stored(stored) = &self.object.base
            && Arc::ptr_eq(stored, existing)
        {
            return !self.object.written;
        }
        let same = self.is_met_by(existing);
        self.object = Object::stored(existing);
        same
    }

    /// Takes over an object that the store shows now, if it is the one that was planned, so that what it was before is not held
    /// until the next plan, which would do the same.
    pub fn settle(&mut self, existing: &Arc<Endpoints>) {
        if self.object.written && self.is_met_by(existing) {
            self.object = Object::stored(existing);
        }
    }

    /// Whether an object is exactly the one that was planned.
    fn is_met_by(&self, existing: &Endpoints) -> bool {
        let [EndpointSubset { addresses, not_ready_addresses, ports }] = existing.subsets.as_slice() else {
            return false;
        };
        let (ready, not_ready) = self.found();
        let same = |found: Found<'_>, list: &[EndpointAddress]| {
            found.len() == list.len()
                && found.iter().zip(list).all(|(found, one)| found.as_ref().is_ok_and(|it| *it == one))
        };
        let metadata = &existing.metadata;
        let annotated = metadata.annotations.get(ANNOTATION_OVER_CAPACITY).map(|value| &**value);
        !metadata.resource_version.is_none()
            && *ports == self.ports
            && annotated == self.is_truncated().then_some(TRUNCATED)
            && labels_are_right(&self.service, &metadata.labels, &self.options)
            && same(ready, addresses)
            && same(not_ready, not_ready_addresses)
    }

    /// Whether there are more addresses than an object may hold.
    pub(super) fn is_truncated(&self) -> bool {
        self.ready.len() + self.not_ready.len() > self.options.capacity
    }

    /// The addresses that the object should have, ready and not ready, as [`truncate`](super::capacity::truncate) selects them
    /// of one subset.
    pub(super) fn found(&self) -> (Found<'_>, Found<'_>) {
        let ready = self.ready.len().min(self.options.capacity);
        let not_ready = self.not_ready.len().min(self.options.capacity - ready);
        (self.find(&self.ready, ready), self.find(&self.not_ready, not_ready))
    }

    /// The first addresses of a set, from `fresh` or else from the base, whose lists are sorted as the set is.
    fn find(&self, set: &BTreeSet<Address>, count: usize) -> Found<'_> {
        let subset = self.object.base.subset();
        let lists =
            subset.map_or([&[][..], &[][..]], |one| [&one.addresses[..], &one.not_ready_addresses[..]]);
        let mut lists = lists.map(|list| list.iter().peekable());
        let find = |address: &Address| {
            if !self.object.fresh.is_empty()
                && let Some(fresh) = self.object.fresh.get(address)
            {
                return Ok(fresh);
            }
            for list in &mut lists {
                while let Some(one) = list.peek() {
                    match address.compare(one) {
                        Ordering::Less => break,
                        Ordering::Equal => return Ok(*one),
                        Ordering::Greater => list.next(),
                    };
                }
            }
            Err(address.clone())
        };
        set.iter().take(count).map(find).collect()
    }

    /// Sets an address that differs from that of the object in the store.
    pub(super) fn refresh(&mut self, address: Address, fresh: EndpointAddress) {
        self.object.fresh.insert(address, fresh);
    }

    /// Records that the object was planned as [`Self::found`] says, or that it stays as it is.
    pub(super) fn planned(&mut self, written: bool) {
        self.object.written = written;
        if !written {
            self.object.fresh.clear();
        }
    }
}

impl Object {
    fn stored(endpoints: &Arc<Endpoints>) -> Self {
        Self { base: Base::Stored(Arc::clone(endpoints)), fresh: BTreeMap::new(), written: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_endpoint_core_model::ObjectReference;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn places_are_sorted_as_the_identities_of_addresses(
            texts in prop::collection::vec(("[0-9a-f:.]{0,20}", "[ab]{0,2}"), 0..20),
        ) {
            let address = |(ip, uid): &(String, String)| EndpointAddress {
                ip: ip.as_str().into(),
                target_ref: Some(ObjectReference { uid: uid.as_str().into(), ..ObjectReference::default() }),
                ..EndpointAddress::default()
            };
            let addresses: Vec<EndpointAddress> = texts.iter().map(address).collect();
            for one in &addresses {
                for two in &addresses {
                    let (place, other) = (Address::of(one).unwrap(), Address::of(two).unwrap());
                    prop_assert_eq!(place.cmp(&other), one.identity().cmp(&two.identity()));
                    prop_assert_eq!(place.compare(two), one.identity().cmp(&two.identity()));
                }
            }
        }
    }
}
