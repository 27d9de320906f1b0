//! Reads what `doctor` and `retire` need, each part by itself: why one was not read is a part of
//! their reports.

use anyhow::bail;
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, ObjectList};
use kube::{Client, Error};
use kube_endpoint_api_client::{says_not_there, why_request_failed};
use kube_endpoint_explain::doctor::{Instance, Read, Unread};
use serde_json::Value;

use crate::pages::{List, PAGE, check_kind};
use crate::progress::Progress;

/// The namespace of controllers.
pub(crate) const SYSTEM: &str = "kube-system";

/// A kind of objects to read.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
}

pub(crate) const EVENTS: Source = Source::v1("", "Event", "events");
pub(crate) const LEASES: Source = Source::v1("coordination.k8s.io", "Lease", "leases");
pub(crate) const PODS: Source = Source::v1("", "Pod", "pods");
pub(crate) const SERVICES: Source = Source::v1("", "Service", "services");
pub(crate) const ENDPOINTS: Source = Source::v1("", "Endpoints", "endpoints");
pub(crate) const SLICES: Source = Source::v1("discovery.k8s.io", "EndpointSlice", "endpointslices");
pub(crate) const VALIDATING: Source = Source::v1(
    "admissionregistration.k8s.io",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
);
pub(crate) const MUTATING: Source = Source::v1(
    "admissionregistration.k8s.io",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
);

impl Source {
    /// A kind of version v1 of a group; the core group has no name.
    pub(crate) const fn v1(group: &'static str, kind: &'static str, plural: &'static str) -> Self {
        Self { group, version: "v1", kind, plural }
    }

    /// Returns the API of the objects of a namespace, or of all.
    pub(crate) fn api(self, client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
        let Self { group, version, kind, plural } = self;
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version,
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        }
    }

    /// Reads a page of objects.
    pub(crate) async fn page(
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
    pub(crate) async fn page_if_served(self, client: &Client) -> Read<Vec<Value>> {
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
    pub(crate) async fn first(self, client: &Client, limit: u32) -> Read<Page> {
        let page = self.api(client, None).list_metadata(&ListParams::default().limit(limit)).await;
        let checked = page.and_then(|page| {
            check_kind(Some(&page.types), &["PartialObjectMetadataList", &format!("{}List", self.kind)])?;
            Page::of(&page).map_err(Error::SerdeError)
        });
        checked.map_err(|error| self.unread("list", &error, None))
    }

    /// Reads metadata page by page into what `new` makes: at most some `pages`, or all.
    pub(crate) async fn metadata<A>(
        self,
        client: &Client,
        namespace: Option<&str>,
        pages: Option<u32>,
        new: impl Fn() -> A,
        mut add: impl FnMut(&mut A, Page) -> Result<(), serde_json::Error>,
    ) -> Read<A> {
        let (api, params) = (self.api(client, namespace), ListParams::default());
        let list = List { api, kind: self.kind, plural: self.plural, params, pages };
        let add = |all: &mut A, page: ObjectList<_>| {
            Page::of(&page).and_then(|page| add(all, page)).map_err(Error::SerdeError)
        };
        let read = list.metadata(&Progress::hidden(), new, add).await;
        read.map_err(|error| self.unread("list", &error, namespace))
    }

    /// Returns the reason why a request for this kind failed.
    pub(crate) fn unread(self, verb: &str, error: &Error, namespace: Option<&str>) -> Unread {
        match error {
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
pub(crate) struct Page {
    pub(crate) items: Vec<Value>,
    /// The number of objects that follow, as the server estimates it.
    pub(crate) left: u64,
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

/// Reads the version of the server.
///
/// # Errors
///
/// An error if the server does not answer, or is no API server.
pub(crate) async fn version(client: &Client) -> anyhow::Result<Read<Info>> {
    match client.apiserver_version().await {
        // A server of something else may answer with an object, too.
        Ok(info) if info.git_version.is_empty() => bail!(
            "the answer to /version has no gitVersion; check the server in the kubeconfig, and whether a proxy answers in its place"
        ),
        Ok(info) => Ok(Ok(info)),
        Err(Error::Api(status)) if status.code == 403 => {
            Ok(Err(Unread::Forbidden("get /version".to_owned())))
        }
        Err(error) => bail!("the version of the server cannot be read: {}", why_request_failed(&error)),
    }
}

/// Reads pods that a selector selects.
pub(crate) async fn instances(
    client: &Client,
    namespace: Option<&str>,
    selector: &str,
) -> Read<Vec<Instance>> {
    let pods = PODS.page(client, namespace, ListParams::default().labels(selector)).await?;
    Ok(pods.iter().map(Instance::read).collect())
}

/// Reads the pods of kube-endpoint-manager and of its add-on: all, or else those of kube-system.
pub(crate) async fn managers(client: &Client) -> Read<Vec<Instance>> {
    let selector = "app.kubernetes.io/name=kube-endpoint-manager";
    match instances(client, None, selector).await {
        Err(Unread::Forbidden(_)) => instances(client, Some(SYSTEM), selector).await,
        pods => pods,
    }
}
