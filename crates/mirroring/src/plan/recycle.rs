//! A slice to create and one to delete: one to update instead.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use kube_endpoint_core_model::{AddressType, EndpointSlice};

use super::Plan;
use super::object::in_place_of;

/// Turns pairs of creates and deletes of one address type, which cannot change, into updates (upstream `recycleSlices`,
/// which may recycle for one address type and drop the create of another).
pub(super) fn recycle(plan: &mut Plan) {
    let mut spare: BTreeMap<AddressType, VecDeque<Arc<EndpointSlice>>> = BTreeMap::new();
    for slice in std::mem::take(&mut plan.delete) {
        spare.entry(slice.address_type).or_default().push_back(slice);
    }
    for slice in std::mem::take(&mut plan.create) {
        match spare.get_mut(&slice.address_type).and_then(VecDeque::pop_front) {
            Some(old) => plan.update.push(in_place_of(&old, slice)),
            None => plan.create.push(slice),
        }
    }
    plan.delete = spare.into_values().flatten().collect();
}
