//! Reads a cluster page by page. It keeps no pod and no role, only what the report needs of them.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DynamicObject, ListParams, ObjectList};
use kube::{Client, Error};
use kube_endpoint_api_client::{says_not_there, why_request_failed};
use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_core_model::retirement::{LAST_THAT_RESOLVES, ServerVersion};
use kube_endpoint_explain::doctor::{Read, Unread};
use kube_endpoint_explain::retire::{
    Called, Configuration, ConfigurationRead, EndpointsObjects, Metrics, Pods, PrometheusObjects, Rbac,
    addresses_of_api_servers, api_servers, called_services,
};
use serde_json::Value;

use crate::progress::Progress;
use crate::reader::check_kind;
use crate::source::{ENDPOINTS, LEASES, MUTATING, PAGE, PODS, SERVICES, SLICES, Source, VALIDATING};

/// CustomResourceDefinitions may have a megabyte each.
const FEW: u32 = 20;
/// The number of concurrent requests.
const AT_ONCE: usize = 8;

const RBAC: &str = "rbac.authorization.k8s.io";
const MONITORING: &str = "monitoring.coreos.com";

const CLUSTER_ROLES: Source = Source::v1(RBAC, "ClusterRole", "clusterroles");
const ROLES: Source = Source::v1(RBAC, "Role", "roles");
const CLUSTER_ROLE_BINDINGS: Source = Source::v1(RBAC, "ClusterRoleBinding", "clusterrolebindings");
const ROLE_BINDINGS: Source = Source::v1(RBAC, "RoleBinding", "rolebindings");
const PROMETHEUSES: Source = Source::v1(MONITORING, "Prometheus", "prometheuses");
const PROMETHEUS_AGENTS: Source =
    Source { version: "v1alpha1", ..Source::v1(MONITORING, "PrometheusAgent", "prometheusagents") };
const SERVICE_MONITORS: Source = Source::v1(MONITORING, "ServiceMonitor", "servicemonitors");
/// The kinds that make API servers call Services.
const CALLERS: [Source; 4] = [
    Source::v1("apiregistration.k8s.io", "APIService", "apiservices"),
    VALIDATING,
    MUTATING,
    Source::v1("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions"),
];

/// A cluster, and the namespace of the report; `None` for all.
pub(super) struct Cluster<'c> {
    pub(super) client: &'c Client,
    pub(super) namespace: Option<&'c str>,
}

