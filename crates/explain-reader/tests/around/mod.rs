//! Tests what is read around Services: for workloads, Gateways and the classes of Ingresses.

use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_explain::references::Referrer;
use kube_endpoint_explain::{BackendsExplanation, Options};
use kube_endpoint_explain_reader::ReadError;
use serde_json::{Value, json};

use super::{GATEWAY, Server, now};

const NETWORKING: &str = "/apis/networking.k8s.io/v1/namespaces/shop";

fn deployment(spec: &Value) -> Value {
    let template = json!({"metadata": {"labels": {"app": "web"}}});
    let mut object = json!({"kind": "Deployment", "apiVersion": "apps/v1",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}});
    let spec = spec.as_object().unwrap();
    object["spec"].as_object_mut().unwrap().extend(spec.clone());
    object
}

fn service(name: &str, selector: &Value) -> Value {
    json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.10", "ipFamilies": ["IPv4"], "selector": selector, "ports": [{"port": 80}]}})
}

fn ingress(class: &str) -> Value {
    json!({"kind": "Ingress", "apiVersion": "networking.k8s.io/v1", "metadata": {"name": "front", "namespace": "shop"},
        "spec": {"ingressClassName": class, "rules": [{"host": "example.com", "http": {"paths": [
            {"path": "/a", "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}})
}

fn route(namespace: &str, parent: &Value, service: &str) -> Value {
    json!({"kind": "HTTPRoute", "apiVersion": "gateway.networking.k8s.io/v1", "metadata": {"name": service, "namespace": namespace},
        "spec": {"parentRefs": [parent], "hostnames": ["example.com"], "rules": [{"backendRefs": [{"name": service, "port": 80}]}]},
        "status": {"parents": [{"parentRef": {"name": "edge"}, "conditions": []}]}})
}

/// The resources of a version of the Gateway API.
fn resources(plurals: &[&str]) -> Value {
    let one = |plural: &&str| json!({"name": plural, "singularName": "", "namespaced": true, "kind": "", "verbs": []});
    let resources: Vec<Value> = plurals.iter().map(one).collect();
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "", "resources": resources})
}

/// A namespace with a Deployment and two Services, and what else the server answers.
fn shop(more: impl IntoIterator<Item = (String, Value)>) -> Server {
    let services = [service("web", &json!({"app": "web"})), service("typo", &json!({"app": "wbe"}))];
    let mut answers = vec![
        ("/apis/apps/v1/namespaces/shop/deployments/web".to_owned(), deployment(&json!({}))),
        ("/api/v1/namespaces/shop/services".to_owned(), json!(services)),
        (format!("{NETWORKING}/networkpolicies"), json!([])),
        ("/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices".to_owned(), json!([])),
    ];
    for service in services {
        let name = service["metadata"]["name"].as_str().unwrap().to_owned();
        answers.push((format!("/api/v1/namespaces/shop/services/{name}"), service));
    }
    for list in ["pods", "endpoints", "events"] {
        answers.push((format!("/api/v1/namespaces/shop/{list}"), json!([])));
    }
    answers.push(("/api/v1/pods".to_owned(), json!([])));
    answers.extend(more);
    Server {
        answers: answers.into_iter().collect::<std::collections::BTreeMap<_, _>>().into(),
        ..Server::default()
    }
}

async fn explained(
    server: &Server,
    kind: &'static str,
    name: &str,
) -> Result<BackendsExplanation, ReadError> {
    let of = Referrer { kind, object: ObjectKey::new("shop", name) };
    server.reader().of_files().explain_referrer(&of, &Options::default(), &now).await
}

/// Returns each backend as `service port: clients`.
fn backends(explained: &BackendsExplanation) -> Vec<String> {
    let one = |it: &kube_endpoint_explain::Backend| {
        let port = it.port.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("{} {port}: {}", it.service, it.routes.join(", "))
    };
    explained.backends.iter().map(one).collect()
}

/// The requests that are not about the Service itself.
fn around(server: &Server) -> Vec<String> {
    let of_services = |path: &String| {
        path.starts_with("/api/v1/") || path.contains("endpointslices") || path.contains("/networkpolicies")
    };
    let of_workloads = |path: &String| {
        path.starts_with("/apis/apps/v1") && !path.ends_with("/web")
            || path.starts_with("/apis/batch")
            || path.contains("/leases")
            || path.contains("/rollouts")
    };
    let asked = server.asked.lock().unwrap().clone();
    asked.into_iter().filter(|path| !of_services(path) && !of_workloads(path)).collect()
}

#[tokio::test]
async fn a_workload_is_explained_with_what_leads_to_its_services() {
    let all = resources(&["gateways", "httproutes", "grpcroutes"]);
    let server = shop([
        (format!("{NETWORKING}/ingresses"), json!([ingress("nginx")])),
        (GATEWAY.to_owned(), all),
        (GATEWAY.replace("v1", "v1alpha2"), resources(&["tlsroutes", "tcproutes"])),
        (
            format!("{GATEWAY}/namespaces/shop/httproutes"),
            json!([route("shop", &json!({"name": "edge"}), "web")]),
        ),
        (format!("{GATEWAY}/namespaces/shop/grpcroutes"), json!([])),
        (format!("{}/namespaces/shop/tlsroutes", GATEWAY.replace("v1", "v1alpha2")), json!([])),
        (format!("{}/namespaces/shop/tcproutes", GATEWAY.replace("v1", "v1alpha2")), json!([])),
    ]);
    let explained = explained(&server, "Deployment", "web").await.unwrap();
    assert_eq!(
        backends(&explained),
        ["shop/web 80: HTTPRoute shop/web: example.com, rule 1, Ingress shop/front: example.com/a"]
    );
    assert_eq!(explained.nearly.iter().map(|it| &*it.service).collect::<Vec<_>>(), ["typo"]);
    assert_eq!(explained.not_read, Vec::<String>::new());
    // The Deployment, the Ingresses, two versions of the Gateway API and four kinds of routes.
    assert_eq!(around(&server).len(), 8, "{:#?}", around(&server));
}

#[tokio::test]
async fn without_the_gateway_api_few_requests_are_sent() {
    let server = shop([(format!("{NETWORKING}/ingresses"), json!(403))]);
    let explained = explained(&server, "Deployment", "web").await.unwrap();
    assert_eq!(backends(&explained), ["shop/web : "]);
    let note = "What leads to the Services is not all known: these could not be read: ingresses.";
    assert!(explained.not_read.iter().any(|it| it == note), "{:?}", explained.not_read);
    assert_eq!(around(&server).len(), 5, "{:#?}", around(&server));
}

#[tokio::test]
async fn a_workload_that_no_service_selects_needs_nothing_else() {
    let labels = json!({"app": "other"});
    let spec = json!({"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}});
    let other = deployment(&spec);
    let server = shop([("/apis/apps/v1/namespaces/shop/deployments/web".to_owned(), other)]);
    let explained = explained(&server, "Deployment", "web").await.unwrap();
    assert_eq!(explained.message, "no Service selects its pods");
    assert_eq!(server.asked.lock().unwrap().len(), 2, "the Deployment and the Services");
}

/// A Service for each pod of a StatefulSet asks for a label that the template does not have.
#[tokio::test]
async fn pods_are_read_if_a_service_asks_for_labels_of_their_own() {
    let own = json!({"app": "web", "statefulset.kubernetes.io/pod-name": "web-0"});
    let pod = |labels: &Value| json!({"metadata": {"name": "web-0", "namespace": "shop", "labels": labels}});
    for (labels, want) in [(own.clone(), 1), (json!({"app": "web"}), 0)] {
        let first = service("first", &own);
        let server = shop([
            ("/api/v1/namespaces/shop/services".to_owned(), json!([first])),
            ("/api/v1/namespaces/shop/services/first".to_owned(), first),
            ("/api/v1/namespaces/shop/pods".to_owned(), json!([pod(&labels)])),
        ]);
        let explained = explained(&server, "Deployment", "web").await.unwrap();
        assert_eq!(explained.backends.len(), want, "{labels}");
    }
}

#[tokio::test]
async fn a_replica_set_stands_for_its_deployment() {
    let owner = json!([{"kind": "Deployment", "name": "web", "controller": true}]);
    let replica_set = |owners: &Value| {
        json!({"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": {"name": "web-1", "namespace": "shop", "ownerReferences": owners},
            "spec": {"replicas": 0, "template": {"metadata": {"labels": {"app": "web"}}}}})
    };
    let path = "/apis/apps/v1/namespaces/shop/replicasets/web-1";
    let server = shop([(path.to_owned(), replica_set(&owner))]);
    let of_owner = explained(&server, "ReplicaSet", "web-1").await.unwrap();
    assert_eq!((of_owner.of.to_string(), of_owner.idle.is_some()), ("Deployment shop/web".to_owned(), false));
    let server = shop([(path.to_owned(), replica_set(&json!([])))]);
    let alone = explained(&server, "ReplicaSet", "web-1").await.unwrap();
    assert_eq!(alone.message, "ReplicaSet web-1 is scaled to zero; its Service receives no traffic");
    let owner =
        json!([{"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web", "controller": true}]);
    let mut rollout = deployment(&json!({}));
    rollout["kind"] = "Rollout".into();
    rollout["apiVersion"] = "argoproj.io/v1alpha1".into();
    for (rollout, want) in [(rollout, "Rollout shop/web"), (json!(403), "ReplicaSet shop/web-1")] {
        let rollout = ("/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/web".to_owned(), rollout);
        let server = shop([(path.to_owned(), replica_set(&owner)), rollout]);
        assert_eq!(explained(&server, "ReplicaSet", "web-1").await.unwrap().of.to_string(), want);
    }
}

/// Endpoints belong to the Service of their name.
#[tokio::test]
async fn endpoints_of_a_similar_name_are_read_if_no_service_has_it() {
    let endpoints = |name: &str| {
        json!({"kind": "Endpoints", "apiVersion": "v1", "metadata": {"name": name, "namespace": "shop"},
            "subsets": [{"addresses": [{"ip": "192.0.2.7"}], "ports": [{"port": 80}]}]})
    };
    let of = |path: &str| format!("/api/v1/namespaces/shop/{path}");
    let all = ["legacy-database", "legacy-db-old", "other"].map(endpoints);
    let taken = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "legacy-db-old", "uid": "u"}});
    let mut service = service("legacy-db", &Value::Null);
    service["spec"]["clusterIPs"] = json!(["10.96.0.10"]);
    let server = shop([
        (of("services/legacy-db"), service),
        (of("services/legacy-db-old"), taken),
        (of("endpoints"), json!(all)),
        (of("endpoints/legacy-database"), endpoints("legacy-database")),
    ]);
    let key = ObjectKey::new("shop", "legacy-db");
    let explained =
        server.reader().of_files().explain_service(&key, &Options::default(), &now).await.unwrap();
    let want = "there are no endpoints for it; Endpoints legacy-database have a similar name and no Service";
    let message = explained.explanation.verdict.message;
    assert!(message.ends_with(want), "{message}");
    assert_eq!(server.asked("/endpoints/legacy-db-old") + server.asked("/endpoints/other"), 0);
}

#[tokio::test]
async fn more_than_ten_services_are_counted_and_not_judged() {
    let services: Vec<Value> =
        (0..12).map(|at| service(&format!("web-{at:02}"), &json!({"app": "web"}))).collect();
    let of = services.clone().into_iter().map(|service| {
        (
            format!("/api/v1/namespaces/shop/services/{}", service["metadata"]["name"].as_str().unwrap()),
            service,
        )
    });
    let server = shop(of.chain([("/api/v1/namespaces/shop/services".to_owned(), json!(services))]));
    let explained = explained(&server, "Deployment", "web").await.unwrap();
    assert_eq!(explained.backends.len(), 10);
    assert!(
        explained.not_read.contains(&"2 more Services are not read.".to_owned()),
        "{:?}",
        explained.not_read
    );
}

/// A Gateway, and routes of two namespaces.
fn gateway(more: impl IntoIterator<Item = (String, Value)>) -> Server {
    let gateway = json!({"kind": "Gateway", "apiVersion": "gateway.networking.k8s.io/v1", "metadata": {"name": "edge", "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"gatewayClassName": "c"}, "status": {"conditions": [
            {"type": "Accepted", "status": "True"}, {"type": "Programmed", "status": "False", "reason": "AddressNotAssigned", "message": "no address."}]}});
    let routes = [
        route("shop", &json!({"name": "edge"}), "web"),
        route("shop", &json!({"name": "other"}), "typo"),
        route("bank", &json!({"name": "edge"}), "of-another-gateway"),
        route("bank", &json!({"name": "edge", "namespace": "shop"}), "gone"),
    ];
    let own: Vec<&Value> = routes.iter().filter(|it| it["metadata"]["namespace"] == "shop").collect();
    let answers = [
        (format!("{GATEWAY}/namespaces/shop/gateways/edge"), gateway),
        (GATEWAY.to_owned(), resources(&["gateways", "httproutes", "grpcroutes"])),
        (format!("{GATEWAY}/namespaces/shop/httproutes"), json!(own)),
        (format!("{GATEWAY}/namespaces/shop/grpcroutes"), json!([])),
        (format!("{GATEWAY}/httproutes"), json!(routes)),
        (format!("{GATEWAY}/grpcroutes"), json!([])),
        (format!("{GATEWAY}/gatewayclasses/c"), json!({"kind": "GatewayClass", "metadata": {"name": "c"}})),
        ("/api/v1/namespaces/bank/services".to_owned(), json!([])),
        ("/api/v1/services".to_owned(), json!([])),
        ("/api/v1/namespaces/bank".to_owned(), json!(403)),
        ("/apis/networking.k8s.io/v1/namespaces/bank/networkpolicies".to_owned(), json!([])),
    ];
    shop(answers.into_iter().chain(more))
}

#[tokio::test]
async fn a_gateway_is_explained_by_the_routes_that_name_it() {
    let server = gateway([]);
    let explained = explained(&server, "Gateway", "edge").await.unwrap();
    assert_eq!(
        backends(&explained),
        [
            "bank/gone 80: HTTPRoute bank/gone: example.com, rule 1",
            "shop/web 80: HTTPRoute shop/web: example.com, rule 1"
        ]
    );
    assert_eq!(explained.backends[0].verdict.code.to_string(), "EP120");
    assert_eq!(
        explained.reported,
        ["Gateway shop/edge: Programmed is False, AddressNotAssigned: no address"]
    );
    assert_eq!(explained.not_read, ["The server does not have these kinds: TCPRoute, TLSRoute."]);
    assert_eq!(around(&server).len(), 6, "{:#?}", around(&server));
}

#[tokio::test]
async fn who_may_not_read_routes_of_all_namespaces_reads_those_of_one() {
    let server = gateway([
        (format!("{GATEWAY}/httproutes"), json!(403)),
        (format!("{GATEWAY}/grpcroutes"), json!(403)),
    ]);
    let explained = explained(&server, "Gateway", "edge").await.unwrap();
    assert_eq!(backends(&explained), ["shop/web 80: HTTPRoute shop/web: example.com, rule 1"]);
    assert!(
        explained.not_read.iter().any(|it| it.starts_with("Only routes of namespace shop are read.")),
        "{:?}",
        explained.not_read
    );
    assert_eq!(around(&server).len(), 7, "{:#?}", around(&server));
}

#[tokio::test]
async fn a_server_without_gateways_says_so() {
    let absent = |version| {
        let path = format!("{}/namespaces/shop/gateways/edge", GATEWAY.replace("v1", version));
        (path, json!("404 page not found\n"))
    };
    let error = explained(&shop(["v1", "v1beta1"].map(absent)), "Gateway", "edge").await.unwrap_err();
    assert!(error.to_string().starts_with("the server has no Gateway: "), "{error}");
    let error = explained(&shop([]), "Gateway", "edge").await.unwrap_err();
    assert_eq!(error.to_string(), "there is no Gateway shop/edge");
}

#[tokio::test]
async fn a_class_that_does_not_exist_is_told() {
    let path = "/apis/networking.k8s.io/v1/ingressclasses/nginx";
    let found =
        json!({"kind": "IngressClass", "apiVersion": "networking.k8s.io/v1", "metadata": {"name": "nginx"}});
    for (answer, want) in [(None, true), (Some(found), false), (Some(json!(403)), false)] {
        let mut unserved = ingress("nginx");
        unserved["status"] = json!({});
        let ingress = (format!("{NETWORKING}/ingresses/front"), unserved);
        let server = shop(answer.map(|it| (path.to_owned(), it)).into_iter().chain([ingress]));
        let explained = explained(&server, "Ingress", "front").await.unwrap();
        assert_eq!(
            explained.message.contains("IngressClass nginx does not exist"),
            want,
            "{}",
            explained.message
        );
    }
}
