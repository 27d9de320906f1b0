//! Kinds that the [reader](crate::reader) does not know.

use kube::api::{Api, ApiResource, DynamicObject};
use kube::{Client, Error};
use kube_endpoint_api_client::why_request_failed;
use kube_endpoint_explain::doctor::Unread;

/// The number of objects of a page, as in kubectl.
pub(crate) const PAGE: u32 = 500;

/// A kind of objects to read.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
}

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