impl Cluster<'_> {
    /// Lists objects page by page into what `new` makes. If the list has changed so much that the
    /// server cannot continue it, this begins anew with a single page, as client-go does.
    async fn pages<T: Clone, A>(
        &self,
        kind: Source,
        limit: u32,
        list: impl AsyncFn(&ListParams) -> Result<ObjectList<T>, Error>,
        new: impl Fn() -> A,
        add: impl Fn(&mut A, &T) -> Result<(), Error>,
    ) -> Result<A, Error> {
        let progress = if kind.kind == PODS.kind { Progress::on_stderr() } else { Progress::hidden() };
        let mut params = ListParams::default().limit(limit);
        let (mut all, mut read) = (new(), 0);
        loop {
            let page = match list(&params).await {
                Err(Error::Api(status)) if status.code == 410 && params.continue_token.is_some() => {
                    params = ListParams::default();
                    (all, read) = (new(), 0);
                    continue;
                }
                page => page?,
            };
            check_kind(Some(&page.types), &["PartialObjectMetadataList", &format!("{}List", kind.kind)])?;
            page.items.iter().try_for_each(|item| add(&mut all, item))?;
            read += page.items.len();
            let next = page.metadata.continue_.filter(|token| !token.is_empty());
            let Some(token) = next else {
                progress.end();
                return Ok(all);
            };
            progress.page(kind.plural, read, page.metadata.remaining_item_count);
            params.continue_token = Some(token);
        }
    }

    /// Lists objects.
    async fn objects<A>(
        &self,
        kind: Source,
        limit: u32,
        namespace: Option<&str>,
        new: impl Fn() -> A,
        add: impl Fn(&mut A, &Value),
    ) -> Result<A, Error> {
        let api = kind.api(self.client, namespace);
        let list = async |params: &ListParams| api.list(params).await;
        self.pages(kind, limit, list, new, |all, object| {
            add(all, &serde_json::to_value(object).map_err(Error::SerdeError)?);
            Ok(())
        })
        .await
    }

    /// Lists the metadata of objects of the namespace of the report, or of all.
    async fn metadata<A>(
        &self,
        kind: Source,
        new: impl Fn() -> A,
        add: impl Fn(&mut A, &Value) -> Result<(), serde_json::Error>,
    ) -> Read<A> {
        let api = kind.api(self.client, self.namespace);
        let list = async |params: &ListParams| api.list_metadata(params).await;
        let read = self.pages(kind, PAGE, list, new, |all, object| {
            let metadata = serde_json::to_value(&object.metadata).map_err(Error::SerdeError)?;
            add(all, &metadata).map_err(Error::SerdeError)
        });
        read.await.map_err(|error| kind.unread("list", &error, self.namespace))
    }

    pub(super) async fn endpoints(&self) -> Read<EndpointsObjects> {
        self.metadata(ENDPOINTS, EndpointsObjects::default, EndpointsObjects::add).await
    }

    pub(super) async fn services(&self) -> Read<BTreeSet<ObjectKey>> {
        let key = |all: &mut BTreeSet<ObjectKey>, metadata: &Value| {
            let text = |field: &str| metadata[field].as_str().unwrap_or_default();
            all.insert(ObjectKey::new(text("namespace"), text("name")));
            Ok(())
        };
        self.metadata(SERVICES, BTreeSet::new, key).await
    }

    /// Asks the server for its metrics.
    pub(super) async fn metrics(&self) -> Read<Vec<Metrics>> {
        let request = http::Request::get("/metrics").body(Vec::new());
        let request = request.map_err(|error| Unread::Failed(error.to_string()))?;
        match self.client.request_text(request).await {
            Ok(text) => {
                let metrics = Metrics::read(&text);
                match metrics.is_of_api_server() {
                    true => Ok(vec![metrics]),
                    false => {
                        Err(Unread::Failed("the answer to /metrics has none of an API server".to_owned()))
                    }
                }
            }
            Err(Error::Api(status)) if status.code == 403 => {
                Err(Unread::Forbidden("get /metrics".to_owned()))
            }
            Err(error) => Err(Unread::Failed(why_request_failed(&error))),
        }
    }

    /// Counts the API servers: by the Leases that they hold, or else by their addresses.
    pub(super) async fn api_servers(&self) -> Read<usize> {
        let namespace = Some("kube-system");
        let params =
            ListParams::default().labels("apiserver.kubernetes.io/identity=kube-apiserver").limit(PAGE);
        let leases = LEASES.api(self.client, namespace).list(&params).await;
        let leases = leases.map_err(|error| LEASES.unread("list", &error, namespace));
        let json = |items: &[DynamicObject]| {
            items.iter().filter_map(|item| serde_json::to_value(item).ok()).collect()
        };
        if let Ok(found) = &leases {
            let found: Vec<Value> = json(&found.items);
            if let Some(count) = api_servers(&found) {
                return Ok(count);
            }
        }
        let slices = SLICES.api(self.client, Some("default"));
        let params = ListParams::default().labels("kubernetes.io/service-name=kubernetes").limit(PAGE);
        let found =
            slices.list(&params).await.map_err(|error| SLICES.unread("list", &error, Some("default")));
        let found: Vec<Value> = json(&found?.items);
        leases?;
        addresses_of_api_servers(&found)
            .ok_or_else(|| Unread::Failed("no Lease and no EndpointSlice tells".to_owned()))
    }

    /// Reads the pods of all namespaces, or else of the namespace of the report. Returns the reason
    /// why others were not read, too.
    pub(super) async fn pods(&self) -> (Read<Pods>, Read<()>) {
        let error = match self.objects(PODS, PAGE, None, Pods::default, Pods::add).await {
            Ok(pods) => return (Ok(pods), Ok(())),
            Err(error) => PODS.unread("list", &error, None),
        };
        let Some(namespace) = self.namespace.filter(|_| matches!(error, Unread::Forbidden(_))) else {
            return (Err(error), Ok(()));
        };
        match self.objects(PODS, PAGE, Some(namespace), Pods::default, Pods::add).await {
            Ok(pods) => (Ok(pods), Err(error)),
            Err(_) => (Err(error), Ok(())),
        }
    }

    pub(super) async fn rbac(&self) -> Read<Rbac> {
        let mut all = Rbac::default();
        for (kind, namespace) in [
            (CLUSTER_ROLES, None),
            (CLUSTER_ROLE_BINDINGS, None),
            (ROLES, self.namespace),
            (ROLE_BINDINGS, self.namespace),
        ] {
            let is_role = matches!(kind.kind, "ClusterRole" | "Role");
            let add = |all: &mut Rbac, object: &Value| {
                if is_role { all.add_role(object) } else { all.add_binding(object) }
            };
            let read = self.objects(kind, PAGE, namespace, Rbac::default, add).await;
            all.extend(read.map_err(|error| kind.unread("list", &error, namespace))?);
        }
        Ok(all)
    }

    /// Reads objects of prometheus-operator. A server that does not serve them has no such objects.
    pub(super) async fn prometheus_objects(&self) -> Read<PrometheusObjects> {
        let mut all = PrometheusObjects::default();
        for kind in [PROMETHEUSES, PROMETHEUS_AGENTS, SERVICE_MONITORS] {
            let add = |all: &mut PrometheusObjects, object: &Value| all.add(kind.kind, object);
            match self.objects(kind, PAGE, None, PrometheusObjects::default, add).await {
                Ok(read) => all.extend(read),
                Err(error) if says_not_there(&error) => {}
                Err(error) => return Err(kind.unread("list", &error, None)),
            }
        }
        Ok(all)
    }

    /// Reads the Services that API servers call, if those of this version read Endpoints for it.
    pub(super) async fn called_services(&self, version: &Read<ServerVersion>) -> Read<Vec<Called>> {
        let mut all = Vec::new();
        if version.as_ref().is_ok_and(|version| *version > LAST_THAT_RESOLVES) {
            return Ok(all);
        }
        for kind in CALLERS {
            let add = |all: &mut Vec<Called>, object: &Value| all.extend(called_services(kind.kind, object));
            match self.objects(kind, FEW, None, Vec::new, add).await {
                Ok(read) => all.extend(read),
                Err(error) if says_not_there(&error) => {}
                Err(error) => return Err(kind.unread("list", &error, None)),
            }
        }
        Ok(all)
    }

    /// Reads the configurations of Prometheus servers.
    pub(super) async fn configurations(&self, all: Vec<Configuration>) -> Vec<ConfigurationRead> {
        let read = all.into_iter().map(async |configuration| {
            let text = self.configuration(&configuration).await;
            ConfigurationRead { configuration, text }
        });
        stream::iter(read).buffered(AT_ONCE).collect().await
    }

    async fn configuration(&self, configuration: &Configuration) -> Read<String> {
        let (text, kind, object, key) = match configuration {
            Configuration::ConfigMap { object, key } => {
                let api = Api::<ConfigMap>::namespaced(self.client.clone(), &object.namespace);
                let got = api.get_opt(&object.name).await;
                (
                    got.map(|got| got?.data?.remove(key)),
                    Source::v1("", "ConfigMap", "configmaps"),
                    object,
                    key,
                )
            }
            Configuration::Secret { object, key } => {
                let api = Api::<Secret>::namespaced(self.client.clone(), &object.namespace);
                let got = api.get_opt(&object.name).await;
                let text = got.map(|got| String::from_utf8(got?.data?.remove(key)?.0).ok());
                (text, Source::v1("", "Secret", "secrets"), object, key)
            }
            Configuration::Operator | Configuration::Elsewhere(_) => return Ok(String::new()),
        };
        let text = text.map_err(|error| kind.unread("get", &error, Some(&object.namespace)))?;
        text.ok_or_else(|| Unread::Failed(format!("{} {object} has no text in the key {key}", kind.kind)))
    }
}
