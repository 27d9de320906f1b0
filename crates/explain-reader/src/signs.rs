//! Reads the reasons why outputs are behind: the events about failed writes, and signs that the
//! controllers work. A user who may not read them learns less.

use std::collections::BTreeSet;

use kube::api::{ListParams, ObjectList};
use kube_endpoint_core_model::well_known::LABEL_SERVICE_NAME;
use kube_endpoint_core_model::{ObjectKey, Service};
use kube_endpoint_explain::doctor::{ADDON_LEASE, MANAGER_LEASE};
use kube_endpoint_explain::leftovers::OutputKind;
use kube_endpoint_explain::{Code, FAILED_WRITES, Objects};
use serde::Deserialize;

use crate::reader::json_of;
use crate::{PAGE, Reader, Resource};

/// The namespace of the Leases.
const SYSTEM: &str = "kube-system";

const DEFAULT: &str = "default";

const FAILED_CREATE: &str = "FailedToCreateEndpoint";

impl Reader {
    /// Reads the Leases of the controllers.
    async fn leases(&self, objects: &mut Objects) {
        let params = ListParams::default().limit(PAGE);
        if let Ok(leases) = self.api(Resource::LEASES, Some(SYSTEM)).list(&params).await {
            for lease in &leases.items {
                // A Lease that cannot be read tells nothing.
                drop(objects.add(json_of(Resource::LEASES, lease)));
            }
        }
    }

    /// Reads the Leases of kube-endpoint-manager and of its add-on in all namespaces. Who may not
    /// read them learns less.
    pub(crate) async fn manager_leases(&self, objects: &mut Objects) {
        let mut leases = Vec::new();
        for name in [MANAGER_LEASE, ADDON_LEASE] {
            let params = ListParams::default().fields(&format!("metadata.name={name}"));
            let Ok(found) = self.api(Resource::LEASES, None).list(&params).await else { return };
            leases.extend(found.items.iter().map(|lease| json_of(Resource::LEASES, lease)));
        }
        objects.note_manager_leases(&leases);
    }

    /// Reads the events of kube-controller-manager about Endpoints that it could not create: they
    /// are all in the namespace `default`.
    async fn add_failed_creates(&self, objects: &mut Objects, more: &str) {
        let fields = format!("reason={FAILED_CREATE}{more}");
        let _ =
            self.add(objects, Resource::EVENTS, Some(DEFAULT), ListParams::default().fields(&fields)).await;
    }

    /// Reads signs that the controllers work: the Leases, who wrote slices and Endpoints of other
    /// Services last, and if other Services have slices. It reads one page of each kind.
    pub async fn signs(&self, objects: &mut Objects, service: &ObjectKey) {
        let params = ListParams::default().limit(PAGE);
        self.leases(objects).await;
        if *service.namespace != *DEFAULT {
            self.add_failed_creates(objects, &format!(",involvedObject.name={}", service.name)).await;
        }
        let mut with_slices: BTreeSet<ObjectKey> = BTreeSet::new();
        let mut has_all = true;
        for (kind, output) in
            [(Resource::SLICES, OutputKind::EndpointSlice), (Resource::ENDPOINTS, OutputKind::Endpoints)]
        {
            let Ok(page) = self.api(kind, None).list_metadata(&params).await else {
                has_all = false;
                continue;
            };
            has_all &= kind != Resource::SLICES || is_all(&page);
            for metadata in page.items.iter().filter_map(|item| serde_json::to_value(&item.metadata).ok()) {
                let name = match kind {
                    Resource::SLICES => &metadata["labels"][LABEL_SERVICE_NAME],
                    _ => &metadata["name"],
                };
                let namespace = metadata["namespace"].as_str().unwrap_or_default();
                let of = ObjectKey::new(namespace, name.as_str().unwrap_or_default());
                if of != *service {
                    objects.note_write(output, &metadata);
                }
                if kind == Resource::SLICES {
                    with_slices.insert(of);
                }
            }
        }
        let services = self.api(Resource::SERVICES, None).list(&params).await;
        for other in services.iter().filter(|page| has_all && is_all(page)).flat_map(|page| &page.items) {
            let other = serde_json::to_value(other).ok().and_then(|json| Service::deserialize(&json).ok());
            if let Some(other) = other.filter(|other| other.key != *service) {
                objects.note_service(&other, with_slices.contains(&other.key));
            }
        }
    }

    /// Reads the events about failed writes, and the Leases.
    pub async fn failures(&self, objects: &mut Objects, namespace: Option<&str>) {
        self.leases(objects).await;
        for reason in FAILED_WRITES {
            let params = ListParams::default().fields(&format!("reason={reason}"));
            // Who may not read events learns less.
            let _ = self.add(objects, Resource::EVENTS, namespace, params).await;
        }
        if namespace.is_some_and(|namespace| namespace != DEFAULT) {
            self.add_failed_creates(objects, "").await;
        }
    }
}

/// Returns true if a page is the only one.
fn is_all<T: Clone>(page: &ObjectList<T>) -> bool {
    page.metadata.continue_.as_ref().is_none_or(String::is_empty)
}

/// Returns true if a finding with this code may have one of these causes.
pub fn may_tell_more(code: Code) -> bool {
    matches!(
        code,
        Code::SlicesBehind | Code::EndpointsBehind | Code::ClusterUnserved | Code::EndpointSelectorUnserved
    )
}
