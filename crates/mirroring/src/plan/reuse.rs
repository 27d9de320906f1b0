//! Replaces a create and a delete by one update.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use kube_endpoint_core_model::{AddressType, EndpointSlice, Writes};

use super::object::in_place_of;

/// Replaces pairs of a create and a delete of the same address type, which is immutable, by
/// updates. Upstream's `recycleSlices` may pair slices of one address type and drop the create of
/// the other.
pub(super) fn reuse_deleted_slices(writes: Writes<EndpointSlice>) -> Writes<EndpointSlice> {
    let mut deleted: BTreeMap<AddressType, VecDeque<Arc<EndpointSlice>>> = BTreeMap::new();
    for slice in writes.delete {
        deleted.entry(slice.address_type).or_default().push_back(slice);
    }
    let (mut create, mut update) = (Vec::new(), writes.update);
    for slice in writes.create {
        match deleted.get_mut(&slice.address_type).and_then(VecDeque::pop_front) {
            Some(old) => update.push(in_place_of(&old, slice)),
            None => create.push(slice),
        }
    }
    Writes { create, update, delete: deleted.into_values().flatten().collect() }
}
