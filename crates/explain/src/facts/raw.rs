//! Fields of objects that the views of the controllers lack, and that some findings read. Without
//! the whole objects, an explanation says less.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use kube_endpoint_core_model::pod::ContainerPort;
use kube_endpoint_core_model::well_known::{
    ANNOTATION_ENDPOINT_SELECTOR, ANNOTATION_ENDPOINTS, LABEL_SERVICE_NAME,
};
use kube_endpoint_core_model::{ObjectKey, StringMap, Text, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::facts::attached::{self, Attached};
use crate::facts::details::{self, RecentEvent};
use crate::facts::edits::Edit;
use crate::facts::json::{each, pairs, text, time};
use crate::facts::references::{self, Referrer};
use crate::facts::spelling;

/// The annotations of ours.
const KEYS: [&str; 2] = [ANNOTATION_ENDPOINT_SELECTOR, ANNOTATION_ENDPOINTS];

/// The annotation with the addresses of a pod in all of its networks, after the specification of
/// the Network Plumbing Working Group.
const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";

/// The fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawFields {
    /// Of pods.
    serving: HashMap<ObjectKey, Arc<Serving>>,
    /// `spec.externalName` of Services.
    pub(crate) external_names: HashMap<ObjectKey, Text>,
    /// Annotations and labels of Services that are nearly annotations of ours.
    mistyped: HashMap<ObjectKey, Vec<MistypedKey>>,
    /// Who changed the selectors and ports of Services.
    edits: HashMap<ObjectKey, Vec<Edit>>,
    /// `metadata.finalizers` of Services that are being deleted.
    pub(crate) finalizers: HashMap<ObjectKey, Vec<Text>>,
    /// Of nodes.
    pub(crate) nodes: BTreeMap<Text, NodeDetails>,
    /// The labels of namespaces.
    pub(crate) namespaces: BTreeMap<Text, StringMap>,
    /// Services that need no pods here, and the program that serves them otherwise.
    pub(crate) need_no_pods: HashMap<ObjectKey, &'static str>,
    /// Services of type LoadBalancer without an address for clients outside.
    pub(crate) pending_load_balancers: HashSet<ObjectKey>,
    /// The namespaces with all of their Services, or `None` for all namespaces.
    listed_services: BTreeSet<Option<Text>>,
    /// Nodes that others name and that do not exist.
    pub(crate) absent_nodes: HashSet<Text>,
    /// Services that others name and that do not exist.
    pub(crate) absent_services: HashSet<ObjectKey>,
    /// Services that were left out.
    pub(crate) unread_services: HashSet<ObjectKey>,
    /// The Gateways and classes that others name and that do not exist.
    pub(crate) absent: BTreeSet<Referrer>,
    /// Classes of Ingresses and Gateways.
    pub(crate) classes: BTreeSet<Referrer>,
    /// The Gateways and classes that objects name, by object.
    pub(crate) attached: BTreeMap<Referrer, Attached>,
    /// The routes that name a Gateway.
    pub(crate) routes: BTreeMap<ObjectKey, BTreeSet<Referrer>>,
    /// Pods with addresses in further networks, which their status does not have.
    other_networks: HashSet<ObjectKey>,
    /// Slices without the label that names their Service.
    unlabelled_slices: BTreeSet<ObjectKey>,
    /// Events that tell why the pods of a workload cannot be created.
    failed_creates: BTreeMap<(ObjectKey, Text), RecentEvent>,
    /// True if some pods of a namespace were left out, since a list of them was too long.
    pub(crate) has_more_pods: bool,
    /// Pods of the same workload share one allocation.
    known: HashSet<Arc<Serving>>,
}

/// An annotation or a label of a Service whose key is nearly that of an annotation of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MistypedKey {
    pub key: Text,
    pub value: Text,
    /// The key of the annotation.
    pub meant: &'static str,
    /// True if it is a label.
    pub is_label: bool,
}

