//! The kinds of objects that are read, and requests for them whose failure is a part of a report.

use std::fmt;

use kube::api::{Api, ApiResource, DynamicObject, ListParams, ObjectList};
use kube::{Client, Error};
use kube_endpoint_api_client::{says_not_there, why_request_failed};
use kube_endpoint_core_model::well_known::SELECTOR_GROUP;
use kube_endpoint_explain::doctor::{Read, Unread};
use serde_json::Value;

use crate::error::is_not_in_files;
use crate::pages::{List, PAGE, check_kind};

/// A kind of objects. Prints as the name of its resource, such as `pods`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The API group, or empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plural)
    }
}

impl Resource {
    /// The Services.
    pub const SERVICES: Self = Self::v1("", "Service", "services");
    /// The pods.
    pub const PODS: Self = Self::v1("", "Pod", "pods");
    /// The nodes.
    pub const NODES: Self = Self::v1("", "Node", "nodes");
    /// The EndpointSlices.
    pub const SLICES: Self = Self::v1("discovery.k8s.io", "EndpointSlice", "endpointslices");
    /// The Endpoints.
    pub const ENDPOINTS: Self = Self::v1("", "Endpoints", "endpoints");
    /// The events.
    pub const EVENTS: Self = Self::v1("", "Event", "events");
    /// The Leases.
    pub const LEASES: Self = Self::v1("coordination.k8s.io", "Lease", "leases");
    /// The namespaces.
    pub const NAMESPACES: Self = Self::v1("", "Namespace", "namespaces");
    /// The EndpointSelectors of the add-on.
    pub const ENDPOINT_SELECTORS: Self = Self {
        group: SELECTOR_GROUP,
        version: "v1alpha1",
        kind: "EndpointSelector",
        plural: "endpointselectors",
    };

    /// A kind of version v1 of a group; the core group has no name.
    pub const fn v1(group: &'static str, kind: &'static str, plural: &'static str) -> Self {
        Self::of(group, "v1", kind, plural)
    }

    pub(crate) const fn of(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self { group, version, kind, plural }
    }

    pub(crate) fn api_version(self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Returns the API of the objects of a namespace, or of all. Nodes and namespaces are in none,
    /// and so are objects of the namespace "".
    pub fn api(self, client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            api_version: self.api_version(),
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
        };
        let is_in_none = matches!(self, Self::NODES | Self::NAMESPACES);
        match namespace.filter(|namespace| !is_in_none && !namespace.is_empty()) {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        }
    }

    /// Reads a page of objects.
    pub async fn page(
        self,
        client: &Client,
        namespace: Option<&str>,
        params: ListParams,
    ) -> Read<Vec<Value>> {
        let page = self.list(client, namespace, params).await;
        page.map_err(|error| self.unread("list", &error, namespace))
    }

    /// Reads a page of objects of all namespaces. The page is empty if the server does not serve
    /// the kind.
    pub async fn page_if_served(self, client: &Client) -> Read<Vec<Value>> {
        match self.list(client, None, ListParams::default()).await {
            Err(error) if says_not_there(&error) => Ok(Vec::new()),
            page => page.map_err(|error| self.unread("list", &error, None)),
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

    /// Reads one page of metadata with at most `limit` objects.
    pub async fn first(self, client: &Client, limit: u32) -> Read<Page> {
        let page = self.api(client, None).list_metadata(&ListParams::default().limit(limit)).await;
        let checked = page.and_then(|page| {
            check_kind(Some(&page.types), &["PartialObjectMetadataList", &format!("{}List", self.kind)])?;
            Page::of(&page).map_err(Error::SerdeError)
        });
        checked.map_err(|error| self.unread("list", &error, None))
    }

    /// Reads metadata page by page into what `new` makes: at most some `pages`, or all.
    pub async fn metadata<A>(
        self,
        client: &Client,
        namespace: Option<&str>,
        pages: Option<u32>,
        new: impl Fn() -> A,
        mut add: impl FnMut(&mut A, Page) -> Result<(), serde_json::Error>,
    ) -> Read<A> {
        let (api, params) = (self.api(client, namespace), ListParams::default());
        let api_version = self.api_version();
        let list = List { api, api_version, kind: self.kind, plural: self.plural, params, pages };
        let add = |all: &mut A, page: ObjectList<_>| {
            Page::of(&page).and_then(|page| add(all, page)).map_err(Error::SerdeError)
        };
        let read = list.metadata(&(), new, add).await;
        read.map_err(|error| self.unread("list", &error, namespace))
    }

    /// Returns the reason why a request for this kind failed.
    pub fn unread(self, verb: &str, error: &Error, namespace: Option<&str>) -> Unread {
        match error {
            error if is_not_in_files(error) => Unread::Failed(why_request_failed(error)),
            Error::Api(status) if status.code == 403 => {
                let group = if self.group.is_empty() { String::new() } else { format!(".{}", self.group) };
                let place = namespace.map(|namespace| format!(" in {namespace}")).unwrap_or_default();
                Unread::Forbidden(format!("{verb} {}{group}{place}", self.plural))
            }
            error => Unread::Failed(why_request_failed(error)),
        }
    }
}

/// A page of metadata.
pub struct Page {
    pub items: Vec<Value>,
    /// The number of objects that follow, as the server estimates it.
    pub left: u64,
}

impl Page {
    fn of<T: Clone + kube::Resource>(page: &ObjectList<T>) -> Result<Self, serde_json::Error> {
        let items = page.items.iter().map(|item| serde_json::to_value(item.meta()));
        let has_more = page.metadata.continue_.as_ref().is_some_and(|token| !token.is_empty());
        let left = page.metadata.remaining_item_count.and_then(|left| left.try_into().ok());
        // Without an estimate, at least one follows.
        let left = left.unwrap_or(u64::from(has_more));
        Ok(Self { items: items.collect::<Result<_, _>>()?, left })
    }
}
