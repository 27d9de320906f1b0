//! The objects that explanations read, from a cluster or from files, indexed by their Services.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use kube_endpoint_core_model::maker::{CONTROLLERS, Content, Keep, Provenance};
use kube_endpoint_core_model::well_known::{
    LABEL_ENDPOINTS_MANAGED_BY, LABEL_MANAGED_BY, SELECTOR_CONTROLLER, SELECTOR_GROUP,
};
use kube_endpoint_core_model::{
    EndpointSelector, EndpointSlice, Endpoints, Intern, Interner, LabelSelector, Node, ObjectKey,
    ObjectReference, Pod, Service, StringMap, Text, Timestamp, address,
};
use kube_endpoint_slice_plan::TopologyState;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::facts::attached::CLASSES;
use crate::facts::defaults;
use crate::facts::details::{self, LastWrite, PodDetails, RecentEvent};
use crate::facts::external_name;
use crate::facts::json::{each, number};
use crate::facts::lease::Lease;
use crate::facts::output_kind::OutputKind;
use crate::facts::policy::{Direction, Policy};
use crate::facts::raw::RawFields;
use crate::facts::references::{self, Grant, Reference, Referrer};
use crate::facts::signs::{Signs, by_controller};
use crate::facts::workload::{Rollout, WORKLOADS, Workload};

/// The reason why an object cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    #[error("an object has no `kind`; expected one of Kubernetes' objects, or a List of them")]
    NoKind,
    /// A field is not as the API defines it.
    #[error("{kind} {name:?}: {source}")]
    Invalid {
        kind: String,
        /// The name, or empty.
        name: String,
        source: serde_json::Error,
    },
}

/// Objects of a cluster, or of a part of it.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    pub(crate) services: BTreeMap<ObjectKey, Arc<Service>>,
    pub(crate) pods: BTreeMap<ObjectKey, Arc<Pod>>,
    pub(crate) nodes: BTreeMap<Text, Arc<Node>>,
    /// The number of nodes of each zone.
    pub(crate) zones: BTreeMap<Text, usize>,
    /// Slices by the Service that their label names.
    pub(crate) slices: BTreeMap<ObjectKey, Vec<Arc<EndpointSlice>>>,
    pub(crate) endpoints: BTreeMap<ObjectKey, Arc<Endpoints>>,
    pub(crate) endpoint_selectors: BTreeMap<ObjectKey, Arc<EndpointSelector>>,
    /// Leases that EndpointSelectors name and that could not be read.
    pub(crate) unread_leases: BTreeSet<ObjectKey>,
    /// Leases that EndpointSelectors may name.
    pub(crate) named_leases: BTreeMap<ObjectKey, Arc<kube_endpoint_core_model::Lease>>,
    /// The Leases of kube-endpoint-manager and of its add-on in all namespaces, if they were read.
    pub(crate) manager_leases: Option<Vec<Lease>>,
    /// True if the cluster does not serve EndpointSelectors.
    pub(crate) serves_no_selectors: bool,
    /// The last writes of slices and Endpoints.
    pub(crate) slice_writes: HashMap<ObjectKey, LastWrite>,
    pub(crate) endpoints_writes: HashMap<ObjectKey, LastWrite>,
    /// Slices and Endpoints that no take-over deletes.
    kept_slices: HashMap<ObjectKey, Keep>,
    kept_endpoints: HashMap<ObjectKey, Keep>,
    /// True if some object has `managedFields`. kubectl leaves them out of files.
    shows_managers: bool,
    /// The times at which pods were created, or the later ones at which somebody deleted them.
    pub(crate) pods_changed: HashMap<ObjectKey, Timestamp>,
    /// The uids of pods that slices named and that did not exist when the caller read the cluster
    /// before.
    gone_before: Option<BTreeSet<Text>>,
    /// The details of pods that receive no traffic.
    pub(crate) pod_details: HashMap<ObjectKey, Arc<PodDetails>>,
    /// Events about Services, and about their Endpoints.
    pub(crate) events: HashMap<ObjectKey, Vec<RecentEvent>>,
    /// Warnings about pods, and that an image is being pulled.
    pub(crate) pod_events: HashMap<ObjectKey, Vec<RecentEvent>>,
    /// The Leases of the programs that run the controllers.
    pub(crate) leases: Vec<Lease>,
    /// Signs that the controllers work, from objects that are not here.
    pub(crate) seen: Signs,
    /// Services with a selector that are not here, and the times of their creation if they have no
    /// slice.
    pub(crate) others: Vec<(ObjectKey, Option<Option<Timestamp>>)>,
    /// The places in other objects that name Services, by Service.
    references: BTreeMap<ObjectKey, BTreeSet<Reference>>,
    /// Those objects, and what their controllers say about them.
    pub(crate) referrers: BTreeMap<Referrer, Vec<String>>,
    /// Permissions for references from other namespaces.
    pub(crate) grants: Vec<Grant>,
    /// True if these could not be read.
    pub(crate) grants_unread: bool,
    /// The NetworkPolicies that limit who reaches pods.
    policies: BTreeMap<ObjectKey, Policy>,
    /// The namespaces whose policies could not be read.
    pub(crate) policies_unread: BTreeSet<Text>,
    /// Workloads, by key and kind.
    workloads: BTreeMap<(ObjectKey, Text), Arc<Workload>>,
    /// The fields that views lack.
    pub(crate) raw: RawFields,
    /// The kinds that no explanation reads.
    skipped: BTreeSet<String>,
    /// Pods by namespace and label.
    pub(crate) by_label: HashMap<(Text, Text, Text), Vec<Arc<Pod>>>,
    repeated: Repeated,
}