impl MistypedKey {
    fn all_of(metadata: &Value) -> Vec<Self> {
        let annotations = &metadata["annotations"];
        let of = |field: &str, is_label: bool| {
            let pairs = pairs(&metadata[field]);
            let mistyped = pairs.filter_map(move |(key, value)| {
                let same = KEYS.into_iter().find(|ours| is_label && ours == key);
                let meant = same.or_else(|| spelling::meant(key))?;
                let (key, value) = (key.as_str().into(), text(value).into());
                Some(Self { key, value, meant, is_label })
            });
            mistyped.filter(|mistyped| annotations[mistyped.meant].is_null()).collect::<Vec<_>>()
        };
        [of("annotations", false), of("labels", true)].concat()
    }
}

/// The fields of a node that no controller reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeDetails {
    /// The minor version of its kubelet.
    pub(crate) kubelet: Option<u32>,
    /// The status of its `Ready` condition, or empty.
    pub(crate) ready: Text,
    /// The message of its `Ready` condition if that is not true, else empty.
    pub(crate) not_ready_message: Text,
    /// Since when that is so.
    pub(crate) not_ready_since: Option<Timestamp>,
    /// True if it keeps pods away that tolerate none of its taints: it is cordoned, or has a taint
    /// with the effect `NoSchedule` or `NoExecute`.
    pub(crate) keeps_pods_away: bool,
    /// The keys of its taints with such an effect.
    pub(crate) taints: Vec<Text>,
}

impl NodeDetails {
    fn read(node: &Value) -> Self {
        let (spec, status) = (&node["spec"], &node["status"]);
        let condition = each(&status["conditions"]).find(|it| it["type"] == "Ready");
        let ready = condition.filter(|it| it["status"] != "True");
        let keeps_away = |taint: &Value| matches!(text(&taint["effect"]), "NoSchedule" | "NoExecute");
        Self {
            kubelet: minor(text(&status["nodeInfo"]["kubeletVersion"])),
            ready: condition.map(|it| text(&it["status"]).into()).unwrap_or_default(),
            not_ready_message: ready.map(|ready| text(&ready["message"]).into()).unwrap_or_default(),
            not_ready_since: ready.and_then(|ready| time(&ready["lastTransitionTime"])),
            keeps_pods_away: spec["unschedulable"] == true || each(&spec["taints"]).any(keeps_away),
            taints: each(&spec["taints"])
                .filter(|taint| keeps_away(taint))
                .map(|taint| text(&taint["key"]).into())
                .collect(),
        }
    }
}

/// The kind of the controller that owns a pod: that of its owner reference with `controller: true`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodOwner {
    /// Nothing makes the pod again when it is gone.
    #[default]
    Nobody,
    StatefulSet,
    DaemonSet,
    /// The kubelet, which runs it from a file of its node.
    Node,
    /// A ReplicaSet, a Job, or a controller that Kubernetes does not have.
    Other,
}

/// The ports and probes of a pod's containers, and the owner of the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Serving {
    /// All containers, then all restartable init containers: the order in which a name is looked
    /// up.
    pub(crate) containers: Vec<ServingContainer>,
    /// Kind and name of the controller that owns the pod.
    pub(crate) owner: Option<(Text, Text)>,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ServingContainer {
    pub(crate) name: Text,
    pub(crate) ports: Vec<ContainerPort>,
    /// The number of the port of its readiness probe.
    pub(crate) probe: Option<i32>,
    image: Text,
}

impl ServingContainer {
    /// Returns the image without tag and digest.
    pub(crate) fn repository(&self) -> &str {
        let image = self.image.split('@').next().unwrap_or_default();
        match image.rsplit_once(':') {
            Some((repository, tag)) if !tag.contains('/') => repository,
            _ => image,
        }
    }
}

/// A workload whose pods the API server refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedCreate<'a> {
    pub(crate) kind: &'a Text,
    pub(crate) name: &'a Text,
    pub(crate) event: &'a RecentEvent,
}

