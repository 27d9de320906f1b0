//! Reads what is around Services: workloads that make their pods, Gateways, and the Ingresses and
//! routes that lead to them. At most eight requests beside those about the Services.

use std::collections::BTreeSet;

use kube::Error;
use kube::api::ListParams;
use kube_endpoint_api_client::says_not_there;
use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_explain::references::{GATEWAY, INGRESS, Referrer, gateways};
use kube_endpoint_explain::{Objects, maker_of, services_of};
use serde_json::{Value, json};

use crate::error::{Failed, is_forbidden, is_not_in_files, noted};
use crate::reader::json_of;
use crate::referrer::{RESOURCES, newest_resource};
use crate::{PAGE, ReadError, Reader, Reading, Resource};

/// Gateways, in both versions.
const GATEWAYS: [Resource; 2] =
    [Resource::of(GROUP, "v1", "Gateway", "gateways"), Resource::of(GROUP, "v1beta1", "Gateway", "gateways")];

/// Gateways, and the kinds of workloads.
pub(crate) const AROUND: [Resource; 9] = [
    GATEWAYS[0],
    GATEWAYS[1],
    Resource::v1("apps", "Deployment", "deployments"),
    Resource::v1("apps", "StatefulSet", "statefulsets"),
    Resource::v1("apps", "DaemonSet", "daemonsets"),
    Resource::v1("apps", "ReplicaSet", "replicasets"),
    Resource::v1("batch", "Job", "jobs"),
    Resource::v1("batch", "CronJob", "cronjobs"),
    ROLLOUTS,
];

/// Returns the kinds of workloads without ReplicaSets, which their Deployments stand for.
pub(crate) fn workloads() -> impl Iterator<Item = Resource> {
    AROUND.into_iter().filter(|kind| kind.group != GROUP && kind.kind != "ReplicaSet")
}

/// The Rollouts of Argo.
const ROLLOUTS: Resource = Resource::of("argoproj.io", "v1alpha1", "Rollout", "rollouts");

/// Gateways and classes, which routes, Gateways and Ingresses name.
const PARENT_KINDS: [Resource; 5] = [
    GATEWAYS[0],
    GATEWAYS[1],
    Resource::of(GROUP, "v1", "GatewayClass", "gatewayclasses"),
    Resource::of(GROUP, "v1beta1", "GatewayClass", "gatewayclasses"),
    Resource::of("networking.k8s.io", "v1", "IngressClass", "ingressclasses"),
];

/// The most Gateways, and the most classes, that are read.
const PARENTS: usize = 20;

/// The group of the Gateway API.
const GROUP: &str = "gateway.networking.k8s.io";

/// The versions of routes. The experimental channel of the Gateway API serves some kinds only in
/// the last one.
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha2"];

impl Reader {
    /// Returns the Deployment that made a ReplicaSet, or the Rollout if the user may read it.
    pub(crate) async fn maker_of(&self, of: &Referrer) -> Result<Option<Referrer>, ReadError> {
        let Some(kind) = newest_resource(of.kind).filter(|it| it.kind == "ReplicaSet") else {
            return Ok(None);
        };
        // Who may not read it learns that next.
        let Ok(Some(object)) = self.get(kind, &of.object.namespace, &of.object.name).await else {
            return Ok(None);
        };
        let Some((kind, name)) = maker_of(&object) else { return Ok(None) };
        if kind == ROLLOUTS.kind
            && !matches!(self.get(ROLLOUTS, &of.object.namespace, &name).await, Ok(Some(_)))
        {
            return Ok(None);
        }
        let object = ObjectKey { namespace: of.object.namespace.clone(), name };
        Ok(Some(Referrer { kind, object }))
    }

