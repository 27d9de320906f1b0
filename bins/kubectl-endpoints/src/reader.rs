//! Reads objects from the API server, page by page, and only those that a command needs.

mod attached;
mod elsewhere;
mod failed;
mod more;
mod signs;

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use anyhow::{anyhow, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, ObjectList};
use kube::core::PartialObjectMeta;
use kube::{Client, Error};
use kube_endpoint_api_client::why_request_failed;
use kube_endpoint_core_model::well_known::SELECTOR_GROUP;
use kube_endpoint_core_model::{ObjectKey, Pod, Service, StringMap, Text};
use kube_endpoint_explain::{Known, Objects, names_selector, needs_all_nodes, other_keys_of};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::pages::{List, PAGE, check_kind};
use crate::progress::Progress;
use failed::{Failed, forbidden, noted};
pub(crate) use signs::may_tell_more;

/// The most pods whose warnings are read.
const WARNED: usize = 3;

/// The maximum number of nodes to read one by one; for more, the reader lists all.
const SINGLE_NODES: usize = 100;

/// The number of concurrent requests.
const AT_ONCE: usize = 16;

/// The kinds of the objects that commands read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Service,
    Pod,
    Node,
    EndpointSlice,
    Endpoints,
    Event,
    Lease,
    Namespace,
    EndpointSelector,
}

impl Kind {
    /// Returns the group, the kind and the name of the resource.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Service => ("", "Service", "services"),
            Self::Pod => ("", "Pod", "pods"),
            Self::Node => ("", "Node", "nodes"),
            Self::EndpointSlice => ("discovery.k8s.io", "EndpointSlice", "endpointslices"),
            Self::Endpoints => ("", "Endpoints", "endpoints"),
            Self::Event => ("", "Event", "events"),
            Self::Lease => ("coordination.k8s.io", "Lease", "leases"),
            Self::Namespace => ("", "Namespace", "namespaces"),
            Self::EndpointSelector => (SELECTOR_GROUP, "EndpointSelector", "endpointselectors"),
        }
    }

    fn resource(self) -> ApiResource {
        let (group, kind, plural) = self.names();
        let version = if self == Self::EndpointSelector { "v1alpha1" } else { "v1" };
        let mut api_version = version.to_owned();
        if !group.is_empty() {
            api_version = format!("{group}/{version}");
        }
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version,
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.names().2)
    }
}

/// The objects of one Service or pod.
#[derive(Default)]
pub(crate) struct Reading {
    pub(crate) objects: Objects,
    /// Names and labels of pods that may nearly match, or `None` if the command does not need them.
    pub(crate) metadata: Option<Vec<(Text, StringMap)>>,
    /// Sentences about the kinds that could not be read.
    pub(crate) notes: Vec<String>,
    pub(crate) known: Known,
}

impl Reading {
    /// Notes that the user may not read a kind.
    fn not_read(&mut self, kind: Kind, note: &str) {
        let (known, consequence) = match kind {
            Kind::Pod => (&mut self.known.pods, "What Services with a selector should have is not known."),
            Kind::Node => (
                &mut self.known.nodes,
                "Nodes are taken to be ready, and slices are not compared with what they should be.",
            ),
            Kind::EndpointSlice => (&mut self.known.slices, "Slices are not checked."),
            Kind::Endpoints => (&mut self.known.endpoints, "Endpoints are not checked."),
            Kind::EndpointSelector => {
                (&mut self.known.selectors, "What Services that name one should have is not known.")
            }
            Kind::Service | Kind::Event | Kind::Lease | Kind::Namespace => {
                self.notes.push(note.to_owned());
                return;
            }
        };
        *known = false;
        self.notes.push(format!("{note} {consequence}"));
    }

    /// Adds nodes that are ready.
    fn assume_nodes(&mut self, names: impl IntoIterator<Item = String>) -> anyhow::Result<()> {
        for name in names {
            let condition = json!({"type": "Ready", "status": "True"});
            self.objects.add(
                json!({"kind": "Node", "metadata": {"name": name}, "status": {"conditions": [condition]}}),
            )?;
        }
        Ok(())
    }
}

/// Reads from one server.
pub(crate) struct Reader {
    client: Client,
    progress: Progress,
}

