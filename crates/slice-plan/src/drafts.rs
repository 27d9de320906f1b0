//! Last phase of packing: builds the slices to write.

use std::sync::Arc;

use kube_endpoint_core_model::{
    AddressType, EndpointSlice, IpFamily, ObjectMeta, OwnerReference, Service, StringMap, Text, slice_labels,
};

use super::index::{CandidateIndex, GroupIndex, Index, IndexVec};
use super::inputs::PlanInputs;
use super::matching::Builder;
use super::placing::{NewSlice, PlacedSlice};
use super::pods::{Candidate, Candidates, PortGroup};

/// A slice to write.
pub(super) struct Draft<'a> {
    pub(super) slice: EndpointSlice,
    /// The existing slice that it replaces, if any.
    pub(super) replaces: Option<&'a Arc<EndpointSlice>>,
}

/// Builds drafts for one family of a Service.
pub(super) struct Drafter<'i, 'a> {
    service: &'a Service,
    address_type: AddressType,
    candidates: &'i IndexVec<CandidateIndex, Candidate<'a>>,
    groups: &'i IndexVec<GroupIndex, PortGroup>,
    builder: Builder,
    labels: StringMap,
    prefix: Text,
    owner: OwnerReference,
}

impl<'i, 'a> Drafter<'i, 'a> {
    pub(super) fn new(inputs: &PlanInputs<'a>, candidates: &'i Candidates<'a>, family: IpFamily) -> Self {
        let service = inputs.service;
        Self {
            service,
            address_type: family.into(),
            candidates: &candidates.list,
            groups: &candidates.groups,
            builder: Builder::new(family),
            labels: slice_labels::for_service(service, &inputs.options.manager),
            prefix: slice_labels::name_prefix(&service.key.name).into(),
            owner: OwnerReference::controller("v1", "Service", &service.key.name, &service.uid),
        }
    }

    /// Builds a new slice (upstream `newEndpointSlice`). If it reuses the name of an existing
    /// slice, `replaces` is that slice.
    ///
    /// In this case upstream sends neither version nor uid. This keeps both, so that the API server
    /// refuses the update if another client wrote the slice in between. It also keeps finalizers,
    /// which belong to other controllers.
    pub(super) fn new_slice(&self, new: &NewSlice, replaces: Option<&'a Arc<EndpointSlice>>) -> Draft<'a> {
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
        // The stores keep the slice, so it gets no more memory than it needs.
        let mut endpoints = Vec::with_capacity(new.added.len());
        let candidates = new.added.iter().filter_map(|index| self.candidates.get(*index));
        endpoints.extend(candidates.map(|candidate| self.builder.build(candidate, None)));
        let slice = EndpointSlice {
            metadata,
            address_type: self.address_type,
            endpoints,
            ports: group.map(|group| group.ports.clone()).unwrap_or_default(),
        };
        Draft { slice, replaces }
    }

    /// Builds an existing slice with other endpoints or labels. Everything else stays as it is.
    pub(super) fn updated(&self, one: &PlacedSlice<'a>) -> Draft<'a> {
        let old = one.slice;
        let mut endpoints = Vec::with_capacity(one.len());
        for (at, candidate) in &one.kept {
            match (old.endpoints.get(at.position()), self.candidates.get(*candidate)) {
                (Some(endpoint), Some(candidate)) if one.rebuild => {
                    endpoints.push(self.builder.build(candidate, Some(endpoint)));
                }
                (Some(endpoint), _) => endpoints.push(endpoint.clone()),
                (None, _) => {}
            }
        }
        let added = one.added.iter().filter_map(|index| self.candidates.get(*index));
        endpoints.extend(added.map(|candidate| self.builder.build(candidate, None)));
        let mut metadata = old.metadata.clone();
        if one.relabel {
            metadata.labels = self.labels.clone();
        }
        let slice =
            EndpointSlice { metadata, address_type: old.address_type, endpoints, ports: old.ports.clone() };
        Draft { slice, replaces: Some(old) }
    }
}

/// Copies a slice in which only hints may change.
pub(super) fn copied<'a>(slice: &'a Arc<EndpointSlice>) -> Draft<'a> {
    Draft { slice: EndpointSlice::clone(slice), replaces: Some(slice) }
}
