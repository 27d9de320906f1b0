//! Tests that `cleanup` lists, confirms and deletes leftovers, and nothing else.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, RequestInfo};
use serde_json::{Value, json};

use crate::server::{Shop, stderr, stdout};

fn service(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "shop", "uid": uid},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]}})
}

fn slice(name: &str, service: &str, owner: Value) -> Value {
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": [], "ports": [],
    "metadata": {"name": name, "namespace": "shop", "ownerReferences": owner, "labels": {
        "kubernetes.io/service-name": service,
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }, "managedFields": written_by("kube-endpoint-manager", "f:endpoints")}})
}

/// Returns the managedFields of an object whose field was written by this manager.
fn written_by(manager: &str, field: &str) -> Value {
    json!([{"manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": {field: {}}}])
}

fn owned_by(name: &str, uid: &str) -> Value {
    json!([{"apiVersion": "v1", "kind": "Service", "name": name, "uid": uid, "controller": true}])
}

fn endpoints(name: &str, labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {
        "name": name, "namespace": "shop", "labels": labels,
        "managedFields": written_by("kube-controller-manager", "f:subsets"),
    }})
}

/// Returns one leftover of each kind, and one object that looks like a leftover.
pub(crate) fn objects() -> Vec<Value> {
    let made = json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    let mut foreign = slice("foreign", "gone", json!([]));
    foreign["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] =
        "my-controller.example.com".into();
    let mut by_hand = endpoints("by-hand", json!({}));
    by_hand["metadata"]["managedFields"] = written_by("kubectl-create", "f:subsets");
    vec![
        service("web", "web-uid"),
        slice("web-owned", "web", owned_by("web", "web-uid")),
        endpoints("web", made.clone()),
        // These are leftovers.
        slice("gone-orphan", "gone", json!([])),
        slice("gone-owned", "gone", owned_by("gone", "gone-uid")),
        slice("web-old", "web", owned_by("web", "old-uid")),
        endpoints("gone", made),
        // Somebody else wrote these.
        foreign,
        by_hand,
    ]
}

const LEFTOVERS: &str = "\
left over  EndpointSlice shop/gone-orphan
           The Service gone does not exist.
left over  EndpointSlice shop/gone-owned
           The Service gone does not exist.
left over  EndpointSlice shop/web-old
           Its owner, Service web (uid old-uid), does not exist; the Service web
           that exists has another uid.
left over  Endpoints shop/gone
           The Service gone does not exist.

4 left over; --yes deletes them.
";

fn names(shop: &Shop, plural: &str) -> Vec<String> {
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    shop.server.list(plural).iter().map(name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn leftovers_are_listed_and_nothing_is_written() {
    let shop = Shop::with(objects(), Vec::new()).await;
    let output = shop.run(&["cleanup"]).await;
    assert_eq!(
        (stdout(&output), output.status.code()),
        (LEFTOVERS.to_owned(), Some(1)),
        "{}",
        stderr(&output)
    );
    assert!(shop.server.request_log().iter().all(|logged| !logged.request.is_write()));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_yes_leftovers_are_deleted_and_nothing_else() {
    let shop = Shop::with(objects(), Vec::new()).await;
    let output = shop.run(&["cleanup", "--yes", "-o", "json"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let outcomes: Vec<&str> =
        json["items"].as_array().unwrap().iter().map(|item| item["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["deleted"; 4]);
    assert_eq!(names(&shop, "endpointslices"), ["foreign", "web-owned"]);
    assert_eq!(names(&shop, "endpoints"), ["by-hand", "web"]);
    let output = shop.run(&["cleanup", "--yes"]).await;
    assert_eq!((stdout(&output), output.status.code()), ("Nothing is left over.\n".to_owned(), Some(0)));
}

/// Somebody has restored a backup without its Services, or has copied objects with their labels.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_the_label_and_was_made_by_somebody_else_is_kept() {
    let made = json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    let mut restored = endpoints("restored", made.clone());
    restored["metadata"]["managedFields"] = written_by("velero-server", "f:subsets");
    let mut unknown = endpoints("unknown", made);
    unknown["metadata"]["managedFields"] = json!([]);
    let mut copied = slice("copied", "gone", json!([]));
    copied["metadata"]["managedFields"] = written_by("kubectl-create", "f:ports");
    let mut mirrored = copied.clone();
    mirrored["metadata"]["name"] = "mirrored".into();
    mirrored["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] =
        "endpointslicemirroring-controller.k8s.io".into();
    // Before Kubernetes 1.33 Endpoints had no label.
    let old = endpoints("old", json!({}));
    let shop = Shop::with([restored, unknown, copied, mirrored, old], Vec::new()).await;
    let output = shop.run(&["cleanup", "--yes"]).await;
    insta::assert_snapshot!(stdout(&output), @r"
    kept       EndpointSlice shop/copied
               The Service gone does not exist, but kubectl-create, which is no
               controller, wrote what it publishes.
    kept       EndpointSlice shop/mirrored
               The Service gone does not exist, but kubectl-create, which is no
               controller, wrote what it publishes; cleanup keeps it, but the
               EndpointSlice-mirroring controller, which its label names, deletes or
               changes it.
    deleted    Endpoints shop/old
               The Service old does not exist.
    kept       Endpoints shop/restored
               The Service restored does not exist, but velero-server, which is no
               controller, wrote what it publishes.
    kept       Endpoints shop/unknown
               The Service unknown does not exist, but its managedFields do not tell
               who wrote it.

    1 deleted. 4 kept.
    ");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(names(&shop, "endpointslices"), ["copied", "mirrored"]);
    // Nothing is left to delete.
    for arguments in [&["cleanup"][..], &["cleanup", "--yes"]] {
        let output = shop.run(arguments).await;
        assert!(stdout(&output).ends_with("\n\nNothing is left over. 4 kept.\n"), "{}", stdout(&output));
        assert_eq!(output.status.code(), Some(0));
    }
    assert_eq!(names(&shop, "endpoints"), ["restored", "unknown"]);
}

/// Returns a Service without a selector, the Endpoints that a controller made for it, and a slice
/// that is mirrored from these.
fn without_selector(name: &str) -> Vec<Value> {
    let made = json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    let mut service = service(name, &format!("{name}-uid"));
    service["spec"] = json!({"clusterIP": "10.96.0.9", "ports": [{"name": "http", "port": 80}]});
    let mut left = endpoints(name, made);
    left["metadata"]["uid"] = format!("{name}-endpoints").into();
    left["subsets"] = json!([{"addresses": [{"ip": "10.1.0.1", "targetRef": {"kind": "Pod", "name": "p"}}],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}]);
    let owner =
        json!([{"apiVersion": "v1", "kind": "Endpoints", "name": name, "uid": format!("{name}-endpoints")}]);
    let mut mirrored = slice(&format!("{name}-mirrored"), name, owner);
    mirrored["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] =
        "endpointslicemirroring-controller.k8s.io".into();
    vec![service, left, with_endpoint(mirrored, "10.1.0.1")]
}

fn with_endpoint(mut slice: Value, address: &str) -> Value {
    slice["ports"] = json!([{"name": "http", "port": 8080, "protocol": "TCP"}]);
    slice["endpoints"] = json!([{"addresses": [address], "conditions": {"ready": true}}]);
    slice
}

/// Returns a slice that somebody wrote.
fn written(service: &str) -> Value {
    let mut slice = with_endpoint(slice(&format!("{service}-own"), service, json!([])), "10.9.0.1");
    slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = "me".into();
    slice
}

/// kube-controller-manager and kube-endpoint-manager leave Endpoints when a Service loses its
/// selector.
#[tokio::test(flavor = "multi_thread")]
async fn endpoints_of_a_lost_selector_go_with_their_mirrored_slices_if_others_serve_the_service() {
    let mut objects = without_selector("free");
    objects.push(written("free"));
    objects.extend(without_selector("needed"));
    // The slices that were made from pods are left over, too.
    objects.push(with_endpoint(slice("needed-pods", "needed", owned_by("needed", "needed-uid")), "10.1.0.1"));
    let mut attached = without_selector("attached");
    attached[0]["metadata"]["annotations"] =
        json!({"kube-endpoint-manager.github.io/endpoint-selector": "leader"});
    objects.extend(attached);
    objects.push(written("attached"));
    let mut of_user = without_selector("of-user");
    of_user[1]["metadata"]["managedFields"] = written_by("kubectl-edit", "f:subsets");
    objects.extend(of_user);
    objects.push(written("of-user"));
    let mut selecting = without_selector("selecting");
    selecting[0]["spec"]["selector"] = json!({"app": "selecting"});
    objects.extend(selecting);
    objects.push(written("selecting"));
    // With the garbage collector.
    let shop = Shop::of(EmbeddedApiServer::builder().load(objects).build().unwrap()).await;
    let output = shop.run(&["cleanup"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(shop.server.request_log().iter().all(|logged| !logged.request.is_write()));
    let output = shop.run(&["cleanup", "--yes"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    insta::assert_snapshot!(stdout(&output), @r"
    kept       Endpoints shop/attached
               A controller made them for the selector that the Service attached no
               longer has; the controller of EndpointSelector leader, which the
               Service names, deletes them once its own slices have a ready
               endpoint, and it may delete Endpoints.
    deleted    Endpoints shop/free
               A controller made them for the selector that the Service free no
               longer has; the slice that is mirrored from them goes with them:
               free-mirrored.
    kept       Endpoints shop/needed
               A controller made them for the selector that the Service needed no
               longer has, but no slice besides those that controllers left serves
               port http over IPv4; restore the selector, or write EndpointSlices
               for the Service, and run the command again.

    1 deleted. 2 kept.
    ");
    assert_eq!(names(&shop, "endpoints"), ["attached", "needed", "of-user", "selecting"]);
    // The garbage collector follows.
    let is_gone = || !names(&shop, "endpointslices").contains(&"free-mirrored".to_owned());
    tokio::time::timeout(Duration::from_secs(60), async {
        while !is_gone() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap();
    let all = names(&shop, "endpointslices");
    assert!(all.contains(&"free-own".to_owned()) && all.contains(&"needed-mirrored".to_owned()), "{all:?}");
}

/// The selector comes back between the lists and the deletion.
#[tokio::test(flavor = "multi_thread")]
async fn endpoints_of_a_service_that_has_its_selector_back_are_in_use() {
    let mut objects = without_selector("web");
    objects.push(written("web"));
    let shop = Shop::with(objects, Vec::new()).await;
    let mut selecting = without_selector("web").remove(0);
    selecting["spec"]["selector"] = json!({"app": "web"});
    shop.server.load([selecting]).unwrap();
    shop.server.add_fault(FaultRule::on(Fault::ServeOlder { versions: 1 }, "list", "services"));
    let output = shop.run(&["cleanup", "--yes"]).await;
    assert_eq!((stdout(&output), output.status.code()), ("Nothing is left over.\n".to_owned(), Some(0)));
    let requests = shop.requests();
    assert!(requests.contains(&"get /api/v1/namespaces/shop/services/web".to_owned()), "{requests:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_are_kept_if_nobody_can_tell_who_else_serves_the_service() {
    let mut objects = without_selector("web");
    objects.push(written("web"));
    let refuse = Fault::Refuse { status: 403, retry_after: None };
    let only_of_service = |request: &RequestInfo| {
        request.plural() == "endpointslices" && request.query.contains("service-name")
    };
    let shop = Shop::with(objects, vec![FaultRule::new(refuse, only_of_service)]).await;
    let output = shop.run(&["cleanup", "--yes"]).await;
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("Whether clients need them cannot be found out: You may not"), "{text}");
    assert!(shop.server.request_log().iter().all(|logged| !logged.request.is_write()));
}

/// The list of Services is older than the Service.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_appears_after_the_list_keeps_its_slices() {
    let shop = Shop::with([slice("late-1", "late", json!([]))], Vec::new()).await;
    shop.server.load([service("late", "late-uid")]).unwrap();
    shop.server.add_fault(FaultRule::on(Fault::ServeOlder { versions: 1 }, "list", "services"));
    let output = shop.run(&["cleanup", "--yes"]).await;
    assert_eq!((stdout(&output), output.status.code()), ("Nothing is left over.\n".to_owned(), Some(0)));
    assert_eq!(names(&shop, "endpointslices"), ["late-1"]);
    // The command considered the slice a leftover until it read its Service.
    let requests = shop.requests();
    assert!(requests.contains(&"get /api/v1/namespaces/shop/services/late".to_owned()), "{requests:?}");
}

/// The list shows an older version of the slice, so the precondition fails.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_changed_after_the_list_is_kept() {
    let shop = Shop::with([slice("gone-1", "gone", json!([]))], Vec::new()).await;
    let mut changed = slice("gone-1", "gone", json!([]));
    changed["ports"] = json!([{"name": "http", "port": 80, "protocol": "TCP"}]);
    let client = kube::Client::new(shop.server.service(), "shop");
    let resource = kube::api::ApiResource {
        group: "discovery.k8s.io".into(),
        version: "v1".into(),
        api_version: "discovery.k8s.io/v1".into(),
        kind: "EndpointSlice".into(),
        plural: "endpointslices".into(),
    };
    let api = kube::Api::<kube::api::DynamicObject>::namespaced_with(client, "shop", &resource);
    let patch = kube::api::Patch::Merge(json!({"ports": changed["ports"]}));
    api.patch("gone-1", &kube::api::PatchParams::default(), &patch).await.unwrap();
    shop.server.add_fault(FaultRule::on(Fault::ServeOlder { versions: 1 }, "list", "endpointslices"));
    let output = shop.run(&["cleanup", "--yes"]).await;
    assert_eq!(
        (stdout(&output), output.status.code()),
        (
            "failed     EndpointSlice shop/gone-1\n           The Service gone does not exist.\n           \
             It changed meanwhile; run the command again.\n\n0 deleted, 1 not deleted.\n"
                .to_owned(),
            Some(1)
        )
    );
    let deletes: Vec<u16> = shop
        .server
        .request_log()
        .iter()
        .filter(|logged| logged.request.verb == "delete")
        .map(|logged| logged.status)
        .collect();
    assert_eq!(deletes, [409]);
    assert_eq!(names(&shop, "endpointslices"), ["gone-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_deleted_is_named_and_the_rest_is_deleted() {
    let refuse = Fault::Refuse { status: 403, retry_after: None };
    let faults = vec![FaultRule::on(refuse, "delete", "endpointslices").times(1)];
    let shop = Shop::with([slice("a", "gone", json!([])), slice("b", "gone", json!([]))], faults).await;
    let output = shop.run(&["cleanup", "--yes"]).await;
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.starts_with("failed     EndpointSlice shop/a\n"), "{text}");
    assert!(text.ends_with("\n1 deleted, 1 not deleted.\n"), "{text}");
    assert_eq!(names(&shop, "endpointslices"), ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_read_is_kept() {
    let refuse = || Fault::Refuse { status: 403, retry_after: None };
    let shop = Shop::with(
        objects(),
        vec![FaultRule::on(refuse(), "get", "services"), FaultRule::on(refuse(), "list", "endpoints")],
    )
    .await;
    let output = shop.run(&["cleanup", "--yes"]).await;
    let (text, notes) = (stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(notes.starts_with("You may not read endpoints: "), "{notes}");
    assert!(text.contains("Whether it is in use cannot be found out: "), "{text}");
    assert!(
        text.ends_with("\nNothing that could be checked is left over. 3 could not be checked.\n"),
        "{text}"
    );
    assert!(shop.server.request_log().iter().all(|logged| !logged.request.is_write()));
}

/// The command deletes nothing if it could not print the report.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_format_is_an_error_before_the_first_request() {
    let shop = Shop::with(objects(), Vec::new()).await;
    let output = shop.run(&["cleanup", "--yes", "-o", "sarif"]).await;
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(shop.requests(), [""; 0]);
}
