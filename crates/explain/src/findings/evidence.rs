//! The fields on which a finding rests, with the values that were read.

use kube_endpoint_core_model::service::TargetPort;
use kube_endpoint_core_model::well_known::{
    ANNOTATION_ENDPOINT_SELECTOR, ANNOTATION_TOPOLOGY_AWARE_HINTS, ANNOTATION_TOPOLOGY_MODE,
};
use kube_endpoint_core_model::{EndpointSlice, ObjectKey, Pod, Service, Text};
use serde::Serialize;
use serde_json::{Value, json};

use crate::facts::details::{ContainerKind, ContainerState, PodDetails, RunState};
use crate::facts::objects::Objects;

/// The most characters of a value.
const LONGEST: usize = 200;

/// The most objects of a kind that one finding names.
pub(crate) const OBJECTS: usize = 3;

/// A field, and what was read there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Evidence {
    pub object: EvidenceObject,
    /// The path, as kubectl's JSONPath has it.
    pub field: String,
    /// The value, as JSON if it is not a text, and without its end if it is long. `None` if the
    /// field or the object does not exist.
    pub value: Option<String>,
}

/// The object of a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EvidenceObject {
    pub kind: Text,
    /// The namespace, or empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub namespace: Text,
    pub name: Text,
}

impl Evidence {
    pub(crate) fn new(kind: &str, object: &ObjectKey, field: impl Into<String>, value: &Value) -> Self {
        let text = match value {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        let ObjectKey { namespace, name } = object.clone();
        let object = EvidenceObject { kind: kind.into(), namespace, name };
        Self { object, field: field.into(), value: text.map(shortened) }
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(LONGEST) {
        None => text,
        // The sign of the cut counts, too.
        Some(_) => text.chars().take(LONGEST - 1).chain(['…']).collect(),
    }
}

/// Returns the path of an item of a map whose key may have dots.
pub(crate) fn key(map: &str, key: &str) -> String {
    format!("{map}.{}", key.replace('.', r"\."))
}

/// Returns the path of a field of the item of a list that has this type or name.
pub(crate) fn item(list: &str, by: &str, is: impl Into<Value>, field: &str) -> String {
    format!("{list}[?(@.{by}=={})]{field}", is.into())
}

/// The objects of a Service. Its methods return evidence.
#[derive(Clone, Copy)]
pub(crate) struct Read<'a> {
    objects: &'a Objects,
    service: &'a ObjectKey,
}

impl<'a> Read<'a> {
    pub(crate) fn new(objects: &'a Objects, service: &'a ObjectKey) -> Self {
        Self { objects, service }
    }

    /// Returns the key of the Service.
    pub(crate) fn key(&self) -> &'a ObjectKey {
        self.service
    }

