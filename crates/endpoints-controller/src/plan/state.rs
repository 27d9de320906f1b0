//! The state that a plan keeps for the next one.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use kube_endpoint_core_model::endpoints::{
    AddressList, EndpointAddress, EndpointSubset, EndpointsPort, Subsets,
};
use kube_endpoint_core_model::publish::UnreadableAnnotation;
use kube_endpoint_core_model::well_known::{ANNOTATION_OVER_CAPACITY, TRUNCATED};
use kube_endpoint_core_model::{Endpoints, Service, Text};

use super::change::labels_are_right;
use super::{Made, Plan, PlanInputs, PlanOptions};

/// The addresses of a Service after the writes of a plan. From them and the pods that have changed
/// since, [`PlanState::plan`] plans the next sync. A store that summarizes Endpoints does not hold
/// these addresses a second time. For each pod beyond the capacity the state holds address, uid and
/// name, some 60 bytes: any of them may have to take the place of another pod.
///
/// A plan leaves no state if the next plan may depend on more than changed pods: the pods have
/// several sets of ports; two of them have the same address and uid; the options are those of
/// upstream, which writes without a change; or the plan creates the object.
#[derive(Clone)]
pub struct PlanState {
    pub(super) service: Service,
    pub(super) options: PlanOptions,
    pub(super) warning: Option<UnreadableAnnotation>,
    pub(super) pod_ports: Vec<EndpointsPort>,
    pub(super) ports: Vec<EndpointsPort>,
    pub(super) ready: Addresses,
    pub(super) not_ready: Addresses,
    /// The object in the store that a plan last compared with the addresses.
    stored: Option<Arc<Endpoints>>,
    /// True if a plan has written the object since then.
    written: bool,
}

/// The addresses of the ready pods, or of the others.
#[derive(Clone, Default)]
pub(super) struct Addresses {
    /// Those in the object, sorted.
    pub(super) published: AddressList,
    /// Those beyond the capacity. They come after all that are published.
    beyond: BTreeSet<Address>,
}

impl Addresses {
    /// Splits sorted addresses: the first `published` ones are in the object, the others beyond the
    /// capacity. Returns `None` if one of the others has no known target.
    fn of(mut all: AddressList, published: usize) -> Option<Self> {
        let beyond = all.iter().skip(published).map(Address::of).collect::<Option<_>>()?;
        all.truncate(published);
        Some(Self { published: all, beyond })
    }

    pub(super) fn len(&self) -> usize {
        self.published.len() + self.beyond.len()
    }

    fn find(&self, place: &Address) -> Result<usize, usize> {
        self.published.binary_search_by(|one| place.compare(one).reverse())
    }

    pub(super) fn contains(&self, place: &Address) -> bool {
        self.find(place).is_ok() || self.beyond.contains(place)
    }

    /// Adds an address that is not among them yet.
    pub(super) fn insert(&mut self, place: Address, address: EndpointAddress) {
        let index = self.find(&place).unwrap_or_else(|index| index);
        if index < self.published.len() || self.beyond.is_empty() {
            self.published.insert(index, address);
        } else {
            self.beyond.insert(place);
        }
    }

    /// Removes an address. Returns the name of its pod.
    pub(super) fn remove(&mut self, place: &Address) -> Option<Text> {
        match self.find(place) {
            Ok(index) => self.published.remove(index)?.target_ref.map(|target| target.name),
            Err(_) => self.beyond.take(place).map(|removed| removed.name),
        }
    }

    /// Returns true if an address is beyond the capacity.
    pub(super) fn is_beyond(&self, place: &Address) -> bool {
        self.beyond.contains(place)
    }

    /// Publishes this number of addresses, or all if there are fewer. `make` makes one, by name of
    /// the pod. Returns the pods whose addresses this stops publishing, or `None` if `make` makes
    /// an address that differs from the kept one.
    pub(super) fn publish(
        &mut self,
        count: usize,
        mut make: impl FnMut(&Text) -> Option<EndpointAddress>,
    ) -> Option<Vec<Text>> {
        let mut no_longer = Vec::new();
        while self.published.len() > count {
            let place = Address::of(&self.published.pop()?)?;
            no_longer.push(place.name.clone());
            self.beyond.insert(place);
        }
        while self.published.len() < count
            && let Some(place) = self.beyond.pop_first()
        {
            // The pod may have changed since.
            let made = make(&place.name).filter(|made| Address::of(made).as_ref() == Some(&place))?;
            self.published.push(made);
        }
        Some(no_longer)
    }
}