/// The shared parts of many objects. A copy of the objects starts with an empty set.
#[derive(Debug, Default)]
struct Repeated(Interner);

impl Clone for Repeated {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Returns true if a container of a pod was started more than once: its restarts matter although
/// the pod is ready.
fn has_restarted(pod: &Value) -> bool {
    let lists = ["containerStatuses", "initContainerStatuses"].map(|list| each(&pod["status"][list]));
    lists.into_iter().flatten().any(|one| number(&one["restartCount"]) > 0)
}

fn extend_events(all: &mut HashMap<ObjectKey, Vec<RecentEvent>>, more: HashMap<ObjectKey, Vec<RecentEvent>>) {
    more.into_iter().for_each(|(about, events)| all.entry(about).or_default().extend(events));
}

/// Returns true if an event about a pod tells what keeps it from starting, or that an image is
/// being pulled.
fn matters(event: &RecentEvent) -> bool {
    *event.event_type == *"Warning" || *event.reason == *"Pulling"
}

impl Objects {
    /// Returns an empty set of objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads objects, or Lists of them. An object without a namespace is in the namespace
    /// `default`, and one without a version gets the defaults of the API server for the fields that
    /// the plans read. A later object replaces an earlier one of the same key.
    ///
    /// # Errors
    ///
    /// The first object that cannot be read.
    pub fn read(objects: impl IntoIterator<Item = Value>) -> Result<Self, ObjectError> {
        let mut all = Self::new();
        for object in objects {
            all.add(object)?;
        }
        Ok(all)
    }

    /// Adds an object or a List. It skips kinds that no explanation reads; see
    /// [`Self::take_skipped_kinds`].
    ///
    /// # Errors
    ///
    /// The first object that cannot be read.
    pub fn add(&mut self, mut object: Value) -> Result<(), ObjectError> {
        let kind = object["kind"].as_str().ok_or(ObjectError::NoKind)?.to_owned();
        if let Some(item_kind) = kind.strip_suffix("List") {
            let Value::Array(items) = object["items"].take() else { return Ok(()) };
            for mut item in items {
                if item["kind"].is_null() && !item_kind.is_empty() {
                    item["kind"] = item_kind.into();
                }
                self.add(item)?;
            }
            return Ok(());
        }
        defaults::set(&mut object, &kind);
        self.raw.read(&kind, &object);
        self.note_kept(&kind, &object);
        match &*kind {
            "Service" => self.add_service(view::<Service>(&object, &kind)?),
            "Pod" => self.read_pod(&object)?,
            "Node" => self.add_node(Arc::new(view(&object, &kind)?)),
            "EndpointSlice" => {
                let last_write = details::last_write(&object);
                let mut slice: EndpointSlice = view(&object, &kind)?;
                slice.intern(&mut self.repeated.0);
                self.add_slice(Arc::new(slice), last_write);
            }
            "Endpoints" => {
                let last_write = details::last_write(&object);
                let mut endpoints: Endpoints = view(&object, &kind)?;
                endpoints.intern(&mut self.repeated.0);
                self.add_endpoints(endpoints, last_write);
            }
            "EndpointSelector" if is_of_group(&object) => {
                let mut selector: EndpointSelector = view(&object, &kind)?;
                selector.intern(&mut self.repeated.0);
                self.add_endpoint_selector(Arc::new(selector));
            }
            "Event" => {
                let (about, key, event) =
                    details::event(&object).map_err(|source| invalid(&object, &kind, source))?;
                if matches!(&*about, "Service" | "Endpoints") {
                    self.events.entry(key).or_default().push(event);
                } else if *about == *"Pod" && matters(&event) {
                    self.pod_events.entry(key).or_default().push(event);
                }
            }
            "Lease" => {
                self.leases.push(Lease::read(&object));
                self.add_lease(Arc::new(view(&object, &kind)?));
            }
            "ReferenceGrant" => self.grants.extend(Grant::read(&object)),
            "NetworkPolicy" => {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
                let key = ObjectKey::new(text("namespace"), text("name"));
                match Policy::read(&object) {
                    Some(policy) => self.policies.insert(key, policy),
                    None => self.policies.remove(&key),
                };
            }
            workload if WORKLOADS.contains(&workload) => {
                if let Some(workload) = Workload::read(&kind, &object) {
                    self.workloads.insert((workload.key.clone(), kind.into()), Arc::new(workload));
                }
            }
            _ => match references::referrer(&kind, &object) {
                Some(referrer) => self.add_referrer(referrer, &object),
                None if CLASSES.contains(&&*kind) => {}
                None => {
                    self.skipped.insert(kind);
                }
            },
        }
        Ok(())
    }

