//! Objects that send clients to Services: Ingresses, routes of the Gateway API, APIServices and
//! webhook configurations.

use std::fmt;

use kube_endpoint_core_model::{ObjectKey, Service, Text};
use serde::Serialize;
use serde_json::Value;

use crate::facts::json::{each, text};
use crate::facts::workload::WORKLOADS;

/// An object that sends clients to Services, or a workload whose pods serve them. Prints as
/// `Ingress shop/web`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Referrer {
    /// The kind, such as `Ingress`.
    pub kind: &'static str,
    /// Its key. The namespace of an object in no namespace is empty.
    pub object: ObjectKey,
}

impl fmt::Display for Referrer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.object.namespace {
            "" => write!(f, "{} {}", self.kind, self.object.name),
            _ => write!(f, "{} {}", self.kind, self.object),
        }
    }
}

impl Referrer {
    /// Returns true if it makes pods.
    pub fn is_workload(&self) -> bool {
        WORKLOADS.contains(&self.kind)
    }

    /// Returns the kind as kubectl takes it.
    pub(crate) fn resource(&self) -> String {
        self.kind.to_lowercase()
    }
}

/// The port of a Service for which another object asks. Prints as `8080` or `"http"`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum AskedPort {
    Number(i64),
    Name(Text),
}

impl fmt::Display for AskedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => write!(f, "{:?}", &**name),
        }
    }
}

impl AskedPort {
    /// Reads `{number: 80}`, `{name: http}`, or a number.
    fn read(port: &Value) -> Option<Self> {
        let number = port.as_i64().or(port["number"].as_i64()).map(Self::Number);
        number.or_else(|| port["name"].as_str().map(|name| Self::Name(name.into())))
    }

    /// Returns true if a Service has the port.
    pub(crate) fn is_of(&self, service: &Service) -> bool {
        service.ports.iter().any(|port| match self {
            Self::Number(number) => i64::from(port.port) == *number,
            Self::Name(name) => port.name == *name,
        })
    }
}

/// A place in an object that names a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    pub from: Referrer,
    /// The clients that it sends: a host with a path, or the name of a rule or a webhook.
    pub route: String,
    pub service: ObjectKey,
    /// The port, or `None` if the object names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<AskedPort>,
}

impl Reference {
    /// Returns true if a namespace has to permit the reference: the object is in another one. The
    /// objects in no namespace need no permission.
    pub fn needs_grant(&self) -> bool {
        let of = &self.from.object.namespace;
        !of.is_empty() && *of != self.service.namespace
    }
}

/// The kinds of objects that send clients to Services.
pub const REFERRERS: [&str; 8] = [
    "Ingress",
    "HTTPRoute",
    "GRPCRoute",
    "TLSRoute",
    "TCPRoute",
    "APIService",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
];

/// The kind of an Ingress.
pub const INGRESS: &str = "Ingress";

/// The kind that routes name, and that sends clients to Services only by them.
pub const GATEWAY: &str = "Gateway";

/// Returns the object as one that may send clients to Services, or `None` if it is of another kind.
pub(crate) fn referrer(kind: &str, object: &Value) -> Option<Referrer> {
    let kind = REFERRERS.into_iter().chain([GATEWAY]).find(|one| *one == kind)?;
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let namespace = if is_namespaced(kind) { text("namespace") } else { "" };
    Some(Referrer { kind, object: ObjectKey::new(namespace, text("name")) })
}

/// Returns true if objects of a kind are in a namespace.
pub fn is_namespaced(kind: &str) -> bool {
    kind != "APIService" && !kind.ends_with("WebhookConfiguration")
}

/// Returns the Gateways that a route names.
pub fn gateways(route: &Value) -> impl Iterator<Item = ObjectKey> {
    let own = text(&route["metadata"]["namespace"]);
    each(&route["spec"]["parentRefs"]).filter_map(move |parent| gateway(parent, own))
}

/// Returns the Gateway that a route of the namespace `own` names, or `None` if it names another
/// kind, such as a Service of a mesh.
pub(crate) fn gateway(parent: &Value, own: &str) -> Option<ObjectKey> {
    let namespace = parent["namespace"].as_str().unwrap_or(own);
    is(parent, GATEWAY).then(|| ObjectKey::new(namespace, text(&parent["name"])))
}

/// Returns true if a reference to an object of the Gateway API is to one of this kind.
fn is(reference: &Value, kind: &str) -> bool {
    let of_group = reference["group"].as_str().is_none_or(|group| group == "gateway.networking.k8s.io");
    of_group && reference["kind"].as_str().is_none_or(|it| it == kind)
}

