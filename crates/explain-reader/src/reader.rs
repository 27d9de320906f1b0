//! Reads objects from the API server, page by page, and only those that a command needs.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, ObjectList};
use kube::core::PartialObjectMeta;
use kube::{Client, Error};
use kube_endpoint_api_client::{says_not_there, why_request_failed};
use kube_endpoint_core_model::{ObjectKey, Pod, StringMap, Text};
use kube_endpoint_explain::{Known, Objects, names_selector, needs_all_nodes, other_keys_of};
use serde_json::{Value, json};

use crate::error::{Failed, forbidden, is_forbidden, is_not_in_files, noted};
use crate::{List, ObjectFailure, PAGE, Progress, ReadError, Resource, check_kind};

/// The most pods whose warnings are read.
const WARNED: usize = 3;

/// The most objects to read one by one; for more, the reader lists all.
const SINGLE: usize = 100;

/// The number of concurrent requests.
const AT_ONCE: usize = 4;

/// The objects of one Service or pod.
#[derive(Default)]
pub struct Reading {
    pub objects: Objects,
    /// Names and labels of pods that may nearly match, or `None` if the command does not need them.
    pub metadata: Option<Vec<(Text, StringMap)>>,
    /// A workload, the Services of its namespace, and metadata of its pods.
    pub(crate) of_namespace: Option<Objects>,
    /// Sentences about the kinds that could not be read.
    pub notes: Vec<String>,
    pub known: Known,
}

impl Reading {
    /// Notes that the user may not read a kind.
    pub(crate) fn not_read(&mut self, kind: Resource, note: &str) {
        let (known, consequence) = match kind {
            Resource::PODS => {
                (&mut self.known.pods, "What Services with a selector should have is not known.")
            }
            Resource::NODES => (
                &mut self.known.nodes,
                "Nodes are taken to be ready, and slices are not compared with what they should be.",
            ),
            Resource::SLICES => (&mut self.known.slices, "Slices are not checked."),
            Resource::ENDPOINTS => (&mut self.known.endpoints, "Endpoints are not checked."),
            Resource::ENDPOINT_SELECTORS => {
                (&mut self.known.selectors, "What Services that name one should have is not known.")
            }
            _ => {
                self.note(note.to_owned());
                return;
            }
        };
        *known = false;
        self.note(format!("{note} {consequence}"));
    }