/// The place of an address among others: by text, then by uid of the pod.
#[derive(Clone, Debug)]
pub(super) struct Address {
    ip: Ip,
    uid: Text,
    /// The name of the pod, which comparisons ignore.
    pub(super) name: Text,
}

/// The text of an IP address. Short ones, such as all of IPv4, need no allocation.
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

    /// Returns `None` if the target is not known.
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
    /// Returns the state after the writes of a plan. `existing` is the object that the plan got.
    pub(super) fn after(
        inputs: &PlanInputs<'_>,
        existing: Option<&Arc<Endpoints>>,
        made: Made,
        plan: &Plan,
    ) -> Option<Self> {
        let Made { full, pod_ports, pods } = made;
        let (Ok([all]), Some(pod_ports)) = (<[EndpointSubset; 1]>::try_from(full), pod_ports) else {
            return None;
        };
        let options = inputs.options;
        let writes_changes_only = options.keep_equal_truncated && options.ignore_reserved_labels;
        let EndpointSubset { addresses, not_ready_addresses, ports } = all;
        let (ready, not_ready) = (addresses.len(), not_ready_addresses.len());
        if !writes_changes_only || ready + not_ready != pods {
            return None;
        }
        let (ready, not_ready) = within(options.capacity, ready, not_ready);
        let mut state = Self {
            service: inputs.service.clone(),
            options: options.clone(),
            warning: plan.warning.clone(),
            pod_ports,
            ports,
            ready: Addresses::of(addresses, ready)?,
            not_ready: Addresses::of(not_ready_addresses, not_ready)?,
            stored: None,
            written: !plan.writes.update.is_empty(),
        };
        let existing = existing.filter(|existing| !existing.metadata.resource_version.is_none())?;
        (state.written || state.takes_over(existing)).then_some(state)
    }

    /// Takes over the object as the store has it now. Returns false if the object, the Service or
    /// the options differ from those of the last plan.
    pub(super) fn meets(&mut self, inputs: &PlanInputs<'_>, existing: &Arc<Endpoints>) -> bool {
        if self.options != *inputs.options || !self.service.same_for_controllers(inputs.service) {
            return false;
        }
        if self.stored.as_ref().is_some_and(|stored| Arc::ptr_eq(stored, existing)) {
            return !self.written;
        }
        self.takes_over(existing)
    }

    /// Takes over an object that the store shows now, if it is the planned one. The next plan would
    /// do the same; doing it now frees the object before.
    pub fn settle(&mut self, existing: &Arc<Endpoints>) {
        if self.written {
            self.takes_over(existing);
        }
    }

    /// Returns the subset that the object should have.
    pub(super) fn subset(&self) -> EndpointSubset {
        EndpointSubset {
            addresses: self.ready.published.clone(),
            not_ready_addresses: self.not_ready.published.clone(),
            ports: self.ports.clone(),
        }
    }

    /// Takes over an object that the store has. Returns false if a plan has to write it.
    fn takes_over(&mut self, existing: &Arc<Endpoints>) -> bool {
        let metadata = &existing.metadata;
        let annotated = metadata.annotations.get(ANNOTATION_OVER_CAPACITY).map(|value| &**value);
        let same = !metadata.resource_version.is_none()
            && annotated == self.is_truncated().then_some(TRUNCATED)
            && labels_are_right(&self.service, &metadata.labels, &self.options)
            && existing.subsets.summary().digest == Subsets::Listed(vec![self.subset()]).summary().digest;
        if same {
            self.stored = Some(Arc::clone(existing));
            self.written = false;
        }
        same
    }

    /// Returns the number of addresses, those beyond the capacity included.
    pub(super) fn len(&self) -> usize {
        self.ready.len() + self.not_ready.len()
    }

    /// Returns true if there are more addresses than an object may hold.
    pub(super) fn is_truncated(&self) -> bool {
        self.len() > self.options.capacity
    }

    /// Returns the numbers of addresses that the object should have, ready and not ready.
    pub(super) fn counts(&self) -> (usize, usize) {
        within(self.options.capacity, self.ready.len(), self.not_ready.len())
    }

    /// Records that a plan writes the object.
    pub(super) fn planned(&mut self) {
        self.written = true;
    }
}

/// Returns the numbers of ready and not ready addresses that fit, as
/// [`truncate`](super::capacity::truncate) computes them for one subset.
fn within(capacity: usize, ready: usize, not_ready: usize) -> (usize, usize) {
    let ready = ready.min(capacity);
    (ready, not_ready.min(capacity - ready))
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