/// Returns the Services that an object names, in the order of the object.
pub(crate) fn references(from: &Referrer, object: &Value) -> Vec<Reference> {
    let spec = &object["spec"];
    match from.kind {
        "Ingress" => of_ingress(from, spec),
        "APIService" => of_client(from, String::new(), &spec["service"]).into_iter().collect(),
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            let webhooks = each(&object["webhooks"]);
            let of =
                |it: &Value| of_client(from, text(&it["name"]).to_owned(), &it["clientConfig"]["service"]);
            webhooks.filter_map(of).collect()
        }
        _ => of_route(from, spec),
    }
}

/// Returns what the controllers of an object say in its status, each as a sentence without a full
/// stop: conditions that are not met, or that nobody has written an address. No controller has seen
/// an object that was not created yet.
pub(crate) fn reported(from: &Referrer, object: &Value) -> Vec<String> {
    if object["metadata"]["creationTimestamp"].is_null() {
        return Vec::new();
    }
    let (spec, status) = (&object["spec"], &object["status"]);
    let unmet = |by: &str, conditions: &Value| unmet(by, conditions, |_| true);
    match from.kind {
        "Ingress" if each(&status["loadBalancer"]["ingress"]).next().is_none() => {
            let class = spec["ingressClassName"].as_str();
            let class =
                class.or_else(|| object["metadata"]["annotations"]["kubernetes.io/ingress.class"].as_str());
            vec![match class {
                Some(class) => format!("no controller has written an address; its class is {class}"),
                None => "no controller has written an address, and it names no class".to_owned(),
            }]
        }
        "Ingress" => Vec::new(),
        "APIService" => unmet("", &status["conditions"]),
        GATEWAY => of_gateway(object),
        _ => {
            let parent = |parent: &Value| {
                let by = format!("for {}, ", text(&parent["parentRef"]["name"]));
                unmet(&by, &parent["conditions"])
            };
            let mut said: Vec<String> = each(&status["parents"]).flat_map(parent).collect();
            if from.kind.ends_with("Route") && each(&status["parents"]).next().is_none() {
                said.push("no Gateway has accepted it".to_owned());
            }
            said
        }
    }
}

/// Returns the conditions that are not met, and that `matters` takes.
fn unmet(by: &str, conditions: &Value, matters: impl Fn(&str) -> bool) -> Vec<String> {
    let unmet = each(conditions).filter(|it| it["status"] == "False" && matters(text(&it["type"])));
    unmet.map(|it| said_of(by, it)).collect()
}

/// Tells a condition that is not met.
pub(crate) fn said_of(by: &str, condition: &Value) -> String {
    let field = |name: &str| text(&condition[name]);
    let (kind, reason, words) = (field("type"), field("reason"), field("message").trim_end_matches('.'));
    format!("{by}{kind} is False, {reason}{}{words}", if words.is_empty() { "" } else { ": " })
}

/// Returns what the controller of a Gateway says about it and its listeners. Some other conditions
/// are False if all is well, such as `Conflicted`.
fn of_gateway(gateway: &Value) -> Vec<String> {
    let status = &gateway["status"];
    let matters = |kind: &str| ["Accepted", "Programmed", "ResolvedRefs"].contains(&kind);
    let listener = |listener: &Value| {
        let by = format!("listener {}, ", text(&listener["name"]));
        unmet(&by, &listener["conditions"], matters)
    };
    let mut said = unmet("", &status["conditions"], matters);
    said.extend(each(&status["listeners"]).flat_map(listener));
    // The API server itself writes conditions of the status Unknown.
    let is_seen = |it: &Value| it["type"] == "Accepted" && it["status"] != "Unknown";
    if !each(&status["conditions"]).any(is_seen) {
        let class = text(&gateway["spec"]["gatewayClassName"]);
        said.push(format!("no controller has accepted it; its class is {class}"));
    }
    said
}

fn of_ingress(from: &Referrer, spec: &Value) -> Vec<Reference> {
    let one = |route: String, backend: &Value| {
        let service = &backend["service"];
        let key = ObjectKey::new(&*from.object.namespace, service["name"].as_str()?);
        let port = AskedPort::read(&service["port"]);
        Some(Reference { from: from.clone(), route, service: key, port })
    };
    let default = one("every other request".to_owned(), &spec["defaultBackend"]);
    let rules = each(&spec["rules"]).flat_map(|rule| {
        let host = rule["host"].as_str().unwrap_or("*");
        each(&rule["http"]["paths"]).filter_map(move |path| {
            one(format!("{host}{}", path["path"].as_str().unwrap_or("/")), &path["backend"])
        })
    });
    rules.chain(default).collect()
}

