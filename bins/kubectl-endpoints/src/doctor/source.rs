//! Reads single pages of lists.

use kube::api::{Api, ApiResource, DynamicObject, ListParams, ObjectList};
use kube::{Client, Error};
use kube_endpoint_api_client::why_request_failed;
use kube_endpoint_explain::doctor::{Permission, Read, Unread};
use serde_json::Value;

use crate::reader::check_kind;

/// The number of objects of a page, as in kubectl.
pub(super) const PAGE: u32 = 500;

/// A kind that the reader of the other commands does not know.
#[derive(Clone, Copy)]
pub(super) struct Source {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
}

pub(super) const LEASES: Source = Source { group: "coordination.k8s.io", kind: "Lease", plural: "leases" };
pub(super) const PODS: Source = Source { group: "", kind: "Pod", plural: "pods" };
pub(super) const SERVICES: Source = Source { group: "", kind: "Service", plural: "services" };
pub(super) const EVENTS: Source = Source { group: "", kind: "Event", plural: "events" };
pub(super) const ENDPOINTS: Source = Source { group: "", kind: "Endpoints", plural: "endpoints" };
pub(super) const SLICES: Source =
    Source { group: "discovery.k8s.io", kind: "EndpointSlice", plural: "endpointslices" };
pub(super) const VALIDATING: Source = Source {
    group: "admissionregistration.k8s.io",
    kind: "ValidatingWebhookConfiguration",
    plural: "validatingwebhookconfigurations",
};
pub(super) const MUTATING: Source = Source {
    group: "admissionregistration.k8s.io",
    kind: "MutatingWebhookConfiguration",
    plural: "mutatingwebhookconfigurations",
};

impl Source {
    fn api(self, client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
        let Self { group, kind, plural } = self;
        let api_version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
        let resource = ApiResource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            api_version,
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        }
    }

    /// Returns the reason why a list of this kind failed.
    fn unread(self, error: &Error, namespace: Option<&str>) -> Unread {
        match error {
            Error::Api(status) if status.code == 403 => {
                let permission = Permission {
                    verb: "list",
                    group: self.group,
                    resource: self.plural,
                    name: "",
                    namespace: "",
                    function: "",
                };
                let place = namespace.map(|namespace| format!(" in {namespace}")).unwrap_or_default();
                Unread::Forbidden(format!("{permission}{place}"))
            }
            error => Unread::Failed(why_request_failed(error)),
        }
    }

    /// Reads a page of objects.
    pub(super) async fn page(
        self,
        client: &Client,
        namespace: Option<&str>,
        params: ListParams,
    ) -> Read<Vec<Value>> {
        let page = self.list(client, namespace, params).await;
        page.map_err(|error| self.unread(&error, namespace))
    }

    /// Reads a page of objects of all namespaces. The page is empty if the server does not serve
    /// the kind.
    pub(super) async fn page_if_served(self, client: &Client) -> Read<Vec<Value>> {
        match self.list(client, None, ListParams::default()).await {
            Err(Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            page => page.map_err(|error| self.unread(&error, None)),
        }
    }

    async fn list(
        self,
        client: &Client,
        namespace: Option<&str>,
        params: ListParams,
    ) -> Result<Vec<Value>, Error> {
        let page = self.api(client, namespace).list(&params.limit(PAGE)).await?;
        check_kind(Some(&page.types), &[&format!("{}List", self.kind)])?;
        page.items.iter().map(|item| serde_json::to_value(item).map_err(Error::SerdeError)).collect()
    }

    /// Reads a page of metadata.
    pub(super) async fn metadata(self, client: &Client, params: &ListParams) -> Result<Page, Unread> {
        let read = async || -> Result<Page, Error> {
            let page = self.api(client, None).list_metadata(params).await?;
            check_kind(Some(&page.types), &["PartialObjectMetadataList", &format!("{}List", self.kind)])?;
            Page::of(&page)
        };
        read().await.map_err(|error| self.unread(&error, None))
    }
}

/// A page of metadata.
pub(super) struct Page {
    pub(super) items: Vec<Value>,
    pub(super) next: Option<String>,
    /// The number of objects that follow, as the server estimates it.
    pub(super) left: u64,
}

impl Page {
    fn of<T: Clone + kube::Resource>(page: &ObjectList<T>) -> Result<Self, Error> {
        let items =
            page.items.iter().map(|item| serde_json::to_value(item.meta()).map_err(Error::SerdeError));
        let next = page.metadata.continue_.clone().filter(|token| !token.is_empty());
        let left = page.metadata.remaining_item_count.and_then(|left| left.try_into().ok());
        // Without an estimate, at least one follows.
        let left = left.unwrap_or(u64::from(next.is_some()));
        Ok(Self { items: items.collect::<Result<_, _>>()?, next, left })
    }
}