    fn view(&self) -> Option<&'a Service> {
        self.objects.service(self.service).map(|service| &**service)
    }

    /// Returns a field of the Service.
    pub(crate) fn service(&self, field: impl Into<String>, value: impl Into<Value>) -> Evidence {
        Evidence::new("Service", self.service, field, &value.into())
    }

    /// Returns a field of an object of the namespace of the Service.
    pub(crate) fn of(
        &self,
        kind: &str,
        name: &Text,
        field: impl Into<String>,
        value: impl Into<Value>,
    ) -> Evidence {
        let object = ObjectKey { namespace: self.service.namespace.clone(), name: name.clone() };
        Evidence::new(kind, &object, field, &value.into())
    }

    /// Returns a field of a node.
    pub(crate) fn node(name: &Text, field: impl Into<String>, value: impl Into<Value>) -> Evidence {
        let object = ObjectKey { namespace: "".into(), name: name.clone() };
        Evidence::new("Node", &object, field, &value.into())
    }

    /// Returns the selector of the Service.
    pub(crate) fn selector(&self) -> Evidence {
        let selector = self.view().and_then(|service| service.selector.as_ref());
        let pairs = selector.filter(|selector| !selector.is_empty());
        self.service(".spec.selector", pairs.map_or(Value::Null, |pairs| json!(pairs)))
    }

    /// Returns the selector of the Service, or that of the EndpointSelector of this name, as
    /// kubectl writes it.
    pub(crate) fn selector_of(&self, endpoint_selector: Option<&Text>) -> Evidence {
        let Some(name) = endpoint_selector else { return self.selector() };
        let key = ObjectKey { namespace: self.service.namespace.clone(), name: name.clone() };
        let selector = self
            .objects
            .endpoint_selectors
            .get(&key)
            .and_then(|it| it.selector.as_ref().ok().map(ToString::to_string));
        self.of("EndpointSelector", name, ".spec.selector", json!(selector))
    }

    /// Returns the name of the Service, which does not exist.
    pub(crate) fn absent(&self) -> Evidence {
        self.service(".metadata.name", Value::Null)
    }

    /// Returns the time of the deletion of the Service.
    pub(crate) fn deleted(&self) -> Evidence {
        let deleted = self.view().and_then(|service| service.deletion_timestamp);
        self.service(".metadata.deletionTimestamp", json!(deleted.map(|time| time.to_string())))
    }

    /// Returns the cluster IP of a Service of the namespace.
    pub(crate) fn cluster_ip_of(&self, name: &Text) -> Evidence {
        let key = ObjectKey { namespace: self.service.namespace.clone(), name: name.clone() };
        let ip = self.objects.service(&key).map(|service| &service.cluster_ip);
        self.of("Service", name, ".spec.clusterIP", json!(ip))
    }

    /// Returns a label of the Service.
    pub(crate) fn label(&self, name: &str) -> Evidence {
        let value = self.view().and_then(|service| service.labels.get(name));
        self.service(key(".metadata.labels", name), json!(value))
    }

    /// Returns who asks for hints, and the endpoints that should have some.
    pub(crate) fn hints(&self) -> Vec<Evidence> {
        let annotations = [ANNOTATION_TOPOLOGY_MODE, ANNOTATION_TOPOLOGY_AWARE_HINTS];
        let annotations = annotations.map(|name| self.annotation(name)).into_iter();
        let distribution = self.view().and_then(|service| service.traffic_distribution.as_ref());
        let distribution = distribution.map(|value| self.service(".spec.trafficDistribution", &**value));
        let asked = annotations.filter(|it| it.value.is_some()).chain(distribution);
        asked.chain(self.slices()).collect()
    }

    /// Returns the condition of a node.
    pub(crate) fn node_ready(&self, name: &Text) -> Evidence {
        let status = self.objects.raw.nodes.get(name).map(|node| &node.ready);
        Self::node(name, item(".status.conditions", "type", "Ready", ".status"), json!(status))
    }

    /// Returns the pods that a NetworkPolicy selects, as kubectl writes a selector.
    pub(crate) fn policy(&self, name: &Text) -> Evidence {
        self.policy_of(&self.service.namespace, name)
    }

    /// Returns the pods that a NetworkPolicy of a namespace selects.
    pub(crate) fn policy_of(&self, namespace: &Text, name: &Text) -> Evidence {
        let policy = self.objects.policies_of(namespace).find(|policy| policy.name == *name);
        let object = ObjectKey { namespace: namespace.clone(), name: name.clone() };
        let pods = json!(policy.map(|it| it.pods.to_string()));
        Evidence::new("NetworkPolicy", &object, ".spec.podSelector", &pods)
    }

    /// Returns the ports of the Service.
    pub(crate) fn ports(&self) -> Evidence {
        let ports = self.view().map_or(&[][..], |service| &service.ports);
        let ports = ports.iter().map(|port| {
            let target = match &port.target_port {
                TargetPort::Number(number) => json!(number),
                TargetPort::Name(name) => json!(name),
            };
            json!({"name": port.name, "port": port.port, "protocol": port.protocol, "targetPort": target})
        });
        let ports: Vec<Value> = ports.collect();
        self.service(".spec.ports", if ports.is_empty() { Value::Null } else { Value::Array(ports) })
    }

    /// Returns the families of the Service.
    pub(crate) fn families(&self) -> Evidence {
        let families = self
            .view()
            .map(|service| service.ip_families.iter().map(|it| format!("{it:?}")).collect::<Vec<_>>());
        self.service(".spec.ipFamilies", json!(families))
    }

    /// Returns an annotation of the Service that a controller reads.
    pub(crate) fn annotation(&self, name: &str) -> Evidence {
        let value = self.view().and_then(|service| service.annotations.get(name));
        self.service(key(".metadata.annotations", name), json!(value))
    }

    /// Returns the endpoints of the slices of the Service.
    pub(crate) fn slices(&self) -> Vec<Evidence> {
        self.each_slice().map(|slice| self.slice(&slice.metadata.name)).collect()
    }

    fn each_slice(&self) -> impl Iterator<Item = &'a EndpointSlice> {
        self.objects.slices_of(self.service).iter().take(OBJECTS).map(|slice| &**slice)
    }

    fn slice_named(&self, name: &Text) -> Option<&'a EndpointSlice> {
        let mut slices = self.objects.slices_of(self.service).iter();
        slices.find(|slice| slice.metadata.name == *name).map(|slice| &**slice)
    }

    /// Returns the ports of the slices of the Service.
    pub(crate) fn ports_of_slices(&self) -> impl Iterator<Item = Evidence> {
        self.each_slice().map(|slice| self.ports_of_slice(&slice.metadata.name))
    }

    /// Returns the ports of a slice.
    pub(crate) fn ports_of_slice(&self, name: &Text) -> Evidence {
        self.of("EndpointSlice", name, ".ports", json!(self.slice_named(name).map(|slice| &slice.ports)))
    }

    /// Returns the types of the addresses of the slices of the Service.
    pub(crate) fn types_of_slices(&self) -> impl Iterator<Item = Evidence> {
        self.each_slice().map(|slice| self.type_of_slice(&slice.metadata.name))
    }

    /// Returns the type of the addresses of a slice.
    pub(crate) fn type_of_slice(&self, name: &Text) -> Evidence {
        let address_type = self.slice_named(name).map(|slice| slice.address_type);
        self.of("EndpointSlice", name, ".addressType", json!(address_type))
    }

    /// Returns the time of the deletion of a slice.
    pub(crate) fn slice_deleted(&self, name: &Text) -> Evidence {
        let deleted = self.slice_named(name).and_then(|slice| slice.metadata.deletion_timestamp);
        let deleted = json!(deleted.map(|time| time.to_string()));
        self.of("EndpointSlice", name, ".metadata.deletionTimestamp", deleted)
    }

    /// Returns the endpoints of slices, by their names.
    pub(crate) fn slices_named(&self, slices: &[Text]) -> Vec<Evidence> {
        slices.iter().take(OBJECTS).map(|slice| self.slice(slice)).collect()
    }

    /// Returns the endpoints of a slice. Those after the first few are cut anyway.
    pub(crate) fn slice(&self, name: &Text) -> Evidence {
        let endpoints =
            self.slice_named(name).map(|slice| slice.endpoints.iter().take(LONGEST / 20).collect::<Vec<_>>());
        self.of("EndpointSlice", name, ".endpoints", json!(endpoints))
    }

    /// Returns a label of a slice.
    pub(crate) fn label_of_slice(&self, slice: &Text, label: &str) -> Evidence {
        let value = json!(self.slice_named(slice).and_then(|slice| slice.metadata.labels.get(label)));
        self.of("EndpointSlice", slice, key(".metadata.labels", label), value)
    }

    /// Returns the subsets of the Endpoints of the Service.
    pub(crate) fn endpoints(&self) -> Evidence {
        let endpoints = self.objects.endpoints_of(self.service);
        let subsets = endpoints.and_then(|endpoints| endpoints.subsets.listed());
        self.of("Endpoints", &self.service.name, ".subsets", json!(subsets))
    }

    /// Returns a field of the Endpoints of the Service.
    pub(crate) fn of_endpoints(&self, field: impl Into<String>, value: impl Into<Value>) -> Evidence {
        self.of("Endpoints", &self.service.name, field, value)
    }

    /// Returns the annotation of the Service that names an EndpointSelector.
    pub(crate) fn names_selector(&self, name: &Text) -> Evidence {
        self.service(key(".metadata.annotations", ANNOTATION_ENDPOINT_SELECTOR), &**name)
    }

    /// Returns a label of pods, by their names.
    pub(crate) fn label_of_pods(&self, pods: &[Text], label: &str, value: Option<&Text>) -> Vec<Evidence> {
        let of = |pod| self.of("Pod", pod, key(".metadata.labels", label), json!(value));
        pods.iter().take(OBJECTS).map(of).collect()
    }
}