    fn read_pod(&mut self, object: &Value) -> Result<(), ObjectError> {
        let mut pod: Pod = view(object, "Pod")?;
        pod.intern(&mut self.repeated.0);
        let changed = details::last_change(&object["metadata"]);
        self.pods_changed.extend(changed.map(|time| (pod.key.clone(), time)));
        let are_needed = PodDetails::are_needed(&pod) || pod.is_terminating() || has_restarted(object);
        let details = are_needed.then(|| PodDetails::read(object, &mut self.repeated.0));
        let key = pod.key.clone();
        self.add_pod(Arc::new(pod));
        self.pod_details.extend(details.map(|details| (key, Arc::new(details))));
        Ok(())
    }

    /// Adds the objects of another set. They replace earlier ones of the same key.
    pub fn extend(&mut self, other: Self) {
        let Self {
            services,
            pods,
            nodes,
            zones: _,
            slices,
            endpoints,
            endpoint_selectors,
            unread_leases,
            named_leases,
            manager_leases,
            serves_no_selectors,
            slice_writes,
            endpoints_writes,
            kept_slices,
            kept_endpoints,
            shows_managers,
            pods_changed,
            gone_before,
            pod_details,
            events,
            pod_events,
            leases,
            seen,
            others,
            references,
            referrers,
            grants,
            grants_unread,
            policies,
            policies_unread,
            workloads,
            raw,
            skipped,
            by_label,
            repeated: _,
        } = other;
        match self.pods.is_empty() {
            true => (self.pods, self.by_label) = (pods, by_label),
            false => pods.into_values().for_each(|pod| self.add_pod(pod)),
        }
        // An earlier object of the same key may have had what this one lacks.
        services.keys().for_each(|key| self.raw.forget_service(key));
        endpoints.keys().for_each(|key| drop(self.kept_endpoints.remove(key)));
        for node in nodes.into_values() {
            self.raw.nodes.remove(&node.name);
            self.add_node(node);
        }
        slices.into_values().flatten().for_each(|slice| self.replace_slice(slice));
        self.services.extend(services);
        self.endpoints.extend(endpoints);
        self.endpoint_selectors.extend(endpoint_selectors);
        self.unread_leases.extend(unread_leases);
        self.named_leases.extend(named_leases);
        self.manager_leases = manager_leases.or(self.manager_leases.take());
        self.serves_no_selectors |= serves_no_selectors;
        self.slice_writes.extend(slice_writes);
        self.endpoints_writes.extend(endpoints_writes);
        self.kept_slices.extend(kept_slices);
        self.kept_endpoints.extend(kept_endpoints);
        self.shows_managers |= shows_managers;
        self.pods_changed.extend(pods_changed);
        self.gone_before = gone_before.or(self.gone_before.take());
        self.pod_details.extend(pod_details);
        extend_events(&mut self.events, events);
        extend_events(&mut self.pod_events, pod_events);
        self.leases.extend(leases);
        self.seen.extend(seen);
        self.others.extend(others);
        for reference in references.into_values().flatten() {
            self.add_reference(reference);
        }
        self.referrers.extend(referrers);
        self.grants.extend(grants);
        self.grants_unread |= grants_unread;
        self.policies.extend(policies);
        self.policies_unread.extend(policies_unread);
        self.workloads.extend(workloads);
        self.raw.extend(raw);
        self.skipped.extend(skipped);
    }

    fn replace_slice(&mut self, slice: Arc<EndpointSlice>) {
        let key = slice.key();
        self.raw.note_label(&key);
        self.kept_slices.remove(&key);
        self.add_slice(slice, None);
    }

