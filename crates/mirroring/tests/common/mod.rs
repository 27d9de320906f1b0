//! A model of the API server that applies plans.

use std::sync::Arc;

use kube_endpoint_core_model::{EndpointSlice, ResourceVersion};
use kube_endpoint_mirroring::plan::Plan;

/// Carries out a plan, with the checks of an API server.
pub(crate) fn apply(mut slices: Vec<Arc<EndpointSlice>>, plan: &Plan) -> Vec<Arc<EndpointSlice>> {
    let mut written = Vec::new();
    for slice in &plan.writes.create {
        assert!(slice.metadata.name.is_empty() && !slice.metadata.generate_name.is_empty());
        assert!(slice.metadata.uid.is_empty() && slice.metadata.resource_version.is_none());
        let free = (0..).map(|number| format!("{}{number}", slice.metadata.generate_name)).find(|name| {
            slices.iter().chain(&written).all(|slice: &Arc<EndpointSlice>| *slice.metadata.name != **name)
        });
        let mut slice = slice.clone();
        slice.metadata.name = free.unwrap().into();
        slice.metadata.uid = slice.metadata.name.clone();
        slice.metadata.resource_version = ResourceVersion(1);
        written.push(Arc::new(slice));
    }
    slices.extend(written);
    for update in &plan.writes.update {
        let old = slices.iter_mut().find(|slice| slice.metadata.name == update.metadata.name).unwrap();
        assert_eq!(old.address_type, update.address_type, "the address type never changes");
        assert_eq!(old.metadata.uid, update.metadata.uid);
        assert_eq!(old.metadata.resource_version, update.metadata.resource_version);
        let mut new = update.clone();
        new.metadata.resource_version.0 += 1;
        *old = Arc::new(new);
    }
    for delete in &plan.writes.delete {
        let before = slices.len();
        slices.retain(|slice| slice.metadata.name != delete.metadata.name);
        assert_eq!(slices.len() + 1, before, "a slice is deleted once");
    }
    slices
}