/// A pod of a Service, and the objects of the Service.
pub(crate) struct PodRead<'a> {
    pub(crate) of_service: Read<'a>,
    pub(crate) pod: &'a Pod,
    pub(crate) details: Option<&'a PodDetails>,
}

impl PodRead<'_> {
    /// Returns a field of the pod.
    pub(crate) fn field(&self, field: impl Into<String>, value: impl Into<Value>) -> Evidence {
        Evidence::new("Pod", &self.pod.key, field, &value.into())
    }

    /// Returns the phase of the pod.
    pub(crate) fn phase(&self) -> Evidence {
        self.field(".status.phase", format!("{:?}", self.pod.phase))
    }

    /// Returns the status of a condition of the pod, or null if it has no such condition.
    pub(crate) fn condition(&self, condition: &str) -> Evidence {
        let found = self.details.and_then(|details| details.condition(condition));
        let status = match (found, self.pod.ready.filter(|_| condition == "Ready")) {
            (Some(found), _) => json!(found.status),
            (None, Some(ready)) => json!(if ready.is_true { "True" } else { "False" }),
            (None, None) => Value::Null,
        };
        self.field(item(".status.conditions", "type", condition, ".status"), status)
    }

    /// Returns the states of the containers that are not ready.
    pub(crate) fn containers(&self) -> Vec<Evidence> {
        let all = self.details.map_or(&[][..], |details| &details.containers);
        all.iter()
            .filter(|container| !container.ready)
            .take(OBJECTS)
            .flat_map(|it| self.container(it))
            .collect()
    }

    /// Returns the state of a container, by its name.
    pub(crate) fn container_named(&self, name: &str) -> Vec<Evidence> {
        let all = self.details.map_or(&[][..], |details| &details.containers);
        all.iter().filter(|container| *container.name == *name).flat_map(|it| self.container(it)).collect()
    }

    fn container(&self, container: &ContainerState) -> Vec<Evidence> {
        let list = match container.kind {
            ContainerKind::Main => ".status.containerStatuses",
            ContainerKind::Init | ContainerKind::Sidecar => ".status.initContainerStatuses",
        };
        let field =
            |field: &str, value: Value| self.field(item(list, "name", &*container.name, field), value);
        let state = match &container.state {
            RunState::Waiting { reason, .. } => field(".state.waiting.reason", json!(reason)),
            RunState::Running { .. } => field(".ready", json!(container.ready)),
            RunState::Ended(end) => field(".state.terminated.exitCode", json!(end.exit_code)),
        };
        let last = container.last.as_ref();
        let last = last.map(|last| field(".lastState.terminated.exitCode", json!(last.exit_code)));
        std::iter::once(state).chain(last).collect()
    }

    /// Returns the ports that the pod declares.
    pub(crate) fn ports(&self) -> Evidence {
        let ports = self.pod.ports.iter().map(|port| {
            json!({"name": port.name, "containerPort": port.container_port, "protocol": port.protocol})
        });
        let ports: Vec<Value> = ports.collect();
        self.field(
            ".spec.containers[*].ports",
            if ports.is_empty() { Value::Null } else { Value::Array(ports) },
        )
    }

    /// Returns the addresses of the pod.
    pub(crate) fn addresses(&self) -> Evidence {
        let addresses: Vec<Value> = self.pod.pod_ips.iter().map(|ip| json!({"ip": ip})).collect();
        self.field(".status.podIPs", if addresses.is_empty() { Value::Null } else { Value::Array(addresses) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_as_kubectl_prints_it_and_is_cut_between_characters() {
        let service = ObjectKey::new("shop", "web");
        let read = |value: Value| Evidence::new("Service", &service, ".spec", &value).value;
        assert_eq!(read(Value::Null), None);
        assert_eq!(read(json!("a b")).unwrap(), "a b");
        assert_eq!(read(json!({"app": "web"})).unwrap(), r#"{"app":"web"}"#);
        let long = read(json!("é".repeat(1000))).unwrap();
        assert_eq!((long.chars().count(), long.chars().last()), (LONGEST, Some('…')));
    }

    #[test]
    fn paths_are_those_of_kubectl() {
        assert_eq!(key(".metadata.labels", "example.com/a"), r".metadata.labels.example\.com/a");
        let ready = item(".status.conditions", "type", "Ready", ".status");
        assert_eq!(ready, r#".status.conditions[?(@.type=="Ready")].status"#);
        assert_eq!(item(".spec.ports", "port", 80, ".targetPort"), ".spec.ports[?(@.port==80)].targetPort");
    }
}