impl RawFields {
    /// Adds the fields of other objects.
    pub(crate) fn extend(&mut self, other: Self) {
        self.serving.extend(other.serving);
        self.external_names.extend(other.external_names);
        self.mistyped.extend(other.mistyped);
        self.edits.extend(other.edits);
        self.finalizers.extend(other.finalizers);
        self.nodes.extend(other.nodes);
        self.namespaces.extend(other.namespaces);
        self.need_no_pods.extend(other.need_no_pods);
        self.pending_load_balancers.extend(other.pending_load_balancers);
        self.listed_services.extend(other.listed_services);
        self.absent_nodes.extend(other.absent_nodes);
        self.absent_services.extend(other.absent_services);
        self.unread_services.extend(other.unread_services);
        self.absent.extend(other.absent);
        self.classes.extend(other.classes);
        self.attached.extend(other.attached);
        for (gateway, routes) in other.routes {
            self.routes.entry(gateway).or_default().extend(routes);
        }
        self.other_networks.extend(other.other_networks);
        self.unlabelled_slices.extend(other.unlabelled_slices);
        other.failed_creates.into_iter().for_each(|(of, event)| self.add_failed_create(of, event));
        self.has_more_pods |= other.has_more_pods;
        self.known.extend(other.known);
    }

    /// Removes the fields of a Service.
    pub(crate) fn forget_service(&mut self, key: &ObjectKey) {
        self.external_names.remove(key);
        self.edits.remove(key);
        self.finalizers.remove(key);
        self.need_no_pods.remove(key);
        self.pending_load_balancers.remove(key);
        self.mistyped.remove(key);
    }

    /// Notes that all Services of a namespace, or of all, were read.
    pub(crate) fn note_listed_services(&mut self, namespace: Option<Text>) {
        self.listed_services.insert(namespace);
    }

    /// Returns true if a Service was read, if it exists.
    pub(crate) fn lists(&self, service: &ObjectKey) -> bool {
        let of = |namespace: &Option<Text>| namespace.as_ref().is_none_or(|it| *it == service.namespace);
        self.listed_services.iter().any(of) && !self.unread_services.contains(service)
    }

    /// Notes that a slice has the label that names its Service.
    pub(crate) fn note_label(&mut self, slice: &ObjectKey) {
        self.unlabelled_slices.remove(slice);
    }

    /// Adds an event. The latest about a workload counts.
    fn add_failed_create(&mut self, of: (ObjectKey, Text), event: RecentEvent) {
        let latest = self.failed_creates.entry(of).or_insert_with(|| event.clone());
        if event.last > latest.last {
            *latest = event;
        }
    }

    /// Reads an object.
    pub(crate) fn read(&mut self, kind: &str, object: &Value) {
        let metadata = &object["metadata"];
        let key = || ObjectKey::new(text(&metadata["namespace"]), text(&metadata["name"]));
        match kind {
            "Pod" => {
                let serving = Arc::new(Serving::read(object));
                let shared = self.known.get(&serving).cloned().unwrap_or(serving);
                self.known.insert(Arc::clone(&shared));
                self.serving.insert(key(), shared);
                if metadata["annotations"][NETWORK_STATUS].is_string() {
                    self.other_networks.insert(key());
                }
            }
            "Service" => {
                let key = key();
                self.forget_service(&key);
                let mistyped = MistypedKey::all_of(metadata);
                if !mistyped.is_empty() {
                    self.mistyped.insert(key.clone(), mistyped);
                }
                self.edits.insert(key.clone(), Edit::all_of(metadata));
                if let Some(program) = serving_elsewhere(metadata) {
                    self.need_no_pods.insert(key.clone(), program);
                }
                if is_pending(object) {
                    self.pending_load_balancers.insert(key.clone());
                }
                if let Some(name) = object["spec"]["externalName"].as_str() {
                    self.external_names.insert(key.clone(), name.into());
                }
                if metadata["deletionTimestamp"].is_string() {
                    let finalizers = each(&metadata["finalizers"]);
                    self.finalizers.insert(key, finalizers.map(|one| text(one).into()).collect());
                }
            }
            "Node" => {
                self.nodes.insert(text(&metadata["name"]).into(), NodeDetails::read(object));
            }
            "Namespace" => {
                let labels = pairs(&metadata["labels"]).map(|(key, value)| (key.as_str(), text(value)));
                self.namespaces.insert(text(&metadata["name"]).into(), labels.collect());
            }
            "EndpointSlice" => {
                if metadata["labels"][LABEL_SERVICE_NAME].is_string() {
                    self.note_label(&key());
                } else {
                    self.unlabelled_slices.insert(key());
                }
            }
            "Event" if object["reason"] == "FailedCreate" => {
                let Ok((about, key, event)) = details::event(object) else { return };
                self.add_failed_create((key, about), event);
            }
            _ => {
                self.classes.extend(attached::class(kind, text(&metadata["name"])));
                let Some(from) = references::referrer(kind, object) else { return };
                for gateway in references::gateways(object) {
                    self.routes.entry(gateway).or_default().insert(from.clone());
                }
                self.attached.insert(from.clone(), Attached::read(&from, object));
            }
        }
    }

