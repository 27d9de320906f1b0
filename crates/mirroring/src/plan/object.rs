//! Makes mirrored slices with their metadata, and compares an existing slice with the desired one.

use std::collections::BTreeSet;

use kube_endpoint_core_model::slice_labels::name_prefix;
use kube_endpoint_core_model::well_known::{
    ANNOTATION_LAST_APPLIED, ANNOTATION_TRIGGER_TIME, LABEL_HEADLESS, LABEL_MANAGED_BY, LABEL_SERVICE_NAME,
    MIRRORING_CONTROLLER,
};
use kube_endpoint_core_model::{EndpointSlice, Endpoints, ObjectMeta, OwnerReference, Service, StringMap};

use super::desired::EndpointsByIdentity;
use super::{Group, PlanOptions};

/// The metadata that all slices of one Endpoints object have.
pub(super) struct Template<'a> {
    endpoints: &'a Endpoints,
    labels: StringMap,
    annotations: StringMap,
}

/// The differences between an existing slice and the desired one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) added: usize,
    pub(super) updated: usize,
    pub(super) removed: usize,
    /// True if labels, annotations or owner differ.
    pub(super) metadata: bool,
}

impl Changes {
    /// Returns the number of changes. Zero means that the plan need not write the slice.
    pub(super) fn cost(self) -> usize {
        self.added + self.updated + self.removed + usize::from(self.metadata)
    }
}

impl<'a> Template<'a> {
    /// Returns the metadata for slices of `endpoints`. It copies the labels, except perhaps the
    /// headless one ([`PlanOptions::headless_label_repair`]); the labels with the Service's and the
    /// controller's name take precedence. It copies the annotations except for the trigger time,
    /// which is that of another object, and the one that `kubectl apply` writes.
    pub(super) fn of(service: &Service, endpoints: &'a Endpoints, options: &PlanOptions) -> Self {
        let metadata = &endpoints.metadata;
        // Slices of a headless Service keep the label of the Endpoints: kube-proxy ignores the
        // Service itself.
        let labels = if options.headless_label_repair && !service.is_headless() {
            metadata.labels.without(LABEL_HEADLESS)
        } else {
            metadata.labels.clone()
        };
        Self {
            endpoints,
            labels: labels
                .with(LABEL_SERVICE_NAME, metadata.name.clone())
                .with(LABEL_MANAGED_BY, MIRRORING_CONTROLLER),
            annotations: metadata
                .annotations
                .without(ANNOTATION_TRIGGER_TIME)
                .without(ANNOTATION_LAST_APPLIED),
        }
    }

    /// Returns a slice to create, with `generateName` and no name.
    pub(super) fn new_slice(&self, group: Group, wanted: EndpointsByIdentity) -> EndpointSlice {
        let owner = &self.endpoints.metadata;
        let metadata = ObjectMeta {
            generate_name: name_prefix(&owner.name).into(),
            namespace: owner.namespace.clone(),
            labels: self.labels.clone(),
            annotations: self.annotations.clone(),
            owner_references: vec![OwnerReference::controller("v1", "Endpoints", &owner.name, &owner.uid)],
            ..ObjectMeta::default()
        };
        let (address_type, ports) = group;
        EndpointSlice {
            metadata,
            address_type,
            endpoints: wanted.into_values().collect(),
            ports: ports.ports().to_vec(),
        }
    }

    /// Returns a slice that replaces an existing one.
    pub(super) fn replacement(
        &self,
        existing: &EndpointSlice,
        group: Group,
        wanted: EndpointsByIdentity,
    ) -> EndpointSlice {
        in_place_of(existing, self.new_slice(group, wanted))
    }

    /// Compares an existing slice of the same group with the desired endpoints.
    pub(super) fn changes(&self, existing: &EndpointSlice, wanted: &EndpointsByIdentity) -> Changes {
        let metadata = &existing.metadata;
        // Upstream compares with the labels of the Endpoints. If these contain a label that it sets
        // itself on slices, it writes at every sync.
        let mut changes = Changes {
            metadata: metadata.labels != self.labels
                || metadata.annotations != self.annotations
                || !self.owns(existing),
            ..Changes::default()
        };
        let mut found = BTreeSet::new();
        for endpoint in &existing.endpoints {
            let identity = endpoint.identity();
            match wanted.get(&identity) {
                Some(wanted) if !found.contains(&identity) => {
                    changes.updated += usize::from(!wanted.equal_beyond_identity(endpoint));
                    found.insert(identity);
                }
                // The endpoint is not wanted, or there twice. Upstream counts the second one as the
                // match of a missing endpoint.
                _ => changes.removed += 1,
            }
        }
        changes.added = wanted.len() - found.len();
        changes
    }

    /// Returns true if the Endpoints object is an owner, and no earlier object of its name is one
    /// (upstream `needRebuildExistingSlices`). Upstream takes a slice without an owner for its own.
    fn owns(&self, existing: &EndpointSlice) -> bool {
        let own = &self.endpoints.metadata;
        let owners = &existing.metadata.owner_references;
        let mut of_this_name = owners.iter().filter(|it| *it.kind == *"Endpoints" && it.name == own.name);
        of_this_name.clone().any(|owner| owner.uid == own.uid)
            && of_this_name.all(|owner| owner.uid == own.uid)
    }
}

/// Returns a slice with the name, uid, version and finalizers of an existing one of the same
/// address type. So the API server refuses the update if another client wrote the slice in between.
pub(super) fn in_place_of(existing: &EndpointSlice, slice: EndpointSlice) -> EndpointSlice {
    let ObjectMeta { labels, annotations, owner_references, .. } = slice.metadata;
    let metadata = ObjectMeta { labels, annotations, owner_references, ..existing.metadata.clone() };
    EndpointSlice { metadata, ..slice }
}
