//! Tests what the commands say about Services that name an EndpointSelector, on a server that has
//! some, has none, does not serve them, or does not let the user read them.

use std::io::Write;
use std::process::{Command, Stdio};

use kube_endpoint_embedded_apiserver::{Fault, FaultRule, RequestInfo};
use serde_json::{Value, json};

use crate::server::{Shop, stderr, stdout};

const KINDS: &str = "apis/kube-endpoint-manager.github.io/v1alpha1";

fn service(name: &str, selector: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "shop", "uid": name,
            "resourceVersion": "1", "annotations": {"kube-endpoint-manager.github.io/endpoint-selector": selector}},
        "spec": {"ipFamilies": ["IPv4"], "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"],
            "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]}})
}

fn selector() -> Value {
    json!({"apiVersion": "kube-endpoint-manager.github.io/v1alpha1", "kind": "EndpointSelector",
        "metadata": {"name": "web-stable", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "track", "operator": "NotIn", "values": ["canary", "shadow"]}]}}})
}

fn pod(number: usize, labels: Value) -> Value {
    let ip = format!("10.1.0.{number}");
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("web-{number}"), "namespace": "shop", "labels": labels},
        "spec": {"nodeName": "node-a", "containers": [{"name": "app", "image": "example.com/app"}]},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn slice() -> Value {
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "web-1", "namespace": "shop", "uid": "slice", "resourceVersion": "1", "generateName": "web-",
            "labels": {"kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": "endpoint-selector.kube-endpoint-manager.github.io",
                "kube-endpoint-manager.github.io/endpoint-selector": "web-stable"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "web", "controller": true,
                "blockOwnerDeletion": true}]},
        "endpoints": [{"addresses": ["10.1.0.1"], "nodeName": "node-a",
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "targetRef": {"kind": "Pod", "namespace": "shop", "name": "web-1"}}],
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}]})
}

/// Returns a Service, a pod that its EndpointSelector selects, another pod, and the slice.
fn objects() -> Vec<Value> {
    let mut slice = slice();
    let mut first = pod(1, json!({"app": "web"}));
    first["metadata"]["uid"] = "p".into();
    first["metadata"]["resourceVersion"] = "1".into();
    slice["endpoints"][0]["targetRef"]["uid"] = "p".into();
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
        service("web", "web-stable"),
        first,
        pod(2, json!({"app": "web", "track": "canary"})),
        slice,
    ]
}

async fn shop(selectors: bool, refused: Option<u16>) -> Shop {
    let is_about_selectors = |request: &RequestInfo| request.path.contains("/endpointselectors");
    let refuse = |status| FaultRule::new(Fault::Refuse { status, retry_after: None }, is_about_selectors);
    let objects = objects().into_iter().chain(selectors.then(selector));
    Shop::with(objects, refused.map(refuse).into_iter().collect()).await
}

fn about_selectors(shop: &Shop) -> Vec<String> {
    shop.requests().into_iter().filter(|line| line.contains("endpointselectors")).collect()
}