    /// Returns true if a pod may have addresses that its status does not have.
    pub(crate) fn has_other_networks(&self, pod: &ObjectKey) -> bool {
        self.other_networks.contains(pod)
    }

    /// Returns the ports and probes of a pod, if they are known.
    pub(crate) fn serving(&self, pod: &ObjectKey) -> Option<&Serving> {
        self.serving.get(pod).map(|serving| &**serving)
    }

    /// Returns the annotations and labels of a Service that are nearly annotations of ours.
    pub(crate) fn mistyped_keys(&self, service: &ObjectKey) -> &[MistypedKey] {
        self.mistyped.get(service).map_or(&[], Vec::as_slice)
    }

    /// Returns who changed the selector and the ports of a Service, if that is known.
    pub(crate) fn edits(&self, service: &ObjectKey) -> &[Edit] {
        self.edits.get(service).map_or(&[], Vec::as_slice)
    }

    /// Returns the slices of a namespace whose names begin with that of a Service, and that name no
    /// Service.
    pub(crate) fn unlabelled_slices(&self, service: &ObjectKey) -> Vec<Text> {
        let from = self.unlabelled_slices.range(service.clone()..);
        let near =
            from.take_while(|key| key.namespace == service.namespace && key.name.starts_with(&*service.name));
        near.filter(|key| is_of(&key.name, &service.name)).map(|key| key.name.clone()).collect()
    }

    /// Returns the latest workload of a namespace whose pods cannot be created, and whose name is
    /// one of these or begins with one, or that is one of these owners.
    pub(crate) fn failed_create(
        &self,
        namespace: &str,
        names: &[&str],
        owners: &[&(Text, Text)],
    ) -> Option<FailedCreate<'_>> {
        let all = self.failed_creates.iter().filter(|((key, _), _)| *key.namespace == *namespace);
        let of_service = all.filter(|((key, kind), _)| {
            names.iter().any(|name| is_of(&key.name, name))
                || owners.iter().any(|(owner, name)| owner == kind && *name == key.name)
        });
        let latest = of_service.max_by_key(|(_, event)| event.last);
        latest.map(|((key, kind), event)| FailedCreate { kind, name: &key.name, event })
    }
}

impl Serving {
    fn read(pod: &Value) -> Self {
        let containers = |list: &str| each(&pod["spec"][list]);
        let sidecars = containers("initContainers").filter(|it| it["restartPolicy"] == "Always");
        let owners = || each(&pod["metadata"]["ownerReferences"]);
        let owner = owners().find(|owner| owner["controller"] == true);
        Self {
            containers: containers("containers").chain(sidecars).map(ServingContainer::read).collect(),
            owner: owner.map(|owner| (text(&owner["kind"]).into(), text(&owner["name"]).into())),
        }
    }

    /// Returns the kind of the owner.
    pub(crate) fn owner_kind(&self) -> PodOwner {
        match self.owner.as_ref().map(|(kind, _)| &**kind) {
            None => PodOwner::Nobody,
            Some("StatefulSet") => PodOwner::StatefulSet,
            Some("DaemonSet") => PodOwner::DaemonSet,
            Some("Node") => PodOwner::Node,
            Some(_) => PodOwner::Other,
        }
    }