impl Reader {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, progress: Progress::on_stderr() }
    }

    /// Returns a reader that shows no progress.
    pub(crate) fn quiet(client: Client) -> Self {
        Self { client, progress: Progress::hidden() }
    }

    fn api(&self, kind: Kind, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource = kind.resource();
        match namespace.filter(|_| !matches!(kind, Kind::Node | Kind::Namespace)) {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// Reads one object. Returns `None` if it does not exist.
    pub(crate) async fn get(&self, kind: Kind, namespace: &str, name: &str) -> Result<Option<Value>, Error> {
        if !can_be_a_name(name) {
            return Ok(None);
        }
        let object = self.api(kind, Some(namespace)).get_opt(name).await?;
        if let Some(object) = &object {
            check_kind(object.types.as_ref(), &[&kind.resource().kind])?;
        }
        object.map(|object| json_of(kind, &object)).transpose()
    }

    /// Reads the Service or pod to explain.
    async fn subject(&self, kind: Kind, key: &ObjectKey) -> anyhow::Result<Value> {
        let word = if kind == Kind::Pod { "pod" } else { "Service" };
        ensure!(!key.name.is_empty(), "the name of the {word} is empty");
        let object = self.get(kind, &key.namespace, &key.name).await;
        let object =
            object.map_err(|error| anyhow!("{word} {key} cannot be read: {}", why_request_failed(&error)))?;
        let Some(object) = object else {
            let elsewhere = self.namespaces_with(kind, word, key).await;
            let exists = self.check_namespace(&key.namespace).await;
            exists.map_err(|error| anyhow!("{error}{elsewhere}"))?;
            let similar = self.similar_names(kind, key).await;
            bail!("there is no {word} {key}{similar}{elsewhere}");
        };
        Ok(object)
    }

    /// Returns an error if a namespace does not exist: its name may be mistyped. If the user may
    /// not read namespaces, this assumes that it exists.
    pub(crate) async fn check_namespace(&self, namespace: &str) -> anyhow::Result<()> {
        match self.uid(Kind::Namespace, &ObjectKey::new("", namespace)).await {
            Ok(None) => bail!("there is no namespace {namespace}"),
            _ => Ok(()),
        }
    }

    fn pages(&self, kind: Kind, namespace: Option<&str>, params: ListParams) -> List<'static> {
        let (api, (_, name, plural)) = (self.api(kind, namespace), kind.names());
        List { api, kind: name, plural, params, pages: None }
    }

    /// Lists objects, and adds each to an empty `A`.
    async fn list<A: Default>(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        params: ListParams,
        mut add: impl FnMut(&mut A, Value) -> anyhow::Result<()>,
    ) -> Result<A, Failed> {
        let list = self.pages(kind, namespace, params);
        let add_page = |all: &mut A, page: ObjectList<DynamicObject>| {
            page.items.iter().try_for_each(|object| add(all, json_of(kind, object)?).map_err(Failed::Object))
        };
        list.objects(&self.progress, A::default, add_page).await
    }

    /// Lists objects, and adds each to an empty `A`. Returns a note if the server forbids that.
    pub(crate) async fn list_objects<A: Default>(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        params: ListParams,
        add: impl FnMut(&mut A, Value) -> anyhow::Result<()>,
    ) -> anyhow::Result<Result<A, String>> {
        noted(self.list(kind, namespace, params, add).await, kind, namespace)
    }

    /// Lists the metadata of objects, and adds each to an empty `A`. Returns a note if the server
    /// forbids that.
    pub(crate) async fn list_metadata<A: Default>(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        params: ListParams,
        mut add: impl FnMut(&mut A, Value) -> anyhow::Result<()>,
    ) -> anyhow::Result<Result<A, String>> {
        let list = self.pages(kind, namespace, params);
        let add_page = |all: &mut A, page: ObjectList<PartialObjectMeta<DynamicObject>>| {
            page.items.iter().try_for_each(|object| {
                let json = serde_json::to_value(&object.metadata).map_err(Error::SerdeError)?;
                add(all, json).map_err(Failed::Object)
            })
        };
        noted(list.metadata(&self.progress, A::default, add_page).await, kind, namespace)
    }

    /// Reads the uid of an object. Returns `None` if it does not exist.
    pub(crate) async fn uid(&self, kind: Kind, key: &ObjectKey) -> Result<Option<String>, Error> {
        if !can_be_a_name(&key.name) {
            return Ok(None);
        }
        let object = self.api(kind, Some(&*key.namespace)).get_metadata_opt(&key.name).await?;
        if let Some(object) = &object {
            check_kind(object.types.as_ref(), &["PartialObjectMetadata", &kind.resource().kind])?;
        }
        Ok(object.map(|object| object.metadata.uid.unwrap_or_default()))
    }

    /// Deletes an object.
    pub(crate) async fn delete(
        &self,
        kind: Kind,
        key: &ObjectKey,
        params: &DeleteParams,
    ) -> Result<(), Error> {
        self.api(kind, Some(&*key.namespace)).delete(&key.name, params).await.map(|_| ())
    }

    /// Lists objects into `objects`.
    async fn add(
        &self,
        objects: &mut Objects,
        kind: Kind,
        namespace: Option<&str>,
        params: ListParams,
    ) -> Result<(), Failed> {
        let add = |all: &mut Objects, object| Ok(all.add(object)?);
        objects.extend(self.list(kind, namespace, params, add).await?);
        Ok(())
    }

    /// Reads the pods that a label selector selects, and adds their nodes to `nodes`.
    async fn add_pods(
        &self,
        objects: &mut Objects,
        namespace: &str,
        selector: &str,
        nodes: &mut BTreeSet<String>,
    ) -> Result<(), Failed> {
        let params = ListParams::default().labels(selector);
        let add = |(pods, nodes): &mut (Objects, BTreeSet<String>), pod: Value| {
            nodes.extend(pod["spec"]["nodeName"].as_str().map(str::to_owned));
            Ok(pods.add(pod)?)
        };
        let (pods, of_pods) = self.list(Kind::Pod, Some(namespace), params, add).await?;
        objects.extend(pods);
        nodes.extend(of_pods);
        Ok(())
    }

    /// Reads all objects on which the explanation of a Service depends.
    pub(crate) async fn service(&self, key: &ObjectKey) -> anyhow::Result<Reading> {
        let namespace = &*key.namespace;
        let object = self.subject(Kind::Service, key).await?;
        let service = Service::deserialize(&object)?;
        let mut reading = Reading::default();
        reading.objects.add(object)?;

        let selector = service.selector.as_ref().filter(|_| service.selects_pods());
        let mut nodes = BTreeSet::new();
        if let Some(selector) = selector {
            let listed = self.add_pods(&mut reading.objects, namespace, &as_text(selector), &mut nodes).await;
            let note = forbidden(listed, Kind::Pod, Some(namespace))?;
            note.iter().for_each(|note| reading.not_read(Kind::Pod, note));
            let is_empty = reading.objects.pods_of(&key.namespace).next().is_none();
            if is_empty && reading.known.pods {
                self.near(&mut reading, namespace, selector).await;
                self.pods_elsewhere(&mut reading, namespace, selector).await?;
                self.near_pods(&mut reading, namespace, selector).await?;
            }
            self.governing_services(&mut reading, &service).await?;
            self.failed_creates(&mut reading, &service).await?;
        }
        if let Some(name) = names_selector(&service) {
            nodes.extend(self.attached(&mut reading, &service, name).await?);
        }
        let all_nodes = needs_all_nodes(&service);
        self.nodes(&mut reading, nodes, all_nodes).await?;
        self.outputs(&mut reading, key).await?;
        self.pods_of_slices(&mut reading, &service).await?;
        self.warnings(&mut reading, namespace).await?;
        self.services_at_endpoints(&mut reading, key).await?;
        self.unlabelled_slices(&mut reading, &service).await?;
        self.hinted_nodes(&mut reading, std::slice::from_ref(key), all_nodes).await?;
        Ok(reading)
    }

    /// Reads a pod, the Services of its namespace, and all objects on which the explanations of the
    /// selecting ones depend.
    pub(crate) async fn pod(&self, key: &ObjectKey) -> anyhow::Result<Reading> {
        let namespace = &*key.namespace;
        let object = self.subject(Kind::Pod, key).await?;
        let mut reading = Reading::default();
        reading.objects.add(object)?;
        let failed = |failed: Failed| failed.of(Kind::Service, Some(namespace));
        self.add(&mut reading.objects, Kind::Service, Some(namespace), ListParams::default())
            .await
            .map_err(failed)?;
        self.selectors(&mut reading, Some(namespace)).await?;
        let labels = reading.objects.pod(key).map(|pod| pod.labels.clone()).unwrap_or_default();
        let selecting: Vec<ObjectKey> = reading
            .objects
            .services()
            .filter(|service| {
                let service = reading.objects.service(service);
                service.is_some_and(|service| {
                    let attached = reading.objects.attached_selector(service);
                    attached.is_some_and(|it| it.matches(&labels))
                        || service.selects_pods()
                            && service.selector.as_ref().is_some_and(|it| it.selects(&labels))
                })
            })
            .cloned()
            .collect();
        let mut nodes = BTreeSet::new();
        let mut all_nodes = false;
        for service in &selecting {
            let Some(service) = reading.objects.service(service).cloned() else { continue };
            all_nodes |= needs_all_nodes(&service);
            let attached = reading.objects.attached_selector(&service).map(ToString::to_string);
            let selector = attached.or_else(|| service.selector.as_ref().map(as_text));
            let Some(selector) = selector.filter(|_| reading.known.pods) else { continue };
            let listed = self.add_pods(&mut reading.objects, namespace, &selector, &mut nodes).await;
            if let Some(note) = forbidden(listed, Kind::Pod, Some(namespace))? {
                // The verdict on a pod does not depend on other pods, but the desired slices do.
                let consequence = "Slices and Endpoints are not compared with what they should be.";
                reading.notes.push(format!("{note} {consequence}"));
                reading.known.pods = false;
                nodes.extend(reading.objects.node_names().iter().map(|name| name.to_string()));
            }
        }
        self.nodes(&mut reading, nodes, all_nodes).await?;
        for service in &selecting {
            self.outputs(&mut reading, service).await?;
        }
        self.warnings(&mut reading, namespace).await?;
        self.hinted_nodes(&mut reading, &selecting, all_nodes).await?;
        Ok(reading)
    }

    /// Reads all Services of a namespace, or of all namespaces, with all objects on which their
    /// explanations depend. It notes the kinds that the user may not read, but fails without
    /// Services. A namespace that does not exist is an error.
    pub(crate) async fn all(&self, namespace: Option<&str>) -> anyhow::Result<Reading> {
        let mut reading = Reading::default();
        let listed = self.add(&mut reading.objects, Kind::Service, namespace, ListParams::default()).await;
        listed.map_err(|failed| failed.of(Kind::Service, namespace))?;
        if let Some(namespace) = namespace.filter(|_| reading.objects.services().next().is_none()) {
            self.check_namespace(namespace).await?;
        }
        self.selectors(&mut reading, namespace).await?;
        for kind in [Kind::Pod, Kind::EndpointSlice, Kind::Endpoints, Kind::Node] {
            let listed = self.add(&mut reading.objects, kind, namespace, ListParams::default()).await;
            if let Some(note) = forbidden(listed, kind, namespace)? {
                reading.not_read(kind, &note);
            }
        }
        if !reading.known.nodes {
            let names = reading.objects.node_names();
            reading.assume_nodes(names.iter().map(|name| name.to_string()))?;
        }
        Ok(reading)
    }

    /// Reads the nodes of a Service's pods, or all nodes. If the server forbids that, this assumes
    /// that they are ready. Their zones are not known then, so the explanation cannot compare
    /// slices.
    async fn nodes(&self, reading: &mut Reading, names: BTreeSet<String>, all: bool) -> anyhow::Result<()> {
        let read = if all || names.len() > SINGLE_NODES {
            self.add(&mut reading.objects, Kind::Node, None, ListParams::default()).await
        } else {
            let gets = names.iter().map(|name| self.get(Kind::Node, "", name));
            let nodes: Result<Vec<_>, Error> =
                stream::iter(gets).buffer_unordered(AT_ONCE).try_collect().await;
            match nodes {
                Ok(nodes) => {
                    let mut nodes = nodes.into_iter().flatten();
                    nodes
                        .try_for_each(|node| reading.objects.add(node))
                        .map_err(|error| Failed::Object(error.into()))
                }
                Err(error) => Err(Failed::Request(error)),
            }
        };
        let Some(note) = forbidden(read, Kind::Node, None)? else { return Ok(()) };
        reading.not_read(Kind::Node, &note);
        reading.assume_nodes(names)
    }

    /// Reads all nodes if a hint is for a node or a zone that is not among those read: it may not
    /// exist, and kube-proxy then sends nobody there. `all` is true if this has read all nodes
    /// already.
    async fn hinted_nodes(
        &self,
        reading: &mut Reading,
        services: &[ObjectKey],
        all: bool,
    ) -> anyhow::Result<()> {
        let is_open = |service| reading.objects.has_hints_for_others(service);
        if all || !reading.known.nodes || !services.iter().any(is_open) {
            return Ok(());
        }
        self.nodes(reading, BTreeSet::new(), true).await
    }

    /// Reads the slices, the Endpoints and the events of a Service.
    async fn outputs(&self, reading: &mut Reading, key: &ObjectKey) -> anyhow::Result<()> {
        let namespace = Some(&*key.namespace);
        let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={}", key.name));
        // About the Service, its Endpoints, and others of its name, which explanations skip.
        let about = format!("involvedObject.name={}", key.name);
        let slices = self.add(&mut reading.objects, Kind::EndpointSlice, namespace, of_service).await;
        let endpoints = match self.get(Kind::Endpoints, &key.namespace, &key.name).await {
            Ok(endpoints) => {
                let mut endpoints = endpoints.into_iter();
                endpoints
                    .try_for_each(|endpoints| reading.objects.add(endpoints))
                    .map_err(|error| Failed::Object(error.into()))
            }
            Err(error) => Err(Failed::Request(error)),
        };
        let of_events = ListParams::default().fields(&about);
        let events = self.add(&mut reading.objects, Kind::Event, namespace, of_events).await;
        for (kind, read) in
            [(Kind::EndpointSlice, slices), (Kind::Endpoints, endpoints), (Kind::Event, events)]
        {
            if let Some(note) = forbidden(read, kind, namespace)? {
                reading.not_read(kind, &note);
            }
        }
        Ok(())
    }

    /// Reads the warnings about pods that are on a node and not ready: they have the words of
    /// probes, and nothing else tells why a pod gets no address. A few of them stand for all.
    async fn warnings(&self, reading: &mut Reading, namespace: &str) -> anyhow::Result<()> {
        let waits = |pod: &&Arc<Pod>| {
            pod.node_name.is_some() && !pod.is_ready() && !pod.is_terminal() && !pod.is_terminating()
        };
        let of: Text = namespace.into();
        let mut pods: Vec<_> = reading.objects.pods_of(&of).filter(waits).collect();
        pods.sort_by_key(|pod| pod.has_pod_ip);
        let names: Vec<Text> = pods.iter().take(WARNED).map(|pod| pod.key.name.clone()).collect();
        for name in names {
            let about = format!("involvedObject.kind=Pod,involvedObject.name={name},type=Warning");
            let params = ListParams::default().fields(&about);
            let read = self.add(&mut reading.objects, Kind::Event, Some(namespace), params).await;
            // A note says already that events may not be read.
            if forbidden(read, Kind::Event, Some(namespace))?.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Reads the metadata of pods that lack one requirement of a selector, or that meet it under a
    /// well-known label of the same meaning, at most a page for each.
    async fn near(&self, reading: &mut Reading, namespace: &str, selector: &StringMap) {
        let (mut seen, mut found) = (HashSet::new(), Vec::new());
        let api = self.api(Kind::Pod, Some(namespace));
        let lacking = selector.iter().map(|(label, _)| as_text(&selector.without(label)));
        let others = selector
            .iter()
            .flat_map(|(label, value)| other_keys_of(label).map(move |other| format!("{other}={value}")));
        for labels in lacking.chain(others) {
            let params = ListParams::default().labels(&labels).limit(PAGE);
            match api.list_metadata(&params).await {
                Ok(page) => {
                    let has_more = page.metadata.continue_.is_some_and(|token| !token.is_empty());
                    for pod in page.items {
                        let name: Text = pod.metadata.name.unwrap_or_default().into();
                        if seen.insert(name.clone()) {
                            found.push((name, pod.metadata.labels.unwrap_or_default().into_iter().collect()));
                        }
                    }
                    // These are all pods of the namespace.
                    if labels.is_empty() && !has_more {
                        break;
                    }
                }
                Err(error) => {
                    let why = why_request_failed(&error);
                    reading.notes.push(format!("Pods that nearly match cannot be read: {why}."));
                    break;
                }
            }
        }
        reading.metadata = Some(found);
    }
}

/// Returns false if no object can have such a name. A reference, such as that of an owner, may
/// contain any text, which would lead to another path.
fn can_be_a_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..")
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.'))
}

/// Returns a selector as a query parameter.
fn as_text(selector: &StringMap) -> String {
    selector.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// Returns an object as JSON with its kind, which the items of a list lack.
fn json_of(kind: Kind, object: &DynamicObject) -> Result<Value, Error> {
    let mut json = serde_json::to_value(object).map_err(Error::SerdeError)?;
    let resource = kind.resource();
    json["kind"] = resource.kind.into();
    json["apiVersion"] = resource.api_version.into();
    Ok(json)
}
