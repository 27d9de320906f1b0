//! Tests what `explain` reads of what the user may have meant: similar names, and other namespaces.
//! It does so only if a finding needs it, and without a complaint if the user may not.

use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use serde_json::{Value, json};

use crate::server::{Shop, stderr, stdout};

fn service(namespace: &str, name: &str, spec: Value) -> Value {
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
        "spec": {"ipFamilies": ["IPv4"], "ports": [{"port": 80, "protocol": "TCP"}]}});
    let fields = service["spec"].as_object_mut().unwrap();
    fields.extend(spec.as_object().unwrap().clone());
    fields.insert("clusterIPs".to_owned(), json!([spec["clusterIP"]]));
    service
}

fn pod(namespace: &str, name: &str, labels: Value, phase: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"name": "app", "image": "example.com/app"}]}, "status": {"phase": phase}})
}

/// The Services `web` of two namespaces. That of `shop` selects no pod.
fn objects() -> Vec<Value> {
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    vec![
        namespace("shop"),
        namespace("pay"),
        namespace("test"),
        service("shop", "web", json!({"clusterIP": "10.96.0.10", "selector": {"app": "web", "tier": "x"}})),
        service("pay", "web", json!({"clusterIP": "10.96.0.11", "selector": {"app": "other"}})),
        service("pay", "db", json!({"clusterIP": "10.96.0.20", "selector": {"app": "db"}})),
        service("shop", "cache", json!({"clusterIP": "10.96.0.21", "selector": {"app": "cache"}})),
        service("shop", "by-hand", json!({"clusterIP": "10.96.0.12"})),
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "by-hand-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "by-hand"}},
            "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
            "endpoints": [{"addresses": ["10.96.0.20"]}, {"addresses": ["10.96.0.21"]}, {"addresses": ["10.9.0.1"]}]}),
        pod("pay", "web-1", json!({"app": "web", "tier": "x"}), "Running"),
        pod("test", "web-1", json!({"app": "web", "tier": "x"}), "Succeeded"),
        pod("shop", "other-1", json!({"app": "other"}), "Running"),
    ]
}

async fn shop() -> Shop {
    Shop::with(objects(), Vec::new()).await
}

/// A server that refuses lists of all namespaces.
async fn restricted() -> Shop {
    let refuse = Fault::Refuse { status: 403, retry_after: None };
    let is_of_all = |request: &kube_endpoint_embedded_apiserver::RequestInfo| {
        request.verb == "list" && request.namespace.is_empty() && !request.path.ends_with("/nodes")
    };
    Shop::with(objects(), vec![FaultRule::new(refuse, is_of_all)]).await
}

/// Returns the findings of an explanation, as `code message`, and what is on standard error. It
/// leaves out that no controller writes.
async fn explained(shop: &Shop, name: &str) -> (Vec<String>, String) {
    let output = shop.run(&["explain", name, "-o", "json"]).await;
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let is_left_out =
        |advice: &&Value| ["EP050", "EP057", "EP073"].contains(&advice["code"].as_str().unwrap_or_default());
    let advice = json["toDo"].as_array().unwrap().iter().filter(|advice| !is_left_out(advice));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (advice.map(|it| format!("{} {}", text(&it["code"]), text(&it["message"]))).collect(), stderr(&output))
}

/// Returns the lists of all namespaces.
fn of_all(shop: &Shop) -> Vec<String> {
    let is_of_all = |line: &String| line.starts_with("list ") && !line.contains("/namespaces/");
    shop.requests().into_iter().filter(is_of_all).collect()
}