    /// Returns the ports of all containers.
    pub(crate) fn ports(&self) -> impl Iterator<Item = &ContainerPort> {
        self.containers.iter().flat_map(|container| &container.ports)
    }

    /// Returns true if a container declares the number, with any protocol.
    pub(crate) fn declares(&self, number: i32) -> bool {
        self.ports().any(|port| port.container_port == number)
    }

    /// Returns true if each container declares ports. Otherwise one may listen on any.
    pub(crate) fn declares_all(&self) -> bool {
        !self.containers.is_empty() && self.containers.iter().all(|container| !container.ports.is_empty())
    }

    /// Returns the declared port through whose probe a container is ready, other than `number`, if
    /// no container has a probe of that number.
    pub(crate) fn probed_instead_of(&self, number: i32) -> Option<i32> {
        let probes = || self.containers.iter().filter_map(|container| container.probe);
        if probes().any(|probe| probe == number) || !self.declares_all() {
            return None;
        }
        probes().find(|probe| self.declares(*probe))
    }
}

impl ServingContainer {
    fn read(container: &Value) -> Self {
        let ports = each(&container["ports"]).filter_map(|port| {
            let number = i32::try_from(port["containerPort"].as_i64()?).ok()?;
            let protocol = port["protocol"].as_str().unwrap_or("TCP");
            Some(ContainerPort {
                name: text(&port["name"]).into(),
                container_port: number,
                protocol: protocol.into(),
            })
        });
        let ports: Vec<ContainerPort> = ports.collect();
        let probe = &container["readinessProbe"];
        let port = ["httpGet", "tcpSocket", "grpc"]
            .iter()
            .map(|form| &probe[*form]["port"])
            .find(|it| !it.is_null());
        let probe = port.and_then(|port| match port.as_str() {
            Some(name) => ports.iter().find(|one| *one.name == *name).map(|one| one.container_port),
            None => i32::try_from(port.as_i64()?).ok(),
        });
        Self { name: text(&container["name"]).into(), ports, probe, image: text(&container["image"]).into() }
    }
}

/// Returns true if a Service waits for the address of its load balancer.
fn is_pending(service: &Value) -> bool {
    let is_empty = |list: &Value| each(list).next().is_none();
    service["spec"]["type"] == "LoadBalancer"
        && is_empty(&service["status"]["loadBalancer"]["ingress"])
        && is_empty(&service["spec"]["externalIPs"])
}

/// Returns the program that serves a Service without pods in this cluster, at least at times.
fn serving_elsewhere(metadata: &Value) -> Option<&'static str> {
    let annotations = &metadata["annotations"];
    let is_global = |key: &str| text(&annotations[key]).eq_ignore_ascii_case("true");
    if ["service.cilium.io/global", "io.cilium/global-service"].into_iter().any(is_global) {
        return Some("Cilium");
    }
    let mut owners = each(&metadata["ownerReferences"]);
    let is_canary = |owner: &Value| {
        text(&owner["apiVersion"]).starts_with("flagger.app/")
            && text(&metadata["name"]) == format!("{}-canary", text(&owner["name"]))
    };
    let has_label = metadata["labels"]["app.kubernetes.io/managed-by"] == "flagger"
        && text(&metadata["name"]).ends_with("-canary");
    (has_label || owners.any(is_canary)).then_some("Flagger")
}