    /// Adds an object that names Services. It replaces an earlier one.
    fn add_referrer(&mut self, referrer: Referrer, object: &Value) {
        let reported = references::reported(&referrer, object);
        if self.referrers.insert(referrer.clone(), reported).is_some() {
            self.references.values_mut().for_each(|all| all.retain(|it| it.from != referrer));
        }
        references::references(&referrer, object).into_iter().for_each(|it| self.add_reference(it));
    }

    fn add_reference(&mut self, reference: Reference) {
        self.references.entry(reference.service.clone()).or_default().insert(reference);
    }

    /// Returns a workload.
    pub(crate) fn workload(&self, kind: &str, key: &ObjectKey) -> Option<&Workload> {
        self.workloads.get(&(key.clone(), kind.into())).map(|workload| &**workload)
    }

    /// Returns the workloads of a namespace that no other workload owns.
    pub(crate) fn workloads_of<'o>(&'o self, namespace: &'o Text) -> impl Iterator<Item = &'o Workload> {
        self.all_workloads_of(namespace).filter(|workload| !workload.is_owned)
    }

    /// Returns the ReplicaSets of the Deployments of a namespace.
    pub(crate) fn rollouts_of<'o>(
        &'o self,
        namespace: &'o Text,
    ) -> impl Iterator<Item = (&'o Workload, &'o Rollout)> {
        self.all_workloads_of(namespace).filter_map(|workload| Some((workload, workload.rollout.as_ref()?)))
    }

    fn all_workloads_of<'o>(&'o self, namespace: &'o Text) -> impl Iterator<Item = &'o Workload> {
        let first = (ObjectKey { namespace: namespace.clone(), name: "".into() }, "".into());
        let from = self.workloads.range(first..).map(|(_, workload)| &**workload);
        from.take_while(move |workload| workload.key.namespace == *namespace)
    }

    /// Returns the NetworkPolicies of a namespace.
    pub(crate) fn policies_of<'o>(&'o self, namespace: &'o Text) -> impl Iterator<Item = &'o Policy> {
        let first = ObjectKey { namespace: namespace.clone(), name: "".into() };
        let from = self.policies.range(first..).take_while(move |(key, _)| key.namespace == *namespace);
        from.map(|(_, policy)| policy)
    }

    /// Returns the names of the Endpoints of a namespace that somebody has written, that have
    /// addresses, and that have no Service.
    pub(crate) fn lone_endpoints<'o>(&'o self, namespace: &'o Text) -> impl Iterator<Item = &'o str> {
        let first = ObjectKey { namespace: namespace.clone(), name: "".into() };
        let from = self.endpoints.range(first..).take_while(move |(key, _)| key.namespace == *namespace);
        let is_written = |endpoints: &Endpoints| {
            let labels = &endpoints.metadata.labels;
            endpoints.subsets.counts() != (0, 0) && labels.get(LABEL_ENDPOINTS_MANAGED_BY).is_none()
        };
        let lone = from.filter(move |(key, it)| self.service(key).is_none() && is_written(it));
        lone.map(|(key, _)| &*key.name)
    }

    /// Notes that the NetworkPolicies of a namespace could not be read.
    pub fn note_policies_unread(&mut self, namespace: &str) {
        self.policies_unread.insert(namespace.into());
    }

    /// Returns the namespaces whose labels decide if NetworkPolicies let a client connect to the
    /// pods of a Service.
    pub fn deciding_namespaces(&self, service: &ObjectKey, client: &ObjectKey) -> BTreeSet<Text> {
        let asks = |of: &ObjectKey, direction| {
            self.policies_of(&of.namespace).any(|policy| policy.asks_for_namespaces(direction))
        };
        let of_client = asks(service, Direction::Ingress).then(|| client.namespace.clone());
        let of_service = asks(client, Direction::Egress).then(|| service.namespace.clone());
        of_client.into_iter().chain(of_service).collect()
    }

    /// Notes that the permissions for references from other namespaces could not be read.
    pub fn note_grants_unread(&mut self) {
        self.grants_unread = true;
    }

    /// Returns the places in other objects that name a Service.
    pub(crate) fn references_to(&self, service: &ObjectKey) -> impl Iterator<Item = &Reference> {
        self.references.get(service).into_iter().flatten()
    }

    /// Returns the objects that send clients to Services.
    pub fn referrers(&self) -> impl Iterator<Item = &Referrer> {
        self.referrers.keys()
    }

