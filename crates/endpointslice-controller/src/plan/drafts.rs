//! From indexes to objects: builds the slices that are written, and no others.

use std::sync::Arc;

use kube_endpoint_core_model::{
    AddressType, EndpointSlice, ObjectMeta, OwnerReference, Service, StringMap, Text, slice_labels,
};

use super::matching::Builder;
use super::packing::{Current, New, Packing};
use super::pods::PortGroup;

/// A slice that is to be written.
pub(super) struct Draft<'a> {
    pub(super) slice: EndpointSlice,
    /// The existing slice that it replaces, if any.
    pub(super) replaces: Option<&'a Arc<EndpointSlice>>,
}

/// Builds drafts for one family of a Service.
pub(super) struct Drafter<'s> {
    service: &'s Service,
    address_type: AddressType,
    groups: &'s [PortGroup],
    builder: Builder,
    labels: StringMap,
    prefix: Text,
    owner: OwnerReference,
}

impl<'s> Drafter<'s> {
    pub(super) fn new(
        service: &'s Service,
        manager: &str,
        groups: &'s [PortGroup],
        packing: &Packing<'_, '_>,
    ) -> Self {
        Self {
            service,
            address_type: packing.family.into(),
            groups,
            builder: Builder::new(packing.family),
            labels: slice_labels::for_service(service, manager),
            prefix: slice_labels::name_prefix(&service.key.name).into(),
            owner: OwnerReference::controller("v1", "Service", &service.key.name, &service.uid),
        }
    }

    /// A new slice (upstream `newEndpointSlice`), possibly under the name of one that would be deleted.
    ///
    /// Upstream sends the new object under the old name with no version and no uid. Here both are kept, so that a write by
    /// somebody else in between is noticed; and finalizers, which are not ours to take away.
    pub(super) fn new_slice<'a>(&self, new: &New, packing: &Packing<'a, '_>) -> Draft<'a> {
        let replaces = new.recycles.and_then(|index| packing.current.get(index)).map(|one| one.slice);
        let old = replaces.map(|slice| &slice.metadata);
        let metadata = ObjectMeta {
            name: old.map(|old| old.name.clone()).unwrap_or_default(),
            generate_name: self.prefix.clone(),
            namespace: self.service.key.namespace.clone(),
            uid: old.map(|old| old.uid.clone()).unwrap_or_default(),
            resource_version: old.map(|old| old.resource_version).unwrap_or_default(),
            labels: self.labels.clone(),
            owner_references: vec![self.owner.clone()],
            finalizers: old.map(|old| old.finalizers.clone()).unwrap_or_default(),
            ..ObjectMeta::default()
        };
        let group = new.group.and_then(|group| self.groups.get(group));
        let candidates = new.received.iter().filter_map(|index| packing.candidates.get(*index));
        let slice = EndpointSlice {
            metadata,
            address_type: self.address_type,
            endpoints: candidates.map(|candidate| self.builder.build(candidate, None)).collect(),
            ports: group.map(|group| group.ports.clone()).unwrap_or_default(),
        };
        Draft { slice, replaces }
    }

    /// An existing slice with other endpoints or labels. All else stays, whoever wrote it.
    pub(super) fn updated<'a>(&self, one: &Current<'a>, packing: &Packing<'a, '_>) -> Draft<'a> {
        let old = one.slice;
        let mut endpoints = Vec::with_capacity(one.len());
        for (position, index) in &one.kept {
            match (old.endpoints.get(*position), packing.candidates.get(*index)) {
                (Some(endpoint), Some(candidate)) if one.rebuild => {
                    endpoints.push(self.builder.build(candidate, Some(endpoint)));
                }
                (Some(endpoint), _) => endpoints.push(endpoint.clone()),
                (None, _) => {}
            }
        }
        let received = one.received.iter().filter_map(|index| packing.candidates.get(*index));
        endpoints.extend(received.map(|candidate| self.builder.build(candidate, None)));
        let mut metadata = old.metadata.clone();
        if one.relabel {
            metadata.labels = self.labels.clone();
        }
        let slice =
            EndpointSlice { metadata, address_type: old.address_type, endpoints, ports: old.ports.clone() };
        Draft { slice, replaces: Some(old) }
    }
}

/// A copy of a slice whose endpoints and labels stay, for its hints to be changed.
pub(super) fn copied<'a>(slice: &'a Arc<EndpointSlice>) -> Draft<'a> {
    Draft { slice: EndpointSlice::clone(slice), replaces: Some(slice) }
}