/// Returns the exit code and what a command prints, without ages.
async fn told(shop: &Shop, arguments: &[&str]) -> String {
    let output = shop.run(arguments).await;
    format!("{}{}exit code {}\n", stdout(&output), stderr(&output), output.status.code().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attached_service_is_explained_with_its_selector() {
    let shop = shop(true, None).await;
    insta::assert_snapshot!(told(&shop, &["explain", "web"]).await);
    assert_eq!(
        about_selectors(&shop),
        [format!("get /{KINDS}/namespaces/shop/endpointselectors/web-stable")]
    );
    insta::assert_snapshot!(told(&shop, &["explain", "pod/web-2"]).await);
    assert_eq!(told(&shop, &["lint", "--info"]).await, "0 errors, 0 warnings in 1 Service.\nexit code 0\n");
    assert_eq!(told(&shop, &["diff"]).await, "Nothing would change.\nexit code 0\n");
    let all = format!("list /{KINDS}/namespaces/shop/endpointselectors?");
    assert!(about_selectors(&shop).iter().all(|line| line.starts_with(&all)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selector_that_is_missing_not_served_or_not_readable() {
    let mut text = String::new();
    for (what, refused) in [("missing", None), ("not served", None), ("forbidden", Some(403))] {
        let shop = shop(false, refused).await;
        // A real server answers with a text after the CustomResourceDefinition was deleted.
        if what == "not served" {
            shop.server.hide_group("kube-endpoint-manager.github.io");
        }
        for arguments in [&["explain", "web"][..], &["lint", "-o", "wide"]] {
            text += &format!("--- {what}: {}\n{}", arguments.join(" "), told(&shop, arguments).await);
        }
    }
    insta::assert_snapshot!(text);
}

/// The EndpointSelector, its pods and its Lease are read before the Service is attached.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_with_a_selector_is_rehearsed() {
    let mut all = objects();
    all[2]["spec"]["selector"] = json!({"app": "web"});
    let mut selector = selector();
    selector["metadata"]["uid"] = "selector".into();
    selector["metadata"]["generation"] = 1.into();
    selector["metadata"]["resourceVersion"] = "1".into();
    selector["status"] = json!({"observedGeneration": 1, "conditions": [
        {"type": "Accepted", "status": "True"},
        {"type": "ReadyToAttach", "status": "True", "message": "take spec.selector out of Service web"},
    ]});
    let mut elsewhere = selector.clone();
    elsewhere["metadata"]["namespace"] = "pay".into();
    let pay = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "pay"}});
    let shop = Shop::with(all.iter().cloned().chain([selector]), Vec::new()).await;
    let text = told(&shop, &["explain", "web"]).await;
    let attach = text.lines().find(|line| line.contains("patch service")).unwrap();
    assert!(attach.contains(r#""path":"/spec/selector""#), "{attach}");
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("is ready to attach: EndpointSelector web-stable selects 1 pod, 1 ready"),
        "{text}"
    );
    assert!(said.contains("none would come, and web-2 would go"), "{text}");
    let told_readable = told(&shop, &["lint", "--info"]).await;
    assert!(told_readable.contains("is ready to attach"));

    let is_about_selectors = |request: &RequestInfo| request.path.contains("/endpointselectors");
    let refuse = FaultRule::new(Fault::Refuse { status: 403, retry_after: None }, is_about_selectors);
    let refused = Shop::with(all.clone(), vec![refuse]).await;
    let told_refused = told(&refused, &["lint", "--info"]).await;
    assert!(told_refused.contains("EndpointSelectors could not be read"), "{told_refused}");
    let problems = |text: &str| text.matches("\nerror ").count() + text.matches("\nwarning ").count();
    assert_eq!(problems(&told_refused), problems(&told_readable), "the Service works without them");

    all[2]["spec"].as_object_mut().unwrap().remove("selector");
    let shop = Shop::with(all.into_iter().chain([pay, elsewhere]), Vec::new()).await;
    let said = told(&shop, &["explain", "web"]).await;
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("the namespace pay has one of this name"), "{said}");
}

/// Few clusters serve EndpointSelectors, and few users may read them.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_asks_for_selectors_if_no_service_names_one() {
    let shop = Shop::start(Vec::new()).await;
    for arguments in
        [&["explain", "frontend"][..], &["explain", "pod/frontend-7dfbff9db-gnqg8"], &["lint"], &["diff"]]
    {
        shop.run(arguments).await;
    }
    assert_eq!(about_selectors(&shop), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_slices_of_a_selector_are_left_over_without_their_service() {
    let mut left = slice();
    left["metadata"]["labels"]["kubernetes.io/service-name"] = "gone".into();
    left["metadata"]["managedFields"] = json!([{"manager": "kube-endpoint-manager", "operation": "Update",
        "apiVersion": "discovery.k8s.io/v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:addressType": {}, "f:endpoints": {}, "f:ports": {}}}]);
    let mut used = left.clone();
    used["metadata"]["name"] = "web-2".into();
    used["metadata"]["uid"] = "used".into();
    used["metadata"]["labels"]["kubernetes.io/service-name"] = "web".into();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let shop = Shop::with([namespace, service("web", "gone"), left, used], Vec::new()).await;
    insta::assert_snapshot!(told(&shop, &["cleanup"]).await, @r"
    left over  EndpointSlice shop/web-1
               The Service gone does not exist.

    1 left over; --yes deletes them.
    exit code 1
    ");
}

/// Renders manifests. Returns the exit code and the whole output.
fn rendered(objects: &[Value]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-diagnose_svc"));
    command.args(["render", "-f", "-"]).env_remove("COLUMNS");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    let _ = child.stdin.take().unwrap().write_all(texts.join("\n---\n").as_bytes());
    let output = child.wait_with_output().unwrap();
    format!("{}{}exit code {}\n", stdout(&output), stderr(&output), output.status.code().unwrap())
}

/// Returns a Service as a person writes it.
fn written(annotation: &str, selector: Option<&str>) -> Value {
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop",
            "annotations": {"kube-endpoint-manager.github.io/endpoint-selector": annotation}},
        "spec": {"ports": [{"port": 80, "targetPort": 8080}]}});
    if let Some(app) = selector {
        service["spec"]["selector"] = json!({"app": app});
    }
    service
}

#[test]
fn manifests_of_attached_services_are_rendered() {
    let with =
        |service: Value, selector: Value| rendered(&[service, selector, pod(1, json!({"app": "web"}))]);
    let mut mistyped = selector();
    mistyped["spec"]["selector"]["matchExpressions"][0]["operator"] = "NotInn".into();
    let mut other = selector();
    other["apiVersion"] = "kube-endpoint-manager.github.io/v1".into();
    let mut of_kubernetes = selector();
    of_kubernetes["apiVersion"] = "discovery.k8s.io/v1alpha1".into();
    let mut key = selector();
    key["spec"]["selector"] = json!({"matchLabels": {"the app": "web"}});
    let mut none = selector();
    none["spec"]["selector"] = json!({"matchLabels": {"app": "api"}});
    let cases = [
        ("attached", with(written("web-stable", None), selector())),
        ("selects no pod", with(written("web-stable", None), none)),
        ("not given", rendered(&[written("web-stable", None), pod(1, json!({"app": "web"}))])),
        ("invalid key", with(written("web-stable", None), key)),
        ("mistyped operator", with(written("web-stable", None), mistyped)),
        ("another version", with(written("web-stable", None), other)),
        ("of Kubernetes", with(written("web-stable", None), of_kubernetes)),
        ("impossible name", with(written("Web Stable!", None), selector())),
        ("with a selector, too", with(written("web-stable", Some("web")), selector())),
    ];
    let texts = cases.map(|(what, text)| format!("--- {what}\n{text}"));
    insta::assert_snapshot!(texts.join(""));
}
