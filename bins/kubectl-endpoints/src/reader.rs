//! Reads objects from the API server, page by page, and only those that a command needs.

use std::collections::{BTreeSet, HashSet};
use std::fmt;

use anyhow::{Context, anyhow};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::{Client, Error};
use kube_endpoint_core_model::{ObjectKey, Service, StringMap, Text};
use kube_endpoint_explain::Objects;
use serde::Deserialize;
use serde_json::{Value, json};

/// Objects of one page, as many as kubectl asks for.
const PAGE: u32 = 500;

/// Nodes that are read one by one at most; beyond, all are listed.
const SINGLE_NODES: usize = 100;

/// Requests that are sent at once.
const AT_ONCE: usize = 16;

/// The kinds that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Service,
    Pod,
    Node,
    EndpointSlice,
    Endpoints,
    Event,
}

impl Kind {
    fn resource(self) -> ApiResource {
        let (group, kind, plural) = match self {
            Self::Service => ("", "Service", "services"),
            Self::Pod => ("", "Pod", "pods"),
            Self::Node => ("", "Node", "nodes"),
            Self::EndpointSlice => ("discovery.k8s.io", "EndpointSlice", "endpointslices"),
            Self::Endpoints => ("", "Endpoints", "endpoints"),
            Self::Event => ("", "Event", "events"),
        };
        let mut api_version = "v1".to_owned();
        if !group.is_empty() {
            api_version = format!("{group}/v1");
        }
        ApiResource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            api_version,
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource().plural)
    }
}

/// What was read for one Service or pod.
#[derive(Default)]
pub(crate) struct Reading {
    pub(crate) objects: Objects,
    /// Names and labels of pods that may nearly match; none if they were not asked for.
    pub(crate) metadata: Option<Vec<(Text, StringMap)>>,
    /// What could not be read, as sentences.
    pub(crate) notes: Vec<String>,
    /// Whether slices and Endpoints could be read.
    pub(crate) outputs_known: bool,
}

/// Reads from one server.
pub(crate) struct Reader {
    client: Client,
}

