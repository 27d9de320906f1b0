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
//! - only when the Service was seen to lack a selector at, or after, the version of the slice. It may have got one back,
//!   and the slice may have been written for it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_api_writer::{FailedWrite, Operation};
use kube_endpoint_core_model::well_known::ENDPOINTSLICE_CONTROLLER;
use kube_endpoint_core_model::{AddressType, EndpointSlice, Service};
use kube_endpoint_informer::Kind;

use super::Shared;

/// How long to wait for the cache to show Services as they were when a slice was written. Without other news a bookmark
/// tells, once a minute.
const RECHECK: Duration = Duration::from_secs(10);

/// Whether a slice is the endpointslice controller's.
pub(super) fn is_made_of_pods(slice: &EndpointSlice) -> bool {
    slice.is_managed_by(ENDPOINTSLICE_CONTROLLER)
}

impl Shared {
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
        service: &Service,
        orphans: Vec<Arc<EndpointSlice>>,
        mirrored: &BTreeSet<AddressType>,
    ) -> Result<(), FailedWrite> {
        let seen = self.cluster.position(Kind::Services);
        let (settled, recent): (Vec<_>, Vec<_>) = orphans
            .into_iter()
            .filter(|orphan| mirrored.contains(&orphan.address_type))
            .partition(|orphan| orphan.metadata.resource_version <= seen);
        for orphan in settled {
            tracing::info!(
                service = %service.key, slice = %orphan.metadata.name,
                "deleting a slice that was made of pods: the Service has no selector any more and its Endpoints are mirrored"
            );
            self.writer.delete::<EndpointSlice>(&service.key, &orphan.key(), &orphan.metadata.uid).await?;
            self.metrics.wrote(Operation::Delete);
        }
        if !recent.is_empty() {
            self.queue.add_after(service.key.clone(), RECHECK);
        }
        Ok(())
    }
}
