//! Packing: which endpoints stay where they are, how many each slice takes in, how many new slices there are. Sizes are
//! settled here, as upstream's `reconcileByPortMapping` settles them; who goes where is [`super::placing`]'s.

use std::cmp::Reverse;
use std::sync::Arc;

use kube_endpoint_core_model::port::PortSet;
use kube_endpoint_core_model::{EndpointSlice, IpFamily, Service, slice_labels};

use super::matching::ByName;
use super::pods::{Candidate, Candidates};

/// What becomes of an existing slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It stays as it is.
    Unchanged,
    /// It is written anew, in the same group.
    Update,
    /// It is deleted.
    Delete,
    /// It would be deleted, but its name serves a new slice, the one of this index.
    Recycle(usize),
}

/// An existing slice of the family at hand.
pub(super) struct Current<'a> {
    pub(super) slice: &'a Arc<EndpointSlice>,
    /// Whether this very Service owns it; another of the same name may have, before.
    pub(super) owned: bool,
    /// The group of its ports, when it is owned and some pod has these ports.
    pub(super) group: Option<usize>,
    pub(super) fate: Fate,
    /// Endpoints that stay, as (index of the endpoint, index of the candidate).
    pub(super) kept: Vec<(usize, usize)>,
    /// Candidates that come.
    pub(super) received: Vec<usize>,
    /// Whether the endpoints that stay have to be built anew.
    pub(super) rebuild: bool,
    /// Whether the labels are to be written as the Service's are.
    pub(super) relabel: bool,
}

impl Current<'_> {
    /// How many endpoints it holds after the plan.
    pub(super) fn len(&self) -> usize {
        self.kept.len() + self.received.len()
    }
}

/// A slice to come.
#[derive(Default)]
pub(super) struct New {
    /// None for the placeholder, which has no ports and no endpoints.
    pub(super) group: Option<usize>,
    pub(super) received: Vec<usize>,
    /// The existing slice under whose name it is written, if any.
    pub(super) recycles: Option<usize>,
}

/// A slice that takes in candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiver {
    Current(usize),
    New(usize),
}

/// A candidate that is not kept in an existing slice that names its pod.
pub(super) struct Leaving {
    pub(super) slice: usize,
    pub(super) candidate: usize,
    /// Whether the endpoint that goes is ready.
    pub(super) ready: bool,
}

/// The slices of one family, on their way from what is to what shall be.
pub(super) struct Packing<'a, 'c> {
    pub(super) family: IpFamily,
    pub(super) capacity: usize,
    pub(super) candidates: &'c [Candidate<'a>],
    /// By name.
    pub(super) current: Vec<Current<'a>>,
    pub(super) new: Vec<New>,
    pub(super) leaving: Vec<Leaving>,
    /// By group, candidates that no slice keeps.
    pub(super) unplaced: Vec<Vec<usize>>,
    /// By group, who takes in how many of them.
    pub(super) receivers: Vec<Vec<(Receiver, usize)>>,
    /// By group, how many candidates have an address of the family.
    pub(super) wanted: Vec<usize>,
    pub(super) removed: usize,
}

impl<'a, 'c> Packing<'a, 'c> {
    /// Packs one family into existing and new slices; `slices` are those of the family, by name.
    pub(super) fn new(
        all: &'c Candidates<'a>,
        family: IpFamily,
        service: &Service,
        slices: Vec<&'a Arc<EndpointSlice>>,
        capacity: usize,
    ) -> Self {
        let groups = all.groups.len();
        let mut packing = Self {
            family,
            capacity,
            candidates: &all.list,
            current: Vec::with_capacity(slices.len()),
            new: Vec::new(),
            leaving: Vec::new(),
            unplaced: vec![Vec::new(); groups],
            receivers: vec![Vec::new(); groups],
            wanted: vec![0; groups],
            removed: 0,
        };
        let mut placed = vec![false; all.list.len()];
        let mut by_name = ByName::new(&all.list);
        for slice in slices {
            let owned = slice.is_owned_by(service);
            let group = if owned { all.group_of.get(&PortSet::new(&slice.ports)).copied() } else { None };
            packing.keep(slice, owned, group, service, &mut by_name, &mut placed);
        }
        for (index, candidate) in all.list.iter().enumerate() {
            let Some(wanted) =
                packing.wanted.get_mut(candidate.group).filter(|_| candidate.has_address(family))
            else {
                continue;
            };
            *wanted += 1;
            if !placed.get(index).copied().unwrap_or(true)
                && let Some(unplaced) = packing.unplaced.get_mut(candidate.group)
            {
                unplaced.push(index);
            }
        }
        for group in 0..groups {
            packing.make_room(group);
        }
        packing
    }