impl Reader {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    fn api(&self, kind: Kind, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource = kind.resource();
        match namespace.filter(|_| kind != Kind::Node) {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// Reads one object; none if there is none.
    async fn get(&self, kind: Kind, namespace: &str, name: &str) -> Result<Option<Value>, Error> {
        let object = self.api(kind, Some(namespace)).get_opt(name).await?;
        object.map(|object| json_of(kind, &object)).transpose()
    }

    /// Lists objects page by page. No two pages are held at once.
    async fn list(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        params: ListParams,
        mut each: impl FnMut(Value) -> anyhow::Result<()>,
    ) -> Result<(), Failed> {
        let api = self.api(kind, namespace);
        let mut params = ListParams { limit: Some(PAGE), ..params };
        loop {
            let page = api.list(&params).await.map_err(Failed::Request)?;
            for object in &page.items {
                let json = json_of(kind, object).map_err(Failed::Request)?;
                each(json).map_err(Failed::Object)?;
            }
            let next = page.metadata.continue_.filter(|token| !token.is_empty());
            let Some(token) = next else { return Ok(()) };
            params.continue_token = Some(token);
        }
    }

    /// Lists objects into `objects`.
    async fn add(
        &self,
        objects: &mut Objects,
        kind: Kind,
        namespace: Option<&str>,
        params: ListParams,
    ) -> Result<(), Failed> {
        self.list(kind, namespace, params, |object| Ok(objects.add(object)?)).await
    }

    /// Reads all that a Service depends on.
    pub(crate) async fn service(&self, key: &ObjectKey) -> anyhow::Result<Reading> {
        let (namespace, name) = (&*key.namespace, &*key.name);
        let object = self.get(Kind::Service, namespace, name).await;
        let object = object.with_context(|| format!("Service {key} cannot be read"))?;
        let object = object.ok_or_else(|| anyhow!("there is no Service {key}"))?;
        let service = Service::deserialize(&object)?;
        let mut reading = Reading { outputs_known: true, ..Reading::default() };
        reading.objects.add(object)?;

        let selector = service.selector.as_ref().filter(|_| service.selects_pods());
        let mut nodes = BTreeSet::new();
        if let Some(selector) = selector {
            let params = ListParams::default().labels(&as_text(selector));
            let objects = &mut reading.objects;
            let listed = self.list(Kind::Pod, Some(namespace), params, |pod| {
                nodes.extend(pod["spec"]["nodeName"].as_str().map(str::to_owned));
                Ok(objects.add(pod)?)
            });
            listed.await.map_err(|failed| failed.of(Kind::Pod, Some(namespace)))?;
            if nodes.is_empty() && reading.objects.pods_of(&key.namespace).next().is_none() {
                self.near(&mut reading, namespace, selector).await;
            }
        }
        self.nodes(&mut reading, nodes, service.topology_hints_enabled()).await?;
        self.outputs(&mut reading, key).await?;
        Ok(reading)
    }

    /// Reads a pod, the Services of its namespace, and all that those depend on which select it.
    pub(crate) async fn pod(&self, key: &ObjectKey) -> anyhow::Result<Reading> {
        let namespace = &*key.namespace;
        let object = self.get(Kind::Pod, namespace, &key.name).await;
        let object = object.with_context(|| format!("pod {key} cannot be read"))?;
        let object = object.ok_or_else(|| anyhow!("there is no pod {key}"))?;
        let mut reading = Reading { outputs_known: true, ..Reading::default() };
        reading.objects.add(object)?;
        let failed = |failed: Failed| failed.of(Kind::Service, Some(namespace));
        self.add(&mut reading.objects, Kind::Service, Some(namespace), ListParams::default())
            .await
            .map_err(failed)?;
        let labels = reading.objects.pod(key).map(|pod| pod.labels.clone()).unwrap_or_default();
        let selecting: Vec<ObjectKey> = reading
            .objects
            .services()
            .filter(|service| {
                let service = reading.objects.service(service);
                service.is_some_and(|service| {
                    service.selects_pods() && service.selector.as_ref().is_some_and(|it| it.selects(&labels))
                })
            })
            .cloned()
            .collect();
        let mut nodes = BTreeSet::new();
        let mut all_nodes = false;
        for service in &selecting {
            let Some(service) = reading.objects.service(service).cloned() else { continue };
            all_nodes |= service.topology_hints_enabled();
            let Some(selector) = &service.selector else { continue };
            let params = ListParams::default().labels(&as_text(selector));
            let objects = &mut reading.objects;
            let listed = self.list(Kind::Pod, Some(namespace), params, |pod| {
                nodes.extend(pod["spec"]["nodeName"].as_str().map(str::to_owned));
                Ok(objects.add(pod)?)
            });
            listed.await.map_err(|failed| failed.of(Kind::Pod, Some(namespace)))?;
        }
        self.nodes(&mut reading, nodes, all_nodes).await?;
        for service in &selecting {
            self.outputs(&mut reading, service).await?;
        }
        Ok(reading)
    }

    /// Reads all Services of a namespace, or of all, with all that they depend on.
    pub(crate) async fn all(&self, namespace: Option<&str>) -> anyhow::Result<Reading> {
        let mut reading = Reading { outputs_known: true, ..Reading::default() };
        for kind in [Kind::Service, Kind::Pod, Kind::EndpointSlice, Kind::Endpoints] {
            let listed = self.add(&mut reading.objects, kind, namespace, ListParams::default()).await;
            listed.map_err(|failed| failed.of(kind, namespace))?;
        }
        let listed = self.add(&mut reading.objects, Kind::Node, None, ListParams::default()).await;
        listed.map_err(|failed| failed.of(Kind::Node, None))?;
        Ok(reading)
    }

    /// Reads the nodes of a Service's pods, or all nodes. If that is forbidden, they are taken to be ready. Their zones are not
    /// known then, so slices cannot be compared.
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
        let consequence =
            "Nodes are taken to be ready, and slices are not compared with what they should be.";
        reading.notes.push(format!("{note} {consequence}"));
        reading.outputs_known = false;
        for name in names {
            let condition = json!({"type": "Ready", "status": "True"});
            reading.objects.add(
                json!({"kind": "Node", "metadata": {"name": name}, "status": {"conditions": [condition]}}),
            )?;
        }
        Ok(())
    }

    /// Reads the slices, the Endpoints and the events of a Service.
    async fn outputs(&self, reading: &mut Reading, key: &ObjectKey) -> anyhow::Result<()> {
        let namespace = Some(&*key.namespace);
        let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={}", key.name));
        let about = format!("involvedObject.kind=Service,involvedObject.name={}", key.name);
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
                reading.outputs_known &= kind == Kind::Event;
                reading.notes.push(note);
            }
        }
        Ok(())
    }

    /// Reads the metadata of pods that lack one requirement of a selector, at most a page for each.
    async fn near(&self, reading: &mut Reading, namespace: &str, selector: &StringMap) {
        let (mut seen, mut found) = (HashSet::new(), Vec::new());
        let api = self.api(Kind::Pod, Some(namespace));
        for (label, _) in selector.iter() {
            let params = ListParams::default().labels(&as_text(&selector.without(label))).limit(PAGE);
            match api.list_metadata(&params).await {
                Ok(page) => {
                    for pod in page.items {
                        let name: Text = pod.metadata.name.unwrap_or_default().into();
                        if seen.insert(name.clone()) {
                            found.push((name, pod.metadata.labels.unwrap_or_default().into_iter().collect()));
                        }
                    }
                }
                Err(error) => {
                    reading.notes.push(format!("Pods that nearly match cannot be read: {error}."));
                    break;
                }
            }
        }
        reading.metadata = Some(found);
    }
}

/// Why a list failed.
enum Failed {
    Request(Error),
    Object(anyhow::Error),
}

impl Failed {
    fn of(self, kind: Kind, namespace: Option<&str>) -> anyhow::Error {
        let place = namespace.map(|namespace| format!(" of namespace {namespace}")).unwrap_or_default();
        match self {
            Self::Request(error) => {
                anyhow::Error::new(error).context(format!("the {kind}{place} cannot be listed"))
            }
            Self::Object(error) => error.context(format!("one of the {kind}{place} cannot be read")),
        }
    }
}

/// Returns a note if a list is forbidden.
fn forbidden(
    listed: Result<(), Failed>,
    kind: Kind,
    namespace: Option<&str>,
) -> anyhow::Result<Option<String>> {
    match listed {
        Ok(()) => Ok(None),
        Err(Failed::Request(Error::Api(status))) if status.code == 403 => {
            Ok(Some(format!("You may not read {kind}: {}.", status.message.trim_end_matches('.'))))
        }
        Err(failed) => Err(failed.of(kind, namespace)),
    }
}

/// Returns a selector as the query parameter has it.
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