    /// Reads the Services that select the pods of a workload, and what leads to them.
    pub(crate) async fn workload(&self, of: &Referrer, object: Value) -> Result<Reading, ReadError> {
        let namespace = &*of.object.namespace;
        let (mut reading, mut all) = (Reading::default(), Reading::default());
        reading.objects.add(object.clone())?;
        all.objects.add(object)?;
        let services = self.add(&mut all.objects, Resource::SERVICES, Some(namespace), ListParams::default());
        services.await.map_err(|failed| failed.of(Resource::SERVICES, Some(namespace)))?;
        self.selectors(&mut all, Some(namespace)).await?;
        let services = |all: &Reading| {
            let services = services_of(&all.objects, of, all.known);
            services.ok_or_else(|| ReadError::Request(format!("the answer for {of} is another object")))
        };
        let mut found = services(&all)?;
        if let Some(selector) = &found.asks_for_pods {
            let params = ListParams::default().labels(&selector.to_string());
            self.labels_of_pods(&mut all, namespace, params).await?;
            found = services(&all)?;
        }
        let selecting = found.selecting;
        if !selecting.is_empty() {
            let mut kinds = self.served_routes().await;
            kinds.extend(newest_resource(INGRESS));
            self.leading(&mut reading, kinds, Some(namespace), namespace, |_| true).await?;
        }
        reading.known.selectors = all.known.selectors;
        reading.notes.extend(all.notes);
        reading.of_namespace = Some(all.objects);
        self.behind(&mut reading, selecting).await?;
        Ok(reading)
    }

    /// Reads the labels of pods, at most a page.
    async fn labels_of_pods(
        &self,
        all: &mut Reading,
        namespace: &str,
        params: ListParams,
    ) -> Result<(), ReadError> {
        let page = self.api(Resource::PODS, Some(namespace)).list_metadata(&params.limit(PAGE)).await;
        let page = match noted(page.map_err(Into::into), Resource::PODS, Some(namespace))? {
            Ok(page) => page,
            Err(note) => {
                all.notes
                    .push(format!("{note} Services may select some of the pods by labels of their own."));
                return Ok(());
            }
        };
        for pod in page.items.into_iter().map(|pod| pod.metadata) {
            let metadata = json!({"name": pod.name, "namespace": pod.namespace, "labels": pod.labels});
            all.objects.add(json!({"kind": "Pod", "metadata": metadata}))?;
        }
        Ok(())
    }

    /// Reads the routes that name a Gateway, and what explains their Services.
    pub(crate) async fn gateway(&self, of: &Referrer, object: Value) -> Result<Reading, ReadError> {
        let mut reading = Reading::default();
        reading.objects.add(object)?;
        self.parents(&mut reading.objects).await?;
        let kinds = self.served_routes().await;
        let is_served = |kind: &str| kinds.iter().any(|it| it.kind == kind);
        let absent: BTreeSet<&str> = routes().map(|it| it.kind).filter(|kind| !is_served(kind)).collect();
        if !absent.is_empty() {
            let absent = absent.into_iter().collect::<Vec<_>>().join(", ");
            reading.notes.push(format!("The server does not have these kinds: {absent}."));
        }
        let own = &*of.object.namespace;
        let namespace = (!self.looks_elsewhere).then_some(own);
        let names_it = |route: &Value| gateways(route).any(|gateway| gateway == of.object);
        self.leading(&mut reading, kinds, namespace, own, names_it).await?;
        let services = reading.objects.references().map(|it| it.service.clone()).collect();
        self.behind(&mut reading, services).await?;
        Ok(reading)
    }

    /// Returns the resources of routes that the server has; all if it does not tell.
    async fn served_routes(&self) -> Vec<Resource> {
        let mut found: Vec<Resource> = Vec::new();
        for version in VERSIONS {
            let is_new = |it: &Resource| !found.iter().any(|found| found.kind == it.kind);
            let mut new: Vec<Resource> = routes().filter(|it| it.version == version).filter(is_new).collect();
            if new.is_empty() {
                continue;
            }
            match self.client().list_api_group_resources(&format!("{GROUP}/{version}")).await {
                Ok(served) => {
                    new.retain(|it| served.resources.iter().any(|served| served.name == it.plural));
                    found.extend(new);
                }
                Err(error) if says_not_there(&error) => {}
                Err(_) => return routes().collect(),
            }
        }
        found
    }

