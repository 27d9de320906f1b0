//! The columns of each kind and the cells of its rows.

use jiff::Timestamp;
use kube_endpoint_apiserver_rules::resource::Resource;
use serde_json::{Value, json};

use super::view::text;
use super::{age, endpoints, event, node, pod, service};

/// Name, true if only `-o wide` shows the column, and description.
type Column = (&'static str, bool, &'static str);

const NAME: Column = ("Name", false, "The name, unique within a namespace.");
const AGE: Column = ("Age", false, "The time since the creation.");

const POD: &[Column] = &[
    NAME,
    ("Ready", false, "How many of the containers are ready."),
    ("Status", false, "The phase, or what keeps the containers from running."),
    ("Restarts", false, "How often containers were restarted, and when the last time was."),
    AGE,
    ("IP", true, "The first IP address."),
    ("Node", true, "The node that the pod is assigned to."),
    ("Nominated Node", true, "The node on which the pod preempts others."),
    ("Readiness Gates", true, "How many of the readiness gates are passed."),
];
const SERVICE: &[Column] = &[
    NAME,
    ("Type", false, "How the service is exposed."),
    ("Cluster-IP", false, "The first virtual IP address."),
    ("External-IP", false, "The addresses by which it is reached from outside."),
    ("Port(s)", false, "The ports, with node ports behind a colon."),
    AGE,
    ("Selector", true, "The labels of the pods that are the endpoints."),
];
const ENDPOINTS: &[Column] = &[NAME, ("Endpoints", false, "The addresses and ports that are ready."), AGE];
const ENDPOINT_SLICE: &[Column] = &[
    NAME,
    ("AddressType", false, "The type of the addresses."),
    ("Ports", false, "The numbers of the ports."),
    ("Endpoints", false, "The addresses of the endpoints."),
    AGE,
];
const NODE: &[Column] = &[
    NAME,
    ("Status", false, "Whether the node is ready and schedulable."),
    ("Roles", false, "The roles, from labels."),
    AGE,
    ("Version", false, "The version of the kubelet."),
    ("Internal-IP", true, "The first internal IP address."),
    ("External-IP", true, "The first external IP address."),
    ("OS-Image", true, "The operating system."),
    ("Kernel-Version", true, "The version of the kernel and the architecture."),
    ("Container-Runtime", true, "The container runtime and its version."),
];
const NAMESPACE: &[Column] = &[NAME, ("Status", false, "The phase."), AGE];
const LEASE: &[Column] = &[NAME, ("Holder", false, "The identity of the holder."), AGE];
const ENDPOINT_SELECTOR: &[Column] = &[
    NAME,
    ("Lease", false, "The Lease whose holder is the ready pod."),
    ("Role", false, "Follower if all pods but the holder are ready."),
    ("Condition", false, "The condition that a ready pod has to have."),
    ("Pick", false, "Newest if only the pod is ready whose condition changed last."),
    ("Services", false, "The number of Services that name the selector."),
    ("Accepted", false, "True if the controller uses the selector."),
    AGE,
];
const EVENT: &[Column] = &[
    ("Last Seen", false, "The time since the last occurrence."),
    ("Type", false, "Normal or Warning."),
    ("Reason", false, "Why it happened, for machines."),
    ("Object", false, "What it happened to."),
    ("Subobject", true, "What part of the object it happened to."),
    ("Source", true, "Who reports it."),
    ("Message", false, "What happened, for people."),
    ("First Seen", true, "The time since the first occurrence."),
    ("Count", true, "How often it happened."),
    ("Name", true, "The name, unique within a namespace."),
];
/// The columns of kinds for which upstream defines none.
const OTHER: &[Column] = &[NAME, ("Created At", false, "The time of the creation.")];

fn columns(resource: &Resource) -> &'static [Column] {
    match resource.plural {
        "pods" => POD,
        "services" => SERVICE,
        "endpoints" => ENDPOINTS,
        "endpointslices" => ENDPOINT_SLICE,
        "nodes" => NODE,
        "namespaces" => NAMESPACE,
        "leases" => LEASE,
        "endpointselectors" => ENDPOINT_SELECTOR,
        "events" => EVENT,
        _ => OTHER,
    }
}

/// Returns the `columnDefinitions` of a resource's table.
pub(super) fn definitions(resource: &Resource) -> Value {
    columns(resource)
        .iter()
        .map(|(name, wide, description)| {
            json!({
                "name": name,
                "type": if *name == "Created At" { "date" } else { "string" },
                "format": if *name == "Name" { "name" } else { "" },
                "description": description,
                "priority": i32::from(*wide),
            })
        })
        .collect()
}

/// Returns the cells of one object's row, one for each column.
pub(super) fn cells(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    let name = || json!(text(object, "/metadata/name"));
    let age = || json!(age::since(text(object, "/metadata/creationTimestamp"), now));
    match resource.plural {
        "pods" => pod::cells(object, name(), age(), now),
        "services" => service::cells(object, name(), age()),
        "endpoints" => vec![name(), json!(endpoints::subsets(object)), age()],
        "endpointslices" => {
            let ports = endpoints::slice_ports(object);
            let endpoints = endpoints::slice_endpoints(object);
            vec![name(), json!(text(object, "/addressType")), json!(ports), json!(endpoints), age()]
        }
        "nodes" => node::cells(object, name(), age()),
        "namespaces" => vec![name(), json!(text(object, "/status/phase")), age()],
        "endpointselectors" => {
            let services = object.pointer("/status/services").map_or(String::new(), Value::to_string);
            let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
            let accepted = conditions.into_iter().flatten().find(|it| it["type"] == "Accepted");
            let accepted = accepted.map_or("", |condition| text(condition, "/status"));
            let readiness = ["lease/name", "lease/role", "condition", "pick"]
                .map(|field| json!(text(object, &format!("/spec/readiness/{field}"))));
            [vec![name()], readiness.into(), vec![json!(services), json!(accepted), age()]].concat()
        }
        "leases" => vec![name(), json!(text(object, "/spec/holderIdentity")), age()],
        "events" => event::cells(object, name(), now),
        _ => vec![name(), json!(text(object, "/metadata/creationTimestamp"))],
    }
}
