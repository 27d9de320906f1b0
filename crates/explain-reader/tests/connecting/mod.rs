//! Tests what is read about a client that connects to a Service.

use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_explain::{FromPod, Options};
use kube_endpoint_explain_reader::ReadError;
use serde_json::{Value, json};

use super::{Server, now};

const FORBIDDEN: u16 = 403;

fn pod(namespace: &str, name: &str, ip: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {"nodeName": "a", "containers": [{"name": "app", "image": "i"}]},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn policies(namespace: &str) -> String {
    format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies")
}

/// Returns a server with a Service, its pod, a client of another namespace, and a policy in each
/// that names the other one by a label of its own.
fn server(changed: impl IntoIterator<Item = (String, Value)>) -> Server {
    let namespace = |name: &str| json!({"metadata": {"name": name, "labels": {"team": name}}});
    let policy = |namespace: &str, spec: Value| json!([{"metadata": {"name": "p", "namespace": namespace}, "spec": spec}]);
    let peers = |team: &str| json!([{"namespaceSelector": {"matchLabels": {"team": team}}}]);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"], "ipFamilies": ["IPv4"],
            "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}});
    let to_shop = json!({"podSelector": {}, "policyTypes": ["Egress"],
        "egress": [{"to": peers("shop")}, {"ports": [{"port": 53, "protocol": "UDP"}]}]});
    let of = |path: &str| format!("/api/v1/namespaces{path}");
    let mut answers = vec![
        (of("/shop/services/web"), service),
        (of("/shop/pods"), json!([pod("shop", "web", "10.9.0.1")])),
        (of("/shop/events"), json!([])),
        ("/api/v1/pods".to_owned(), json!([])),
        ("/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices".to_owned(), json!([])),
        (of("/front"), json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "front"}})),
        (of("/front/pods"), json!([{"metadata": {"name": "client", "namespace": "front"}}])),
        (of("/front/pods/client"), pod("front", "client", "10.9.0.2")),
        (of(""), json!([namespace("shop"), namespace("front")])),
        (policies("shop"), policy("shop", json!({"podSelector": {}, "ingress": [{"from": peers("front")}]}))),
        (policies("front"), policy("front", to_shop)),
    ];
    answers.extend(changed);
    let answers = answers.into_iter().collect::<std::collections::BTreeMap<_, _>>();
    Server { answers: answers.into(), ..Server::default() }
}

async fn explained(server: &Server, client: Option<&str>) -> Result<Option<FromPod>, ReadError> {
    let options = Options::default().with_from(client.map(|name| ObjectKey::new("front", name)));
    let web = ObjectKey::new("shop", "web");
    let reader = server.reader().of_files();
    Ok(reader.explain_service(&web, &options, &now).await?.explanation.from)
}

/// Returns the sentence about a client.
async fn said(server: &Server) -> String {
    explained(server, Some("client")).await.unwrap().unwrap().message
}

#[tokio::test]
async fn a_client_costs_at_most_three_requests_more() {
    let server = server([]);
    explained(&server, None).await.unwrap();
    let before = std::mem::take(&mut *server.asked.lock().unwrap());
    assert_eq!(said(&server).await, "no NetworkPolicy keeps pod front/client from connecting to the pods");
    let mut asked = server.asked.lock().unwrap().clone();
    asked.retain(|path| !before.contains(path));
    assert_eq!(asked, ["/api/v1/namespaces/front/pods/client", &policies("front"), "/api/v1/namespaces"]);
}

#[tokio::test]
async fn the_labels_of_one_namespace_need_no_list() {
    let open = (policies("front"), json!([]));
    let labelled = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "front", "labels": {"team": "front"}}});
    let server = server([open, ("/api/v1/namespaces/front".to_owned(), labelled)]);
    assert!(said(&server).await.starts_with("no NetworkPolicy"));
    assert!(!server.asked.lock().unwrap().contains(&"/api/v1/namespaces".to_owned()));
}

#[tokio::test]
async fn what_may_not_be_read_is_not_known() {
    let forbid = |path: String| (path, json!(FORBIDDEN));
    let no_policies = server([forbid(policies("front")), forbid(policies("shop"))]);
    assert_eq!(
        said(&no_policies).await,
        "it is not known if NetworkPolicies keep pod front/client from connecting: those of namespace front could not be read, and those of namespace shop could not be read"
    );
    let no_namespaces = server([forbid("/api/v1/namespaces".to_owned())]);
    assert!(said(&no_namespaces).await.ends_with("a rule names namespaces by labels that could not be read"));
}

#[tokio::test]
async fn a_client_that_is_not_there_or_may_not_be_read_is_an_error() {
    let error = explained(&server([]), Some("clinet")).await.unwrap_err().to_string();
    assert_eq!(error, "there is no pod front/clinet; a similar name in front is client");
    let hidden = server([("/api/v1/namespaces/front/pods/client".to_owned(), json!(FORBIDDEN))]);
    let error = explained(&hidden, Some("client")).await.unwrap_err().to_string();
    assert!(error.starts_with("pod front/client, the client, cannot be read: "), "{error}");
}