    /// Decides which endpoints of an existing slice stay.
    fn keep(
        &mut self,
        slice: &'a Arc<EndpointSlice>,
        owned: bool,
        group: Option<usize>,
        service: &Service,
        by_name: &mut ByName<'_, 'a>,
        placed: &mut [bool],
    ) {
        let at = self.current.len();
        let mut kept = Vec::with_capacity(if group.is_some() { slice.endpoints.len() } else { 0 });
        let mut all_agree = true;
        if owned {
            for (position, endpoint) in slice.endpoints.iter().enumerate() {
                let Some(index) = by_name.find(endpoint) else { continue };
                let (Some(candidate), Some(placed)) = (self.candidates.get(index), placed.get_mut(index))
                else {
                    continue;
                };
                if Some(candidate.group) == group && !*placed && candidate.is(endpoint, self.family) {
                    *placed = true;
                    all_agree &= candidate.agrees_with(endpoint);
                    kept.push((position, index));
                } else {
                    let ready = endpoint.conditions.ready != Some(false);
                    self.leaving.push(Leaving { slice: at, candidate: index, ready });
                }
            }
        }
        let rebuild = !all_agree || kept.len() != slice.endpoints.len();
        let relabel = slice_labels::differ_from_service(&slice.metadata.labels, service);
        let fate = match (group, rebuild) {
            (None, _) => Fate::Delete,
            (Some(_), true) if kept.is_empty() => Fate::Delete,
            (Some(_), true) => Fate::Update,
            (Some(_), false) if relabel => Fate::Update,
            (Some(_), false) => Fate::Unchanged,
        };
        if group.is_some() {
            self.removed += slice.endpoints.len() - kept.len();
        }
        self.current.push(Current {
            slice,
            owned,
            group,
            fate,
            kept,
            received: Vec::new(),
            rebuild,
            relabel: relabel || rebuild,
        });
    }

    /// Decides how many candidates each slice of a group takes in: first those that are written anyway, the fullest first;
    /// then the one unchanged slice that is fullest with what is left; else new ones.
    fn make_room(&mut self, group: usize) {
        let mut left = self.unplaced.get(group).map_or(0, Vec::len);
        if left == 0 {
            return;
        }
        let capacity = self.capacity;
        let slices = |fate: Fate| {
            let of_group =
                move |(_, one): &(usize, &Current<'a>)| one.group == Some(group) && one.fate == fate;
            self.current.iter().enumerate().filter(of_group).map(|(index, one)| (index, one.kept.len()))
        };
        let mut receivers = Vec::new();
        let mut updates: Vec<(usize, usize)> = slices(Fate::Update).collect();
        updates.sort_by_key(|(_, len)| Reverse(*len));
        for (index, len) in updates {
            let taken = left.min(capacity.saturating_sub(len));
            if taken > 0 {
                receivers.push((Receiver::Current(index), taken));
                left -= taken;
            }
        }
        let mut filled = None;
        while left > 0 {
            if left < capacity {
                let fits = slices(Fate::Unchanged).filter(|(_, len)| left + len <= capacity);
                // Of several that are equally full, the first by name.
                filled = fits.max_by_key(|(index, len)| (*len, Reverse(*index))).map(|(index, _)| index);
                if let Some(index) = filled {
                    receivers.push((Receiver::Current(index), left));
                    break;
                }
            }
            let taken = left.min(capacity);
            receivers.push((Receiver::New(self.new.len()), taken));
            self.new.push(New { group: Some(group), ..New::default() });
            left -= taken;
        }
        if let Some(filled) = filled.and_then(|index| self.current.get_mut(index)) {
            filled.fate = Fate::Update;
        }
        if let Some(of_group) = self.receivers.get_mut(group) {
            *of_group = receivers;
        }
    }
}