/// The Service that an alias means is read, in its namespace, and no other one.
#[tokio::test(flavor = "multi_thread")]
async fn an_alias_leads_to_a_service_that_exists() {
    let alias = |name: &str, of: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "shop"},
            "spec": {"type": "ExternalName", "externalName": of}})
    };
    let aliases = [alias("to-db", "db.pay.svc.cluster.local"), alias("to-none", "dbs.pay.svc.cluster.local")];
    let shop = Shop::with([objects(), aliases.to_vec()].concat(), Vec::new()).await;
    let (advice, _) = explained(&shop, "to-db").await;
    assert!(advice.iter().all(|it| it.starts_with("EP033 ")), "{advice:?}");
    let (advice, _) = explained(&shop, "to-none").await;
    assert!(advice.iter().any(|it| it.contains("the Service pay/dbs, which does not exist")), "{advice:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_other_namespaces_have_is_told_with_them() {
    let shop = shop().await;
    let mut text = String::new();
    for (namespace, subject) in [
        ("shop", "db"),
        ("test", "web"),
        ("nope", "db"),
        ("shop", "pod/web-1"),
        ("shop", "wbe"),
        ("pay", "web-admin"),
        ("shop", "pod/othre"),
        ("shop", "pod/other-7dfbff9db-gnqg8"),
        ("shop", "none"),
        ("shop", "no/such"),
    ] {
        let output = shop.run_in(namespace, &["explain", subject]).await;
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), String::new()));
        text += &format!("-n {namespace} {subject}\n{}", stderr(&output));
    }
    insta::assert_snapshot!(text);
    let output = restricted().await.run(&["explain", "db"]).await;
    assert_eq!(stderr(&output), "error: there is no Service shop/db\n");
}

/// One page of the namespace is read, and who may not list it gets the error alone.
#[tokio::test(flavor = "multi_thread")]
async fn similar_names_take_one_request() {
    let shop = shop().await;
    shop.server.clear_request_log();
    let output = shop.run(&["explain", "wbe"]).await;
    assert_eq!(stderr(&output), "error: there is no Service shop/wbe; a similar name in shop is web\n");
    let requests: Vec<String> =
        shop.requests().into_iter().filter(|line| line.contains("/services")).collect();
    insta::assert_snapshot!(requests.join("\n"));
    let refuse = Fault::Refuse { status: 403, retry_after: None };
    let shop = Shop::with(objects(), vec![FaultRule::on(refuse, "list", "services")]).await;
    let output = shop.run(&["explain", "wbe"]).await;
    assert_eq!((output.status.code(), &*stderr(&output)), (Some(2), "error: there is no Service shop/wbe\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_other_namespaces_are_looked_for_if_no_pod_matches() {
    let shop = shop().await;
    let (findings, errors) = explained(&shop, "web").await;
    assert_eq!(errors, "");
    insta::assert_snapshot!(findings.join("\n"));
    insta::assert_snapshot!(of_all(&shop).join("\n"));
    let shop = restricted().await;
    let (findings, errors) = explained(&shop, "web").await;
    assert_eq!((findings.len(), &*errors), (1, ""), "{findings:?}");
    assert!(findings[0].starts_with("EP030"), "{findings:?}");
}

/// Servers find Services by their cluster IP. Without the permission for all namespaces, the own
/// one is searched.
#[tokio::test(flavor = "multi_thread")]
async fn services_are_looked_for_whose_cluster_ips_somebody_wrote_as_endpoints() {
    let shop = shop().await;
    let (findings, errors) = explained(&shop, "by-hand").await;
    assert_eq!(errors, "");
    insta::assert_snapshot!(findings.join("\n"));
    let mut requests = of_all(&shop);
    requests.sort();
    insta::assert_snapshot!(requests.join("\n"));
    let (findings, errors) = explained(&restricted().await, "by-hand").await;
    assert_eq!(errors, "");
    insta::assert_snapshot!(findings.join("\n"));
}

/// A namespace with more pods than a page has is searched for pods with the values of the selector.
#[tokio::test(flavor = "multi_thread")]
async fn pods_with_the_value_under_another_label_are_found_among_many() {
    let labels = json!({"app.kubernetes.io/name": "front"});
    let mut objects = vec![
        service("shop", "front", json!({"clusterIP": "10.96.0.13", "selector": {"app": "front"}})),
        pod("shop", "z-1", labels, "Running"),
    ];
    objects.extend(
        (0..600).map(|at| pod("shop", &format!("a-{at}"), json!({"app": format!("a-{at}")}), "Running")),
    );
    let shop = Shop::with(objects, Vec::new()).await;
    let (findings, _) = explained(&shop, "front").await;
    assert!(findings[0].starts_with("EP067 no pod matches the selector, but pod z-1 has"), "{findings:?}");
}