fn of_route(from: &Referrer, spec: &Value) -> Vec<Reference> {
    let host = each(&spec["hostnames"]).next().and_then(Value::as_str).unwrap_or("*");
    let rules = each(&spec["rules"]).enumerate().flat_map(|(at, rule)| {
        let path = each(&rule["matches"]).next().and_then(|first| first["path"]["value"].as_str());
        let route = match (rule["name"].as_str(), path) {
            (Some(name), _) => format!("rule {name}"),
            (None, Some(path)) => format!("{host}{path}"),
            (None, None) => format!("{host}, rule {}", at + 1),
        };
        each(&rule["backendRefs"]).map(move |backend| (route.clone(), backend))
    });
    let of_service = |(route, backend): (String, &Value)| {
        // With the weight 0, the route sends nobody there.
        let is_service = backend["kind"].as_str().is_none_or(|kind| kind == "Service")
            && text(&backend["group"]).is_empty()
            && backend["weight"] != 0;
        let namespace = backend["namespace"].as_str().unwrap_or(&from.object.namespace);
        let service = ObjectKey::new(namespace, backend["name"].as_str().filter(|_| is_service)?);
        Some(Reference { from: from.clone(), route, service, port: AskedPort::read(&backend["port"]) })
    };
    rules.filter_map(of_service).collect()
}

/// Reads a Service that the API server itself calls. The default port is 443.
fn of_client(from: &Referrer, route: String, service: &Value) -> Option<Reference> {
    let key = ObjectKey::new(text(&service["namespace"]), service["name"].as_str()?);
    let port = AskedPort::read(&service["port"]).unwrap_or(AskedPort::Number(443));
    Some(Reference { from: from.clone(), route, service: key, port: Some(port) })
}

/// A permission for references from another namespace: an entry of a ReferenceGrant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The namespace that permits.
    namespace: Text,
    from_kind: Text,
    from_namespace: Text,
    /// The Service, or `None` for all.
    service: Option<Text>,
}

impl Grant {
    /// Reads a ReferenceGrant.
    pub(crate) fn read(object: &Value) -> Vec<Self> {
        let namespace = text(&object["metadata"]["namespace"]);
        let to = |to: &Value| (text(&to["kind"]) == "Service").then(|| to["name"].as_str().map(Text::from));
        let to: Vec<_> = each(&object["spec"]["to"]).filter_map(to).collect();
        let all = each(&object["spec"]["from"]).flat_map(|from| to.iter().map(move |to| (from, to)));
        let one = |(from, to): (&Value, &Option<Text>)| Self {
            namespace: namespace.into(),
            from_kind: text(&from["kind"]).into(),
            from_namespace: text(&from["namespace"]).into(),
            service: to.clone(),
        };
        all.map(one).collect()
    }

