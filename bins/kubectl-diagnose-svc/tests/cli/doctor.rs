//! Tests `doctor` against the embedded API server.

use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use serde_json::{Value, json};

use crate::large;
use crate::server::{Shop, shop_objects, stderr, stdout};

fn lease(name: &str, holder: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": "kube-system", "name": name},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
    })
}

async fn report(shop: &Shop) -> Value {
    let output = shop.run(&["doctor", "-o", "json"]).await;
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_cluster_is_examined() {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "kube-system", "name": "kube-controller-manager-node-0",
            "labels": {"component": "kube-controller-manager"}},
        "spec": {"nodeName": "node-0", "containers": [{"name": "it", "image": "registry.example/kcm:v1.36.2",
            "command": ["kube-controller-manager", "--controllers=*,-endpoints-controller"]}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "it", "image": "x", "imageID": "x", "ready": true,
            "restartCount": 0, "state": {"running": {"startedAt": "2099-01-01T00:00:00Z"}}}]},
    });
    pod["metadata"]["uid"] = "kcm-0".into();
    let leases = [lease("kube-controller-manager", "node-0_x"), lease("kube-scheduler", "node-0_y")];
    let objects = [shop_objects(), pod].into_iter().chain(leases);
    let shop = Shop::with(objects, Vec::new()).await;
    let report = report(&shop).await;
    let off: Vec<&str> =
        report["loops"].as_array().unwrap().iter().map(|of| of["isOff"].as_str().unwrap()).collect();
    assert_eq!(off, ["yes", "no", "no"], "{report:#}");
    assert_eq!(report["leases"].as_array().unwrap().len(), 1);
    assert_eq!(report["twoAtOnce"]["answer"], "no");
    assert_eq!(report["versions"]["kubeControllerManagers"][0]["image"], "registry.example/kcm:v1.36.2");
    let slices = &report["outputs"][0];
    assert!(slices["read"].as_u64().unwrap() > 5, "{slices}");
    assert_eq!(slices["writers"][0]["name"], "kube-controller-manager", "{slices}");
    assert!(report["changes"]["services"].as_u64().unwrap() >= 9, "{report:#}");
}

/// The add-on has a Lease of its own in its namespace, and writes none of the objects of the loops.
#[tokio::test(flavor = "multi_thread")]
async fn the_add_on_is_no_second_controller() {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-endpoint-manager"}});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "kube-endpoint-manager", "name": "kube-endpoint-manager-x", "uid": "addon",
            "labels": {"app.kubernetes.io/name": "kube-endpoint-manager"}},
        "spec": {"nodeName": "node-0", "serviceAccountName": "kube-endpoint-manager", "containers": [{
            "name": "it", "image": "registry.example/kem:v1",
            "args": ["--controllers=endpoint-selector-controller", "--leader-elect-resource-namespace=kube-endpoint-manager",
                "--leader-elect-resource-name=kube-endpoint-manager-addon"]}]},
        "status": {"phase": "Running"},
    });
    let now = "2099-01-01T00:00:00.000000Z";
    let held = |namespace: &str, name: &str, holder: &str| {
        let mut lease = lease(name, holder);
        lease["metadata"]["namespace"] = namespace.into();
        lease["spec"]["acquireTime"] = now.into();
        lease["spec"]["renewTime"] = now.into();
        lease
    };
    let leases = [
        held("kube-system", "kube-controller-manager", "node-0_x"),
        held("kube-endpoint-manager", "kube-endpoint-manager-addon", "kube-endpoint-manager-x_1"),
    ];
    let objects = [shop_objects(), namespace, pod].into_iter().chain(leases);
    let shop = Shop::with(objects, Vec::new()).await;
    let report = report(&shop).await;
    assert_eq!(report["twoAtOnce"]["answer"], "no", "{report:#}");
    let leases = report["leases"].as_array().unwrap();
    let writes: Vec<&str> = leases.iter().map(|lease| lease["writes"].as_str().unwrap()).collect();
    assert_eq!(writes[0], "slices of EndpointSelectors", "{report:#}");
    let said = |list: &str| report[list].to_string();
    assert!(!said("notKnown").contains("may write at once"), "{report:#}");
    assert!(!said("notKnown").contains("may run"), "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_permission_that_is_missing_costs_one_line() {
    for (verb, plural, line) in [
        ("list", "endpointslices", "Writers of EndpointSlices: you lack the permission to list"),
        ("list", "endpoints", "Writers of Endpoints: you lack the permission to list endpoints."),
        ("list", "leases", "Leases: you lack the permission to list leases.coordination.k8s.io in"),
        ("list", "pods", "Pods of kube-controller-manager: you lack the permission to list pods in"),
        ("list", "services", "What would change: you lack the permission to list services."),
        ("list", "events", "Events: you lack the permission to list events."),
        ("create", "selfsubjectaccessreviews", "Your permissions: you lack the permission to create"),
    ] {
        let refuse = Fault::Refuse { status: 403, retry_after: None };
        let shop = Shop::start(vec![FaultRule::on(refuse, verb, plural)]).await;
        let output = shop.run(&["doctor"]).await;
        let text = stdout(&output);
        assert!(
            text.lines().any(|it| it.trim_start().starts_with(line)),
            "{plural}: {text}{}",
            stderr(&output)
        );
        assert!(text.contains("Loops of kube-controller-manager"), "{text}");
        assert_ne!(output.status.code(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_cluster_costs_a_bounded_number_of_requests() {
    let shop = Shop::of(large::server(3000, 1)).await;
    shop.requests();
    let report = report(&shop).await;
    assert_eq!(report["changes"]["of"], 3000, "{report:#}");
    assert_eq!(report["changes"]["services"], 20);
    assert_eq!((&report["outputs"][0]["read"], &report["outputs"][0]["left"]), (&json!(2000), &json!(1000)));
    let requests = shop.requests();
    assert!(requests.len() < 200, "{}", requests.len());
    let lists =
        |plural: &str| requests.iter().filter(|it| it.ends_with("limit=500") && it.contains(plural)).count();
    assert!(lists("/api/v1/services?") <= 1, "{requests:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_refused() {
    let shop = Shop::start(Vec::new()).await;
    let output = shop.run_in("shop", &["doctor"]).await;
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stderr(&output), "error: doctor reads the whole cluster; leave out --namespace shop\n");
}

/// The first cluster of a new user is the embedded server of kube-endpoint-manager.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_webhooks_has_none() {
    let shop = Shop::start(Vec::new()).await;
    let report = report(&shop).await;
    let asked = shop.requests().iter().any(|it| it.contains("validatingwebhookconfigurations"));
    assert!(asked, "it asks for them");
    assert_eq!(report["webhooks"], json!([]));
    let not_known = report["notKnown"].as_array().unwrap();
    assert!(!not_known.iter().any(|it| it.as_str().unwrap().contains("Webhooks")), "{not_known:?}");
}