    /// Returns the places in other objects that name Services, by Service.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.references.values().flatten()
    }

    /// Notes a slice or Endpoints that controllers keep, since no controller made it.
    fn note_kept(&mut self, kind: &str, object: &Value) {
        let (content, kept) = match kind {
            "EndpointSlice" => (Content::Slice, &mut self.kept_slices),
            "Endpoints" => (Content::Endpoints, &mut self.kept_endpoints),
            _ => return,
        };
        let Ok(made) = Provenance::deserialize(&object["metadata"]) else { return };
        self.shows_managers |= made.shows_managers();
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let key = ObjectKey::new(text("namespace"), text("name"));
        match made.reason_to_keep(content, &CONTROLLERS) {
            None => kept.remove(&key),
            Some(keep) => kept.insert(key, keep),
        };
    }

    /// Returns why no take-over deletes a slice, or `None` if a controller made it or nobody knows.
    pub(crate) fn slice_stays(&self, slice: &ObjectKey) -> Option<&Keep> {
        self.kept_slices.get(slice).filter(|keep| self.shows_managers || **keep != Keep::Unknown)
    }

    /// The same of Endpoints.
    pub(crate) fn endpoints_stay(&self, endpoints: &ObjectKey) -> Option<&Keep> {
        self.kept_endpoints.get(endpoints).filter(|keep| self.shows_managers || **keep != Keep::Unknown)
    }

    /// Returns the kinds of the objects that this has skipped since the last call.
    pub fn take_skipped_kinds(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.skipped)
    }

    /// Returns the uids of the pods that slices name, and that are not here.
    pub fn gone_pods(&self) -> BTreeSet<Text> {
        let endpoints = self.slices().flat_map(|slice| &slice.endpoints);
        let targets = endpoints.filter_map(|endpoint| endpoint.target_ref.as_ref());
        let is_here = |target: &ObjectReference| {
            let key = ObjectKey { namespace: target.namespace.clone(), name: target.name.clone() };
            self.pod(&key).is_some_and(|pod| pod.uid == target.uid)
        };
        let gone = targets.filter(|target| *target.kind == *"Pod" && !is_here(target));
        gone.map(|target| target.uid.clone()).collect()
    }

    /// Notes the pods that were gone when the caller read the cluster before, some seconds ago. A
    /// write that takes others out of the slices may be under way.
    pub fn note_gone_before(&mut self, gone: BTreeSet<Text>) {
        self.gone_before = Some(gone);
    }

    /// Returns true if a pod does not exist any more, and not only since a moment ago.
    pub(crate) fn is_gone(&self, key: &ObjectKey, uid: &Text) -> bool {
        let is_here = self.pod(key).is_some_and(|pod| uid.is_empty() || pod.uid == *uid);
        !is_here && self.gone_before.as_ref().is_none_or(|before| before.contains(uid))
    }

    /// Adds a Service.
    pub fn add_service(&mut self, service: impl Into<Arc<Service>>) {
        let service = service.into();
        self.services.insert(service.key.clone(), service);
    }

    /// Notes that a Service does not exist.
    pub fn note_absent_service(&mut self, service: ObjectKey) {
        self.raw.absent_services.insert(service);
    }

    /// Notes that all Services of a namespace, or of all namespaces, were read.
    pub fn note_listed_services(&mut self, namespace: Option<&str>) {
        self.raw.note_listed_services(namespace.map(Text::from));
    }

    /// Notes that a node does not exist.
    pub fn note_absent_node(&mut self, node: &str) {
        self.raw.absent_nodes.insert(node.into());
    }

    /// Notes that a Service was left out, since one explanation would read too many.
    pub fn note_unread_service(&mut self, service: ObjectKey) {
        self.raw.unread_services.insert(service);
    }

    /// Notes that pods near a selector were left out, since a list of them was too long.
    pub fn note_more_pods(&mut self) {
        self.raw.has_more_pods = true;
    }

    /// Notes that a Gateway or a class does not exist.
    pub fn note_absent(&mut self, object: Referrer) {
        self.raw.absent.insert(object);
    }

    /// Returns the Gateways and classes that objects name and that were not read.
    pub fn named_and_unread(&self) -> BTreeSet<Referrer> {
        let named = self.raw.attached.values().flat_map(|it| &it.to).map(|parent| &parent.object);
        let is_read = |it: &Referrer| self.raw.classes.contains(it) || self.referrers.contains_key(it);
        named.filter(|it| !is_read(it)).cloned().collect()
    }

    /// Returns the Service that the alias of another one means.
    pub fn alias_of(&self, service: &ObjectKey) -> Option<ObjectKey> {
        external_name::service_of(self.raw.external_names.get(service)?)
    }

    /// Adds a pod. An explanation says less about it than about one that [`Self::add`] reads.
    pub fn add_pod(&mut self, pod: Arc<Pod>) {
        self.pod_details.remove(&pod.key);
        if let Some(old) = self.pods.insert(pod.key.clone(), Arc::clone(&pod)) {
            for (label, value) in old.labels.iter() {
                let key = (old.key.namespace.clone(), label.clone(), value.clone());
                if let Some(pods) = self.by_label.get_mut(&key) {
                    pods.retain(|other| other.key != old.key);
                }
            }
        }
        for (label, value) in pod.labels.iter() {
            let key = (pod.key.namespace.clone(), label.clone(), value.clone());
            self.by_label.entry(key).or_default().push(Arc::clone(&pod));
        }
    }

    /// Returns all slices that name a Service.
    pub fn slices(&self) -> impl Iterator<Item = &EndpointSlice> {
        self.slices.values().flatten().map(|slice| &**slice)
    }

    /// Returns all nodes.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.values().cloned().collect()
    }

    /// Adds a node.
    pub fn add_node(&mut self, node: Arc<Node>) {
        let zone = |node: &Node| node.zone.clone().unwrap_or_default();
        *self.zones.entry(zone(&node)).or_default() += 1;
        let Some(before) = self.nodes.insert(node.name.clone(), node) else { return };
        let zone = zone(&before);
        if let Some(count) = self.zones.get_mut(&zone) {
            *count -= 1;
            if *count == 0 {
                self.zones.remove(&zone);
            }
        }
    }

    /// Adds a slice, and its last write. It skips a slice without the label with the Service's
    /// name.
    pub fn add_slice(&mut self, slice: Arc<EndpointSlice>, last_write: Option<LastWrite>) {
        let key = slice.key();
        self.slice_writes.extend(last_write.map(|write| (key.clone(), write)));
        let Some(service) = slice.service_key() else { return };
        let slices = self.slices.entry(service).or_default();
        slices.retain(|other| other.metadata.name != key.name);
        let at = slices.partition_point(|other| other.metadata.name < key.name);
        slices.insert(at, slice);
    }

    /// Adds Endpoints, and their last write.
    pub fn add_endpoints(&mut self, endpoints: impl Into<Arc<Endpoints>>, last_write: Option<LastWrite>) {
        let endpoints = endpoints.into();
        let key = endpoints.key();
        self.endpoints_writes.extend(last_write.map(|write| (key.clone(), write)));
        self.endpoints.insert(key, endpoints);
    }

    /// Notes the last write of a slice or of Endpoints from its `metadata`, as a sign that a
    /// controller works. The object itself is not added.
    pub fn note_write(&mut self, kind: OutputKind, metadata: &Value) {
        let write = details::last_write_of(metadata);
        let is_attached = metadata["labels"][LABEL_MANAGED_BY] == SELECTOR_CONTROLLER;
        let sign = match kind {
            OutputKind::EndpointSlice if is_attached => &mut self.seen.attached,
            OutputKind::EndpointSlice => &mut self.seen.slices,
            OutputKind::Endpoints => &mut self.seen.endpoints,
        };
        *sign = (*sign).max(write.as_ref().and_then(by_controller));
    }

    /// Notes a Service that a controller has to serve, as a sign that none does if it has no slice.
    /// The Service itself is not added.
    pub fn note_service(&mut self, service: &Service, has_slice: bool) {
        if service.selects_pods() {
            let waits = (!has_slice).then_some(service.creation_timestamp);
            self.others.push((service.key.clone(), waits));
        }
    }

    /// Returns the keys of all Services, sorted.
    pub fn services(&self) -> impl Iterator<Item = &ObjectKey> {
        self.services.keys()
    }

    /// Returns a Service.
    pub fn service(&self, key: &ObjectKey) -> Option<&Arc<Service>> {
        self.services.get(key)
    }

    /// Returns true if a selector matches the labels of a Service, or, if the Service does not
    /// exist, those of a slice or Endpoints of its name.
    pub fn is_selected(&self, service: &ObjectKey, selector: &LabelSelector) -> bool {
        let matches = |labels: &StringMap| selector.matches(labels);
        match self.service(service) {
            Some(service) => matches(&service.labels),
            None => {
                let mut slices = self.slices_of(service).iter();
                slices.any(|slice| matches(&slice.metadata.labels))
                    || self.endpoints_of(service).is_some_and(|it| matches(&it.metadata.labels))
            }
        }
    }

    /// Returns a pod.
    pub fn pod(&self, key: &ObjectKey) -> Option<&Arc<Pod>> {
        self.pods.get(key)
    }

    /// Returns the pods that a selector of a namespace selects, sorted by name. Looks only at the
    /// pods that have the rarest of its labels.
    pub fn selected(&self, namespace: &Text, selector: &StringMap) -> Vec<Arc<Pod>> {
        if selector.is_empty() {
            return self.pods_of(namespace).cloned().collect();
        }
        let with_label = |(label, value): (&Text, &Text)| {
            let key = (namespace.clone(), label.clone(), value.clone());
            self.by_label.get(&key).map_or(&[][..], Vec::as_slice)
        };
        let rarest = selector.iter().map(with_label).min_by_key(|pods| pods.len()).unwrap_or_default();
        let mut pods: Vec<Arc<Pod>> =
            rarest.iter().filter(|pod| selector.selects(&pod.labels)).cloned().collect();
        pods.sort_by(|one, other| one.key.name.cmp(&other.key.name));
        pods
    }

    /// Returns the pods of a namespace, sorted by name.
    pub fn pods_of(&self, namespace: &Text) -> impl Iterator<Item = &Arc<Pod>> {
        let first = ObjectKey { namespace: namespace.clone(), name: "".into() };
        self.pods.range(first..).map(|(_, pod)| pod).take_while(move |pod| pod.key.namespace == *namespace)
    }

    /// Returns the pods of the namespace of an object whose names begin with its name.
    pub(crate) fn pods_named<'o>(&'o self, key: &'o ObjectKey) -> impl Iterator<Item = &'o Arc<Pod>> {
        let from = self.pods.range(key.clone()..).map(|(_, pod)| pod);
        let is_named = |pod: &Pod| pod.key.namespace == key.namespace && pod.key.name.starts_with(&*key.name);
        from.take_while(move |pod| is_named(pod))
    }

    /// Returns names and labels of the pods of a namespace, sorted by name.
    pub(crate) fn labels_of(&self, namespace: &Text) -> impl Iterator<Item = (&Text, &StringMap)> {
        self.pods_of(namespace).map(|pod| (&pod.key.name, &pod.labels))
    }

    /// Returns the addresses of the ready endpoints of a Service that name no pod: those that
    /// somebody has written by hand.
    pub fn written_addresses(&self, service: &ObjectKey) -> BTreeSet<IpAddr> {
        let slices = self.slices_of(service).iter();
        let endpoints = slices.flat_map(|slice| &slice.endpoints).filter(|endpoint| {
            let is_pod = endpoint.target_ref.as_ref().is_some_and(|target| *target.kind == *"Pod");
            endpoint.conditions.ready != Some(false) && !is_pod
        });
        endpoints.flat_map(|it| &it.addresses).filter_map(|text| address::parse_sloppy(text)).collect()
    }

    /// Returns true if slices of a Service have a hint for a node or a zone that does not exist
    /// here.
    pub fn has_hints_for_others(&self, service: &ObjectKey) -> bool {
        let endpoints = self.slices_of(service).iter().flat_map(|slice| &slice.endpoints);
        endpoints.filter_map(|endpoint| endpoint.hints.as_deref()).any(|hints| {
            hints.for_zones.iter().any(|hint| !self.zones.contains_key(&hint.name))
                || hints.for_nodes.iter().any(|hint| !self.nodes.contains_key(&hint.name))
        })
    }

    /// Returns the addresses of the pods that are not in the network of their node.
    pub fn addresses_of_pods(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let pods = self.pods.values().filter(|pod| !pod.host_network);
        pods.flat_map(|pod| pod.pod_ips.iter().copied())
    }

    /// Returns the names of the nodes that pods are bound to.
    pub fn node_names(&self) -> BTreeSet<Text> {
        self.pods.values().filter_map(|pod| pod.node_name.clone()).collect()
    }

    /// Returns the distribution of the CPU of all nodes over zones.
    pub fn topology(&self) -> TopologyState {
        TopologyState::from_nodes(self.nodes.values().map(|node| &**node))
    }

    /// Returns the slices that are labelled with a Service's name, sorted by name.
    pub fn slices_of(&self, service: &ObjectKey) -> &[Arc<EndpointSlice>] {
        self.slices.get(service).map_or(&[], Vec::as_slice)
    }

    /// Returns the Endpoints of a name.
    pub fn endpoints_of(&self, key: &ObjectKey) -> Option<&Endpoints> {
        self.endpoints.get(key).map(|endpoints| &**endpoints)
    }
}

