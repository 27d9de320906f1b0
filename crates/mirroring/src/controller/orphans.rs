//! Slices that were made of pods, for a Service that has no selector any more.
//!
//! The endpointslice controller leaves them behind, and nobody maintains them; meanwhile the Endpoints that the Service
//! had are mirrored, and clients see both. They can go when what replaces them is there, which is decided here:
//!
//! - only those that belong to the very Service, by uid;
//! - only while its Endpoints are mirrored, and all mirrored slices exist in the cache and were brought up to date;
//! - only those of an address type that is mirrored. Endpoints hold one family of a dual-stack Service; its slices of
//!   the other are all that clients of that family have. Nor do empty Endpoints take the last endpoints from anybody:
//!   they may be what a user has not got round to filling;
//! - only when the API server itself says that the Service lacks a selector, and only in the version that was seen before
//!   it was asked. The Service may have got a selector back, and the slice may have been written for it; the cache of
//!   Services may lag behind that of slices, and versions of different kinds need not compare.

use kube_endpoint_api_writer::{Deleted, FailedWrite, Operation};
use kube_endpoint_controller_runtime::Runtime;
use kube_endpoint_core_model::well_known::ENDPOINTSLICE_CONTROLLER;
use kube_endpoint_core_model::{AddressType, EndpointSlice, Service};
use std::collections::BTreeSet;
use std::sync::Arc;

use super::MirroringReconciler;

/// Whether a slice is the endpointslice controller's.
pub(super) fn is_made_of_pods(slice: &EndpointSlice) -> bool {
    slice.is_managed_by(ENDPOINTSLICE_CONTROLLER)
}

type Cx = Runtime<MirroringReconciler>;

impl MirroringReconciler {
    /// Those among a Service's slices that were made of pods, if it has no selector any more.
    pub(super) fn orphans(
        &self,
        service: &Service,
        slices: &[Arc<EndpointSlice>],
    ) -> Vec<Arc<EndpointSlice>> {
        if !self.options.orphaned_slice_cleanup || service.selector.is_some() {
            return Vec::new();
        }
        let orphaned = |slice: &&Arc<EndpointSlice>| is_made_of_pods(slice) && slice.is_owned_by(service);
        slices.iter().filter(orphaned).cloned().collect()
    }

    /// Deletes what `mirrored`, the slices that now exist for the Endpoints, replaces.
    pub(super) async fn delete_orphans(
        &self,
        runtime: &Cx,
        service: &Service,
        orphans: Vec<Arc<EndpointSlice>>,
        mirrored: &BTreeSet<AddressType>,
    ) -> Result<(), Vec<FailedWrite>> {
        let replaced: Vec<_> =
            orphans.into_iter().filter(|orphan| mirrored.contains(&orphan.address_type)).collect();
        let Some(first) = replaced.first() else { return Ok(()) };
        let failed = |error| vec![FailedWrite { operation: Operation::Delete, object: first.key(), error }];
        let asked = runtime.writer().writer().service(&service.key).await.map_err(failed)?;
        // Otherwise the cache will tell soon, and start a sync.
        if !asked.is_some_and(|asked| asked.uid == service.uid && asked.selector.is_none()) {
            return Ok(());
        }
        let mut failures = Vec::new();
        for orphan in replaced {
            tracing::info!(
                service = %service.key, slice = %orphan.metadata.name,
                "deleting a slice that was made of pods: the Service has no selector any more and its Endpoints are mirrored"
            );
            match runtime.writer().delete_unchanged(&service.key, &*orphan).await {
                Ok(deleted) => {
                    self.metrics.wrote(Operation::Delete);
                    if deleted == Deleted::Before {
                        runtime.wait_for_deletion(&service.key);
                    }
                }
                Err(failed) => {
                    let ends = failed.error.ends_deletes();
                    failures.push(failed);
                    if ends {
                        break;
                    }
                }
            }
        }
        if failures.is_empty() { Ok(()) } else { Err(failures) }
    }
}