    /// Adds a note, once for all Services of a pod.
    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Adds nodes that are ready.
    fn assume_nodes(&mut self, names: impl IntoIterator<Item = String>) -> Result<(), ReadError> {
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
pub struct Reader {
    client: Client,
    progress: Box<dyn Progress>,
    /// True if it looks at other namespaces for what the user may have meant.
    pub(crate) looks_elsewhere: bool,
    /// True if a second reading may see more than the first one.
    pub(crate) reads_again: bool,
}

impl Reader {
    /// Returns a reader with the rights of the client's user.
    pub fn new(client: Client) -> Self {
        Self { client, progress: Box::new(()), looks_elsewhere: true, reads_again: true }
    }

    /// Names no object of another namespace: for a reader whose client may read more than the
    /// person who gets the explanation.
    #[must_use]
    pub fn within_namespace(mut self) -> Self {
        self.looks_elsewhere = false;
        self
    }

    /// Reads once: for a reader whose client reads files, which do not change.
    #[must_use]
    pub fn of_files(mut self) -> Self {
        self.reads_again = false;
        self
    }

    /// Shows how far the reading of a long list is.
    #[must_use]
    pub fn with_progress(mut self, progress: impl Progress + 'static) -> Self {
        self.progress = Box::new(progress);
        self
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn api(&self, kind: Resource, namespace: Option<&str>) -> Api<DynamicObject> {
        kind.api(&self.client, namespace)
    }

    /// Reads one object. Returns `None` if it does not exist.
    pub async fn get(&self, kind: Resource, namespace: &str, name: &str) -> Result<Option<Value>, Error> {
        if !can_be_a_name(name) {
            return Ok(None);
        }
        let object = self.api(kind, Some(namespace)).get_opt(name).await?;
        if let Some(object) = &object {
            check_kind(object.types.as_ref(), &[kind.kind])?;
        }
        Ok(object.map(|object| json_of(kind, &object)))
    }

    /// Reads the Service or pod to explain.
    async fn subject(&self, kind: Resource, key: &ObjectKey) -> Result<Value, ReadError> {
        let word = if kind == Resource::PODS { "pod" } else { "Service" };
        if key.name.is_empty() {
            return Err(ReadError::NotFound(format!("the name of the {word} is empty")));
        }
        let object = match self.get(kind, &key.namespace, &key.name).await {
            Ok(object) => object,
            Err(error) if is_not_in_files(&error) => {
                let elsewhere = self.namespaces_with(kind, word, key).await;
                return Err(ReadError::NotInFiles(format!(
                    "{word} {key} is not known: the files do not have the {kind} of namespace {}{elsewhere}",
                    key.namespace
                )));
            }
            Err(error) => {
                let why = why_request_failed(&error);
                return Err(ReadError::Request(format!("{word} {key} cannot be read: {why}")));
            }
        };
        let Some(object) = object else {
            let elsewhere = self.namespaces_with(kind, word, key).await;
            let exists = self.check_namespace(&key.namespace).await;
            exists.map_err(|error| ReadError::NotFound(format!("{error}{elsewhere}")))?;
            let similar = self.similar_names(kind, key).await;
            return Err(ReadError::NotFound(format!("there is no {word} {key}{similar}{elsewhere}")));
        };
        Ok(object)
    }

    /// Returns an error if a namespace does not exist: its name may be mistyped. If the user may
    /// not read namespaces, this assumes that it exists.
    pub async fn check_namespace(&self, namespace: &str) -> Result<(), ReadError> {
        match self.uid(Resource::NAMESPACES, &ObjectKey::new("", namespace)).await {
            Ok(None) => Err(ReadError::NotFound(format!("there is no namespace {namespace}"))),
            _ => Ok(()),
        }
    }

    fn pages(&self, kind: Resource, namespace: Option<&str>, params: ListParams) -> List<'static> {
        let (api, api_version) = (self.api(kind, namespace), kind.api_version());
        List { api, api_version, kind: kind.kind, plural: kind.plural, params, pages: None }
    }

    /// Lists objects, and adds each to an empty `A`.
    async fn list<A: Default>(
        &self,
        kind: Resource,
        namespace: Option<&str>,
        params: ListParams,
        mut add: impl FnMut(&mut A, Value) -> Result<(), ObjectFailure>,
    ) -> Result<A, Failed> {
        let list = self.pages(kind, namespace, params);
        let add_page = |all: &mut A, page: Vec<Value>| {
            page.into_iter().try_for_each(|object| add(all, object).map_err(Failed::Object))
        };
        list.objects(&*self.progress, A::default, add_page).await
    }

    /// Lists objects, and adds each to an empty `A`. Returns a note if the server forbids that.
    pub async fn list_objects<A: Default>(
        &self,
        kind: Resource,
        namespace: Option<&str>,
        params: ListParams,
        add: impl FnMut(&mut A, Value) -> Result<(), ObjectFailure>,
    ) -> Result<Result<A, String>, ReadError> {
        noted(self.list(kind, namespace, params, add).await, kind, namespace)
    }

    /// Lists the metadata of objects, and adds each to an empty `A`. Returns a note if the server
    /// forbids that.
    pub async fn list_metadata<A: Default>(
        &self,
        kind: Resource,
        namespace: Option<&str>,
        params: ListParams,
        mut add: impl FnMut(&mut A, Value) -> Result<(), ObjectFailure>,
    ) -> Result<Result<A, String>, ReadError> {
        let list = self.pages(kind, namespace, params);
        let add_page = |all: &mut A, page: ObjectList<PartialObjectMeta<DynamicObject>>| {
            page.items.iter().try_for_each(|object| {
                let json = serde_json::to_value(&object.metadata).map_err(Error::SerdeError)?;
                add(all, json).map_err(Failed::Object)
            })
        };
        noted(list.metadata(&*self.progress, A::default, add_page).await, kind, namespace)
    }

    /// Reads the uid of an object. Returns `None` if it does not exist.
    pub async fn uid(&self, kind: Resource, key: &ObjectKey) -> Result<Option<String>, Error> {
        if !can_be_a_name(&key.name) {
            return Ok(None);
        }
        let object = self.api(kind, Some(&*key.namespace)).get_metadata_opt(&key.name).await?;
        if let Some(object) = &object {
            check_kind(object.types.as_ref(), &["PartialObjectMetadata", kind.kind])?;
        }
        Ok(object.map(|object| object.metadata.uid.unwrap_or_default()))
    }

    /// Deletes an object.
    pub async fn delete(&self, kind: Resource, key: &ObjectKey, params: &DeleteParams) -> Result<(), Error> {
        self.api(kind, Some(&*key.namespace)).delete(&key.name, params).await.map(|_| ())
    }

    /// Lists objects into `objects`.
    pub(crate) async fn add(
        &self,
        objects: &mut Objects,
        kind: Resource,
        namespace: Option<&str>,
        params: ListParams,
    ) -> Result<(), Failed> {
        let add = |all: &mut Objects, object| Ok(all.add(object)?);
        objects.extend(self.list(kind, namespace, params, add).await?);
        Ok(())
    }

    /// Lists objects into a reading, or notes that the user may not.
    pub(crate) async fn add_or_note(
        &self,
        reading: &mut Reading,
        kind: Resource,
        namespace: Option<&str>,
        params: ListParams,
    ) -> Result<(), ReadError> {
        let listed = self.add(&mut reading.objects, kind, namespace, params).await;
        let note = forbidden(listed, kind, namespace)?;
        note.iter().for_each(|note| reading.not_read(kind, note));
        Ok(())
    }

    /// Lists objects into `objects` that only add to an explanation. Returns false if the server
    /// does not have the kind, or the user may not read it: the explanation says less then.
    pub(crate) async fn add_optional(
        &self,
        objects: &mut Objects,
        kind: Resource,
        namespace: Option<&str>,
    ) -> Result<bool, ReadError> {
        match self.add(objects, kind, namespace, ListParams::default()).await {
            Err(Failed::Request(error)) if is_forbidden(&error) || says_not_there(&error) => Ok(false),
            listed => listed.map(|()| true).map_err(|failed| failed.of(kind, namespace)),
        }
    }

    /// Reads objects by their names into `objects`, or all of the namespace if there are many
    /// names.
    pub(crate) async fn add_named(
        &self,
        objects: &mut Objects,
        kind: Resource,
        namespace: &str,
        names: Vec<&str>,
    ) -> Result<(), Failed> {
        if names.len() > SINGLE {
            return self.add(objects, kind, Some(namespace), ListParams::default()).await;
        }
        let gets = names.iter().map(|name| self.get(kind, namespace, name).boxed()).collect();
        for read in at_once(gets).await {
            if let Some(object) = read? {
                objects.add(object).map_err(|error| Failed::Object(error.into()))?;
            }
        }
        Ok(())
    }

    /// Reads the pods that a label selector selects, and adds their nodes to `nodes`.
    pub(crate) async fn add_pods(
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
        let (pods, of_pods) = self.list(Resource::PODS, Some(namespace), params, add).await?;
        objects.extend(pods);
        nodes.extend(of_pods);
        Ok(())
    }

    /// Reads all objects on which the explanation of a Service depends.
    pub async fn service(&self, key: &ObjectKey) -> Result<Reading, ReadError> {
        let mut reading = Reading::default();
        self.add_service(&mut reading, key).await?;
        self.policies(&mut reading, Some(&*key.namespace)).await?;
        Ok(reading)
    }

    /// Reads all objects on which the explanation of a Service depends, except for those that all
    /// Services of its namespace share.
    pub(crate) async fn add_service(&self, reading: &mut Reading, key: &ObjectKey) -> Result<(), ReadError> {
        let namespace = &*key.namespace;
        let object = self.subject(Resource::SERVICES, key).await?;
        reading.objects.add(object)?;
        let Some(service) = reading.objects.service(key).cloned() else {
            return Err(ReadError::Request(format!("the answer for Service {key} is another object")));
        };

        // Before the pods: what changes in between then has the time of the pod's change. The other
        // way round, slices that know more would look as if they were late.
        self.slices_of(reading, key).await?;
        self.endpoints_and_events(reading, key).await?;
        self.alias(reading, key).await?;
        let selector = service.selector.as_ref().filter(|_| service.selects_pods());
        let mut nodes = BTreeSet::new();
        if let Some(selector) = selector {
            let listed = self.add_pods(&mut reading.objects, namespace, &as_text(selector), &mut nodes).await;
            let note = forbidden(listed, Resource::PODS, Some(namespace))?;
            note.iter().for_each(|note| reading.not_read(Resource::PODS, note));
            let is_empty = reading.objects.pods_for(&service).is_empty();
            if is_empty && reading.known.pods {
                self.near(reading, namespace, selector).await;
                self.pods_elsewhere(reading, namespace, selector).await?;
                self.near_pods(reading, key, selector).await?;
            }
            self.governing_services(reading, &service).await?;
            self.failed_creates(reading, &service).await?;
        }
        if let Some(name) = names_selector(&service) {
            nodes.extend(self.attached(reading, &service, name).await?);
        }
        let all_nodes = needs_all_nodes(&service);
        self.nodes(reading, nodes, all_nodes).await?;
        self.pods_of_slices(reading, &service, all_nodes).await?;
        let pods = reading.objects.pods_for(&service);
        self.warnings(reading, namespace, pods).await?;
        self.services_at_endpoints(reading, key).await?;
        self.unlabelled_slices(reading, &service).await?;
        self.pods_at_their_addresses(reading).await?;
        self.hinted_nodes(reading, std::slice::from_ref(key), all_nodes).await
    }

    /// Reads a pod, the Services of its namespace, and all objects on which the explanations of the
    /// selecting ones depend.
    pub async fn pod(&self, key: &ObjectKey) -> Result<Reading, ReadError> {
        let namespace = &*key.namespace;
        let object = self.subject(Resource::PODS, key).await?;
        let mut reading = Reading::default();
        reading.objects.add(object)?;
        let failed = |failed: Failed| failed.of(Resource::SERVICES, Some(namespace));
        self.add(&mut reading.objects, Resource::SERVICES, Some(namespace), ListParams::default())
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
        let may_be_named =
            |key: &ObjectKey| reading.objects.service(key).is_some_and(|service| service.selector.is_none());
        // Outputs first, as for one Service.
        if selecting.is_empty() || reading.objects.services().any(may_be_named) {
            self.add_or_note(&mut reading, Resource::SLICES, Some(namespace), ListParams::default()).await?;
        } else {
            for service in &selecting {
                self.slices_of(&mut reading, service).await?;
            }
        }
        for service in &selecting {
            self.endpoints_and_events(&mut reading, service).await?;
        }
        self.named_leases(&mut reading).await?;
        let mut nodes = BTreeSet::new();
        let mut all_nodes = false;
        for service in &selecting {
            let Some(service) = reading.objects.service(service).cloned() else { continue };
            all_nodes |= needs_all_nodes(&service);
            let attached = reading.objects.attached_selector(&service).map(ToString::to_string);
            let selector = attached.or_else(|| service.selector.as_ref().map(as_text));
            let Some(selector) = selector.filter(|_| reading.known.pods) else { continue };
            let listed = self.add_pods(&mut reading.objects, namespace, &selector, &mut nodes).await;
            if let Some(note) = forbidden(listed, Resource::PODS, Some(namespace))? {
                // The verdict on a pod does not depend on other pods, but the desired slices do.
                let consequence = "Slices and Endpoints are not compared with what they should be.";
                reading.notes.push(format!("{note} {consequence}"));
                reading.known.pods = false;
                nodes.extend(reading.objects.node_names().iter().map(|name| name.to_string()));
            }
        }
        self.nodes(&mut reading, nodes, all_nodes).await?;
        self.naming(&mut reading, key, &selecting).await?;
        let pods = reading.objects.pods_of(&key.namespace).cloned().collect();
        self.warnings(&mut reading, namespace, pods).await?;
        self.hinted_nodes(&mut reading, &selecting, all_nodes).await?;
        self.policies(&mut reading, Some(namespace)).await?;
        Ok(reading)
    }

    /// Reads what else is at the endpoints of Services that do not select a pod, and whose slices
    /// name it or have its address.
    async fn naming(
        &self,
        reading: &mut Reading,
        key: &ObjectKey,
        selecting: &[ObjectKey],
    ) -> Result<(), ReadError> {
        let Some(pod) = reading.objects.pod(key).cloned() else { return Ok(()) };
        let services = reading.objects.services().filter(|service| !selecting.contains(service));
        let naming = services.filter(|service| reading.objects.is_named_by(service, &pod));
        let naming: Vec<_> = naming.filter_map(|key| reading.objects.service(key).cloned()).collect();
        for service in naming {
            self.pods_of_slices(reading, &service, false).await?;
        }
        Ok(())
    }

    /// Reads all Services of a namespace, or of all namespaces, with all objects on which their
    /// explanations depend. It notes the kinds that the user may not read, but fails without
    /// Services. A namespace that does not exist is an error.
    pub async fn all(&self, namespace: Option<&str>) -> Result<Reading, ReadError> {
        let mut reading = Reading::default();
        let listed =
            self.add(&mut reading.objects, Resource::SERVICES, namespace, ListParams::default()).await;
        listed.map_err(|failed| failed.of(Resource::SERVICES, namespace))?;
        reading.objects.note_listed_services(namespace);
        if let Some(namespace) = namespace.filter(|_| reading.objects.services().next().is_none()) {
            self.check_namespace(namespace).await?;
        }
        self.selectors(&mut reading, namespace).await?;
        // Outputs first, as for one Service.
        for kind in [Resource::SLICES, Resource::ENDPOINTS] {
            self.add_or_note(&mut reading, kind, namespace, ListParams::default()).await?;
        }
        self.named_leases(&mut reading).await?;
        for kind in [Resource::PODS, Resource::NODES] {
            self.add_or_note(&mut reading, kind, namespace, ListParams::default()).await?;
        }
        self.pods_at_their_addresses(&mut reading).await?;
        self.workloads_of_files(&mut reading, namespace).await?;
        self.referrers(&mut reading, namespace).await?;
        self.policies(&mut reading, namespace).await?;
        if !reading.known.nodes {
            let names = reading.objects.node_names();
            reading.assume_nodes(names.iter().map(|name| name.to_string()))?;
        }
        Ok(reading)
    }

    /// Reads the nodes of a Service's pods, or all nodes. If the server forbids that, this assumes
    /// that they are ready. Their zones are not known then, so the explanation cannot compare
    /// slices.
    pub(crate) async fn nodes(
        &self,
        reading: &mut Reading,
        names: BTreeSet<String>,
        all: bool,
    ) -> Result<(), ReadError> {
        let read = if all {
            self.add(&mut reading.objects, Resource::NODES, None, ListParams::default()).await
        } else {
            let names = names.iter().map(String::as_str).collect();
            self.add_named(&mut reading.objects, Resource::NODES, "", names).await
        };
        let Some(note) = forbidden(read, Resource::NODES, None)? else {
            let here = reading.objects.node_names();
            let absent = names.iter().filter(|name| !here.iter().any(|node| **node == ***name));
            absent.for_each(|name| reading.objects.note_absent_node(name));
            return Ok(());
        };
        reading.not_read(Resource::NODES, &note);
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
    ) -> Result<(), ReadError> {
        let is_open = |service| reading.objects.has_hints_for_others(service);
        if all || !reading.known.nodes || !services.iter().any(is_open) {
            return Ok(());
        }
        self.nodes(reading, BTreeSet::new(), true).await
    }

    async fn slices_of(&self, reading: &mut Reading, key: &ObjectKey) -> Result<(), ReadError> {
        let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={}", key.name));
        self.add_or_note(reading, Resource::SLICES, Some(&*key.namespace), of_service).await
    }

    /// Reads the Endpoints and the events of a Service.
    async fn endpoints_and_events(&self, reading: &mut Reading, key: &ObjectKey) -> Result<(), ReadError> {
        let (kind, namespace) = (Resource::ENDPOINTS, Some(&*key.namespace));
        let read = self.add_named(&mut reading.objects, kind, &key.namespace, vec![&*key.name]).await;
        let note = forbidden(read, kind, namespace)?;
        note.iter().for_each(|note| reading.not_read(kind, note));
        // About the Service, its Endpoints, and others of its name, which explanations skip.
        let about = ListParams::default().fields(&format!("involvedObject.name={}", key.name));
        self.add_or_note(reading, Resource::EVENTS, namespace, about).await
    }

    /// Reads the NetworkPolicies of a namespace, or of all.
    pub(crate) async fn policies(
        &self,
        reading: &mut Reading,
        namespace: Option<&str>,
    ) -> Result<(), ReadError> {
        let kind = Resource::v1("networking.k8s.io", "NetworkPolicy", "networkpolicies");
        if !self.add_optional(&mut reading.objects, kind, namespace).await?
            && let Some(namespace) = namespace
        {
            reading.objects.note_policies_unread(namespace);
        }
        Ok(())
    }

    /// Reads the warnings about pods that are on a node and not ready: they have the words of
    /// probes, and nothing else tells why a pod gets no address. A few of them stand for all.
    async fn warnings(
        &self,
        reading: &mut Reading,
        namespace: &str,
        mut pods: Vec<Arc<Pod>>,
    ) -> Result<(), ReadError> {
        pods.retain(|pod| {
            pod.node_name.is_some() && !pod.is_ready() && !pod.is_terminal() && !pod.is_terminating()
        });
        pods.sort_by_key(|pod| pod.has_pod_ip);
        let names: Vec<Text> = pods.iter().take(WARNED).map(|pod| pod.key.name.clone()).collect();
        for name in names {
            let about = format!("involvedObject.kind=Pod,involvedObject.name={name},type=Warning");
            let params = ListParams::default().fields(&about);
            let read = self.add(&mut reading.objects, Resource::EVENTS, Some(namespace), params).await;
            // A note says already that events may not be read.
            if forbidden(read, Resource::EVENTS, Some(namespace))?.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Reads the metadata of pods that lack one requirement of a selector, or that meet it under a
    /// well-known label of the same meaning, at most a page for each.
    pub(crate) async fn near(&self, reading: &mut Reading, namespace: &str, selector: &StringMap) {
        let lacking = selector.iter().map(|(label, _)| as_text(&selector.without(label)));
        let others = selector
            .iter()
            .flat_map(|(label, value)| other_keys_of(label).map(move |other| format!("{other}={value}")));
        // At last all: some may have the name of the Service.
        let all = lacking.chain(others).chain([String::new()]).collect();
        self.add_metadata(reading, namespace, all).await;
    }

    /// Reads the metadata of the pods that these selectors select, at most a page for each, and all
    /// pods for an empty selector if those before it have found none.
    pub(crate) async fn add_metadata(&self, reading: &mut Reading, namespace: &str, selectors: Vec<String>) {
        let mut found = reading.metadata.take().unwrap_or_default();
        let mut seen: HashSet<Text> = found.iter().map(|(name, _)| name.clone()).collect();
        let known = found.len();
        let api = self.api(Resource::PODS, Some(namespace));
        for labels in selectors {
            if labels.is_empty() && found.len() > known {
                break;
            }
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
                    if has_more {
                        reading.objects.note_more_pods();
                    } else if labels.is_empty() {
                        // These are all pods of the namespace.
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

/// Waits for the answers of requests, a few at a time.
pub(crate) async fn at_once<T>(requests: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    stream::iter(requests).buffered(AT_ONCE).collect().await
}

/// Returns false if no object can have such a name. A reference, such as that of an owner, may
/// contain any text, which would lead to another path.
pub(crate) fn can_be_a_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..")
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.'))
}

/// Returns a selector as a query parameter.
pub(crate) fn as_text(selector: &StringMap) -> String {
    selector.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// Returns an object as JSON with its kind, which the items of a list lack.
pub(crate) fn json_of(kind: Resource, object: &DynamicObject) -> Value {
    // It consists of JSON, so this cannot fail.
    let mut json = serde_json::to_value(object).unwrap_or_default();
    json["kind"] = kind.kind.into();
    json["apiVersion"] = kind.api_version().into();
    json
}