/// Returns the minor version of `v1.34.2`.
fn minor(version: &str) -> Option<u32> {
    let rest = version.strip_prefix("v1.")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Returns true if a name is that of an object, or begins with it.
fn is_of(name: &str, of: &str) -> bool {
    !of.is_empty() && name.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_that_begin_with_another_are_of_it() {
        for (name, of, want) in [
            ("web", "web", true),
            ("web-7f", "web", true),
            ("web2-7f", "web", false),
            ("we", "web", false),
            ("web", "", false),
        ] {
            assert_eq!(is_of(name, of), want, "{name} {of}");
        }
    }

    #[test]
    fn versions_have_a_minor_one() {
        for (version, want) in [
            ("v1.34.2", Some(34)),
            ("v1.36.0-eks-1", Some(36)),
            ("v1.9+", Some(9)),
            ("", None),
            ("v2.0", None),
        ] {
            assert_eq!(minor(version), want, "{version}");
        }
    }

    #[test]
    fn a_cordoned_or_tainted_node_keeps_pods_away() {
        let check = |spec: Value, want: bool| {
            assert_eq!(NodeDetails::read(&json!({"spec": &spec})).keeps_pods_away, want, "{spec}");
        };
        check(json!({"unschedulable": true}), true);
        check(json!({"taints": [{"key": "a", "effect": "PreferNoSchedule"}]}), false);
        let taints =
            json!([{"key": "a", "effect": "PreferNoSchedule"}, {"key": "b", "effect": "NoSchedule"}]);
        check(json!({"taints": taints}), true);
        check(json!({"taints": [{"key": "a", "effect": "NoExecute"}]}), true);
        check(json!({"unschedulable": false, "taints": null}), false);
        check(Value::Null, false);
    }

    #[test]
    fn the_message_of_a_ready_node_is_no_reason() {
        let read = |status: &str| {
            let conditions = json!([{"type": "DiskPressure", "status": "False", "message": "enough"},
                {"type": "Ready", "status": status, "message": "Kubelet stopped posting node status."}]);
            NodeDetails::read(&json!({"status": {"conditions": conditions}})).not_ready_message
        };
        assert_eq!([&*read("True"), &*read("Unknown")], ["", "Kubelet stopped posting node status."]);
    }

    #[test]
    fn an_owner_has_a_kind() {
        let check = |owners: Value, want: PodOwner| {
            let pod = json!({"metadata": {"ownerReferences": owners}});
            assert_eq!(Serving::read(&pod).owner_kind(), want);
        };
        check(json!(null), PodOwner::Nobody);
        check(json!([{"kind": "StatefulSet", "controller": false}]), PodOwner::Nobody);
        check(
            json!([{"kind": "Backup"}, {"kind": "StatefulSet", "controller": true}]),
            PodOwner::StatefulSet,
        );
        check(json!([{"kind": "ReplicaSet", "controller": true}]), PodOwner::Other);
        check(json!([{"kind": "Node", "controller": true}]), PodOwner::Node);
    }

    #[test]
    fn an_image_has_a_repository() {
        for (image, want) in [
            ("nginx", "nginx"),
            ("nginx:1.27", "nginx"),
            ("localhost:5000/web", "localhost:5000/web"),
            ("example.com:443/web:1.8@sha256:0a1b", "example.com:443/web"),
        ] {
            let container = ServingContainer::read(&json!({"name": "app", "image": image}));
            assert_eq!(container.repository(), want, "{image}");
        }
    }

    #[test]
    fn ports_probes_and_owners_are_read() {
        let pod = json!({
            "metadata": {"ownerReferences": [{"kind": "X", "name": "x"}, {"kind": "Job", "name": "j", "controller": true}]},
            "spec": {
                "initContainers": [
                    {"name": "init", "ports": [{"containerPort": 1}]},
                    {"name": "side", "restartPolicy": "Always", "ports": [{"containerPort": 2, "protocol": "UDP"}]},
                ],
                "containers": [{"name": "app", "ports": [{"name": "http", "containerPort": 8080}],
                    "readinessProbe": {"httpGet": {"port": "http"}}}],
            },
        });
        let serving = Serving::read(&pod);
        let containers: Vec<_> =
            serving.containers.iter().map(|it| (&*it.name, it.ports.len(), it.probe)).collect();
        assert_eq!(containers, [("app", 1, Some(8080)), ("side", 1, None)]);
        assert_eq!(serving.owner, Some(("Job".into(), "j".into())));
        assert_eq!((serving.declares(2), serving.declares(1)), (true, false));
        assert_eq!((serving.probed_instead_of(80), serving.probed_instead_of(8080)), (Some(8080), None));
        assert_eq!(Serving::read(&json!({"spec": null})), Serving::default());
    }
}