/// Returns true if an explanation looks at nodes without a pod of the Service: the share of each
/// zone's CPU, or nodes whose clients have no endpoint because a traffic policy is `Local`.
pub fn needs_all_nodes(service: &Service) -> bool {
    service.topology_hints_enabled() || service.policies.uses_local()
}

/// Reads a view of an object.
fn view<T: DeserializeOwned>(object: &Value, kind: &str) -> Result<T, ObjectError> {
    T::deserialize(object).map_err(|source| invalid(object, kind, source))
}

fn invalid(object: &Value, kind: &str, source: serde_json::Error) -> ObjectError {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    ObjectError::Invalid { kind: kind.to_owned(), name, source }
}

/// Returns true if an object is an EndpointSelector of this project. Without a version it is.
pub(crate) fn is_of_group(object: &serde_json::Value) -> bool {
    let group = object["apiVersion"].as_str().map(|version| version.split('/').next());
    group.is_none_or(|group| group == Some(SELECTOR_GROUP))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, labels: &Value) -> Value {
        json!({"kind": "Pod", "metadata": {"name": name, "labels": labels}})
    }

    fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
        pods.iter().map(|pod| &*pod.key.name).collect()
    }

    #[test]
    fn pods_are_selected_by_all_labels() {
        let objects = Objects::read([
            pod("b", &json!({"app": "web", "tier": "x"})),
            pod("a", &json!({"app": "web", "tier": "x"})),
            pod("c", &json!({"app": "web"})),
            json!({"kind": "Pod", "metadata": {"name": "d", "namespace": "other", "labels": {"app": "web", "tier": "x"}}}),
        ])
        .unwrap();
        let check = |selector: &[(&str, &str)], want: &[&str]| {
            let selector = selector.iter().copied().collect();
            assert_eq!(names(&objects.selected(&"default".into(), &selector)), want);
        };
        check(&[("app", "web"), ("tier", "x")], &["a", "b"]);
        check(&[("app", "web")], &["a", "b", "c"]);
        check(&[("app", "api")], &[]);
        check(&[], &["a", "b", "c"]);
    }

    #[test]
    fn a_later_pod_replaces_an_earlier_one() {
        let objects =
            Objects::read([pod("a", &json!({"app": "web"})), pod("a", &json!({"app": "api"}))]).unwrap();
        let selector = [("app", "web")].into_iter().collect();
        assert_eq!(names(&objects.selected(&"default".into(), &selector)), [""; 0]);
    }

    #[test]
    fn a_set_that_is_added_is_as_if_its_objects_were() {
        let labels = |app: &str| json!({"app": app});
        let node = |zone: &str| json!({"kind": "Node", "metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": zone}}});
        let slice = |name: &str| json!({"kind": "EndpointSlice", "addressType": "IPv4", "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "web"}}});
        let event = |name: &str| json!({"kind": "Event", "metadata": {"name": name}, "reason": "R", "involvedObject": {"kind": "Service", "name": "web"}});
        let first = [pod("a", &labels("web")), pod("b", &labels("web")), node("x"), slice("two"), event("e")];
        let second = [pod("a", &labels("api")), node("y"), slice("one"), event("f")];
        let mut both = Objects::read(first.clone()).unwrap();
        both.extend(Objects::read(second.clone()).unwrap());
        let want = Objects::read(first.into_iter().chain(second)).unwrap();
        let text = |objects: &Objects| {
            let Objects { pods, nodes, zones, slices, events, kept_slices, .. } = objects;
            let kept = ["one", "two"].map(|name| kept_slices.get(&ObjectKey::new("default", name)));
            let web = [("app", "web")].into_iter().collect();
            let selected = objects.selected(&"default".into(), &web);
            format!("{pods:?} {nodes:?} {zones:?} {slices:?} {events:?} {kept:?} {selected:?}")
        };
        assert_eq!(text(&both), text(&want));
        assert_eq!(both.zones.len(), 1);
    }

    #[test]
    fn lists_are_read_and_other_kinds_are_skipped() {
        let objects = Objects::read([
            json!({"kind": "PodList", "items": [{"metadata": {"name": "a"}}]}),
            json!({"kind": "List", "items": [{"kind": "Node", "metadata": {"name": "n"}}, {"kind": "Deployment"}]}),
        ])
        .unwrap();
        assert!(objects.pod(&ObjectKey::new("default", "a")).is_some());
        assert!(objects.nodes.contains_key("n"));
    }

    #[test]
    fn errors_name_the_object_and_the_field() {
        let error = |object| Objects::read([object]).unwrap_err().to_string();
        insta::assert_snapshot!(error(json!({"metadata": {}})), @"an object has no `kind`; expected one of Kubernetes' objects, or a List of them");
        insta::assert_snapshot!(
            error(json!({"kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": 5}})),
            @r#"Service "web": invalid type: integer `5`, expected a sequence"#
        );
    }
}