    /// Returns true if this permits a reference.
    pub(crate) fn permits(&self, reference: &Reference) -> bool {
        let Reference { from, service, .. } = reference;
        self.namespace == service.namespace
            && *self.from_kind == *from.kind
            && self.from_namespace == from.object.namespace
            && self.service.as_ref().is_none_or(|name| *name == service.name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(kind: &str, object: Value) -> Vec<String> {
        let from = referrer(kind, &object).unwrap();
        let said = |it: Reference| {
            let port = it.port.map_or("none".to_owned(), |port| port.to_string());
            format!("{}: {} -> {} {port}", it.from, it.route, it.service)
        };
        references(&from, &object).into_iter().map(said).collect()
    }

    #[test]
    fn an_ingress_names_services_of_its_own_namespace() {
        let backend = |name: &str, port: Value| json!({"service": {"name": name, "port": port}});
        let ingress = json!({"metadata": {"name": "front", "namespace": "shop"}, "spec": {
            "defaultBackend": backend("other", json!({"number": 80})),
            "rules": [
                {"host": "example.com", "http": {"paths": [
                    {"path": "/api", "backend": backend("api", json!({"name": "http"}))},
                    {"backend": {"resource": {"kind": "Bucket", "name": "x"}}}]}},
                {"http": {"paths": [{"path": "/", "backend": backend("web", json!({}))}]}}]}});
        assert_eq!(
            said("Ingress", ingress),
            [
                "Ingress shop/front: example.com/api -> shop/api \"http\"",
                "Ingress shop/front: */ -> shop/web none",
                "Ingress shop/front: every other request -> shop/other 80",
            ]
        );
    }

    #[test]
    fn a_route_may_name_services_of_other_namespaces() {
        let route = json!({"metadata": {"name": "r", "namespace": "shop"}, "spec": {"hostnames": ["example.com"], "rules": [
            {"matches": [{"path": {"value": "/a"}}], "backendRefs": [{"name": "a", "port": 80}, {"kind": "Bucket", "name": "x"},
                {"name": "at-rest", "port": 80, "weight": 0}]},
            {"backendRefs": [{"name": "b", "namespace": "bank", "port": 81}]}]}});
        assert_eq!(
            said("HTTPRoute", route),
            [
                "HTTPRoute shop/r: example.com/a -> shop/a 80",
                "HTTPRoute shop/r: example.com, rule 2 -> bank/b 81",
            ]
        );
    }

    #[test]
    fn the_api_server_calls_services_at_port_443_unless_told_otherwise() {
        let service = json!({"name": "hook", "namespace": "sys"});
        let hooks = json!({"metadata": {"name": "h"}, "webhooks": [
            {"name": "a.example.com", "clientConfig": {"service": service}},
            {"name": "b.example.com", "clientConfig": {"url": "https://example.com"}}]});
        let name = "ValidatingWebhookConfiguration";
        assert_eq!(said(name, hooks), ["ValidatingWebhookConfiguration h: a.example.com -> sys/hook 443"]);
        let api = json!({"metadata": {"name": "v1.example.com"}, "spec": {"service": {"name": "m", "namespace": "sys", "port": 8443}}});
        assert_eq!(said("APIService", api), ["APIService v1.example.com:  -> sys/m 8443"]);
        assert!(said("APIService", json!({"metadata": {"name": "v1."}, "spec": {}})).is_empty());
    }

    #[test]
    fn a_route_names_gateways_and_other_parents() {
        let route = json!({"metadata": {"name": "r", "namespace": "shop"}, "spec": {"parentRefs": [
            {"name": "own"}, {"name": "edge", "namespace": "infra", "kind": "Gateway", "group": "gateway.networking.k8s.io"},
            {"name": "web", "kind": "Service", "group": ""}, {"name": "mesh", "group": "example.com"}]}});
        assert_eq!(
            gateways(&route).map(|key| key.to_string()).collect::<Vec<_>>(),
            ["shop/own", "infra/edge"]
        );
    }

    #[test]
    fn a_gateway_says_what_keeps_it_from_serving() {
        let check = |status: Value, want: &[&str]| {
            let gateway = json!({"metadata": {"name": "g", "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"gatewayClassName": "c"}, "status": status});
            let from = referrer(GATEWAY, &gateway).unwrap();
            assert_eq!(reported(&from, &gateway), want);
        };
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "R", "message": "M."});
        let accepted = condition("Accepted", "True");
        check(json!({"conditions": [accepted, condition("AttachedListenerSets", "False")]}), &[]);
        check(
            json!({"conditions": [condition("Accepted", "Unknown")]}),
            &["no controller has accepted it; its class is c"],
        );
        check(
            json!({"conditions": [accepted, condition("Programmed", "False")], "listeners": [
                {"name": "https", "conditions": [condition("ResolvedRefs", "False"), condition("Conflicted", "False")]}]}),
            &["Programmed is False, R: M", "listener https, ResolvedRefs is False, R: M"],
        );
    }

    #[test]
    fn a_grant_permits_a_kind_from_a_namespace() {
        let grant = json!({"metadata": {"name": "g", "namespace": "bank"}, "spec": {
            "from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "shop"}],
            "to": [{"group": "", "kind": "Service", "name": "b"}]}});
        let grants = Grant::read(&grant);
        let reference = |kind: &'static str, from: &str, service: &str| Reference {
            from: Referrer { kind, object: ObjectKey::new(from, "r") },
            route: String::new(),
            service: ObjectKey::new("bank", service),
            port: None,
        };
        for (kind, from, service, want) in [
            ("HTTPRoute", "shop", "b", true),
            ("HTTPRoute", "shop", "c", false),
            ("HTTPRoute", "other", "b", false),
            ("GRPCRoute", "shop", "b", false),
        ] {
            let reference = reference(kind, from, service);
            assert_eq!(grants.iter().any(|it| it.permits(&reference)), want, "{kind} {from} {service}");
        }
        assert!(!reference("HTTPRoute", "bank", "b").needs_grant());
    }
}