    /// Reads the objects of some kinds that lead to Services and that matter, at most a page of
    /// each: of a namespace, or of all, and if these may not be read, of `own`.
    async fn leading(
        &self,
        reading: &mut Reading,
        kinds: Vec<Resource>,
        mut namespace: Option<&str>,
        own: &str,
        matters: impl Fn(&Value) -> bool,
    ) -> Result<(), ReadError> {
        let mut unread = BTreeSet::new();
        for kind in kinds {
            let params = ListParams::default().limit(PAGE);
            let mut listed = self.api(kind, namespace).list(&params).await;
            let is_refused = |error: &Error| is_forbidden(error) && !is_not_in_files(error);
            if namespace.is_none() && listed.as_ref().is_err_and(is_refused) {
                namespace = Some(own);
                let note = "You may not list them in all namespaces.";
                reading.notes.push(format!("Only routes of namespace {own} are read. {note}"));
                listed = self.api(kind, namespace).list(&params).await;
            }
            let page = match listed {
                Ok(page) => page,
                Err(error) if says_not_there(&error) => continue,
                Err(error) if is_forbidden(&error) => {
                    unread.insert(kind.plural);
                    continue;
                }
                Err(error) => return Err(Failed::Request(error).of(kind, namespace)),
            };
            if page.metadata.continue_.is_some_and(|token| !token.is_empty()) {
                reading.notes.push(format!("Of the {kind}, only {PAGE} are read."));
            }
            let mut objects = page.items.iter().map(|item| json_of(kind, item)).filter(&matters);
            objects.try_for_each(|object| reading.objects.add(object))?;
        }
        if !unread.is_empty() {
            let unread = unread.into_iter().collect::<Vec<_>>().join(", ");
            reading.notes.push(format!(
                "What leads to the Services is not all known: these could not be read: {unread}."
            ));
        }
        Ok(())
    }

    /// Reads the Gateways and classes that objects name, and notes those that do not exist. Who may
    /// not read them learns less.
    pub(crate) async fn parents(&self, objects: &mut Objects) -> Result<(), ReadError> {
        // Gateways name classes.
        for of_class in [false, true] {
            let named = objects.named_and_unread().into_iter();
            let named = named.filter(|it| (it.kind != GATEWAY) == of_class).take(PARENTS);
            let mut absent = BTreeSet::new();
            for one in named {
                match self.parent(&one).await {
                    Some((_, Some(object))) => objects.add(object)?,
                    Some((kind, None)) => {
                        absent.insert((kind.plural, kind.version, one.object.namespace.clone()));
                        objects.note_absent(one);
                    }
                    None => {}
                }
            }
            // Others may be meant.
            for (plural, version, namespace) in absent {
                let namespace = Some(&*namespace).filter(|namespace| !namespace.is_empty());
                let is_it = |it: &Resource| it.plural == plural && it.version == version;
                for kind in PARENT_KINDS.into_iter().filter(is_it) {
                    self.add_optional(objects, kind, namespace).await?;
                }
            }
        }
        Ok(())
    }

    /// Reads a Gateway or a class, in the version that the server has. Returns `None` if it is not
    /// known if it exists.
    async fn parent(&self, of: &Referrer) -> Option<(Resource, Option<Value>)> {
        for kind in PARENT_KINDS.into_iter().filter(|it| it.kind == of.kind) {
            match self.get(kind, &of.object.namespace, &of.object.name).await {
                Ok(found) => return Some((kind, found)),
                Err(error) if says_not_there(&error) => {}
                Err(_) => return None,
            }
        }
        None
    }
}

/// Returns the resources of routes.
fn routes() -> impl Iterator<Item = Resource> {
    RESOURCES.into_iter().filter(|it| it.group == GROUP)
}
