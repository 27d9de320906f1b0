//! Namespaces of `--namespaces` that the API server does not let the manager read, as after a
//! tenant has deleted his namespace, and the RoleBinding with it.

use kube_endpoint_controllers::{ControllerName, Settings};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, RequestInfo};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::failover::replica::{Replica, seconds, settings};

const OUTPUTS: [&str; 2] = ["endpoints", "endpointslices"];

fn pod(namespace: &str, name: &str, address: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "web"}},
        "spec": {"nodeName": "node"},
        "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// Returns a server with a Service, Endpoints of a user and an attached Service in each namespace.
fn server(namespaces: &[&str]) -> EmbeddedApiServer {
    let mut objects = vec![json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}})];
    for namespace in namespaces {
        let metadata = |name: &str| json!({"name": name, "namespace": namespace});
        let ports = json!([{"port": 80}]);
        let mut attached = metadata("attached");
        attached["annotations"] = json!({"kube-endpoint-manager.github.io/endpoint-selector": "web"});
        objects.extend([
            pod(namespace, "one", "10.1.0.1"),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata("web"),
                "spec": {"selector": {"app": "web"}, "ports": ports}}),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata("mirrored"), "spec": {"ports": ports}}),
            json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata("mirrored"),
                "subsets": [{"addresses": [{"ip": "192.0.2.7"}], "ports": [{"port": 80}]}]}),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": attached, "spec": {"ports": ports}}),
            json!({"apiVersion": "kube-endpoint-manager.github.io/v1alpha1", "kind": "EndpointSelector",
                "metadata": metadata("web"), "spec": {"selector": {"matchLabels": {"app": "web"}}}}),
        ]);
    }
    EmbeddedApiServer::builder().seed(1).track_managers().load(objects).build().unwrap()
}

fn of_namespaces(namespaces: &[&str]) -> Settings {
    let mut settings = settings();
    settings.controllers = ControllerName::ALL.to_vec();
    settings.namespaces = namespaces.iter().map(|name| (*name).to_owned()).collect();
    settings
}

fn forbid(
    server: &EmbeddedApiServer,
    matches: impl Fn(&RequestInfo) -> bool + Send + Sync + 'static,
) -> kube_endpoint_embedded_apiserver::FaultId {
    let is_of_controllers = |request: &RequestInfo| !request.user_agent.is_empty();
    let matches = move |request: &RequestInfo| is_of_controllers(request) && matches(request);
    server.add_fault(FaultRule::new(Fault::Refuse { status: 403, retry_after: None }, matches))
}

/// Returns the objects of a kind in a namespace, with names, versions and the addresses of pods.
fn objects(server: &EmbeddedApiServer, kind: &str, namespace: &str) -> Vec<String> {
    let all = server.list(kind).into_iter().filter(|it| it["metadata"]["namespace"] == namespace);
    let mut all: Vec<String> = all
        .map(|it| {
            let mut addresses: Vec<&str> = it["endpoints"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|it| it["addresses"][0].as_str())
                .chain(
                    it["subsets"][0]["addresses"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .filter_map(|it| it["ip"].as_str()),
                )
                .collect();
            addresses.sort_unstable();
            let metadata = &it["metadata"];
            let manager =
                metadata["labels"]["endpointslice.kubernetes.io/managed-by"].as_str().unwrap_or("-");
            format!("{} {manager} v{} {addresses:?}", metadata["name"], metadata["resourceVersion"])
        })
        .collect();
    all.sort();
    all
}

fn outputs(server: &EmbeddedApiServer, namespace: &str) -> Vec<String> {
    OUTPUTS.iter().flat_map(|kind| objects(server, kind, namespace)).collect()
}

fn published(server: &EmbeddedApiServer, namespace: &str, address: &str) -> usize {
    outputs(server, namespace).iter().filter(|it| it.contains(&format!("{address:?}"))).count()
}

/// Returns the namespaces and kinds that a replica reports.
fn unreadable(replica: &Replica) -> Vec<String> {
    let status = replica.handle.status();
    let shown = status.to_string();
    status
        .unreadable
        .iter()
        .map(|it| {
            assert!(it.error.contains("403"), "{}", it.error);
            assert!(shown.contains(&format!("{} in namespace {}", it.kind, it.namespace)), "{shown}");
            format!("{}/{}", it.namespace, it.kind)
        })
        .collect()
}

/// Endpoints, a slice of pods, one of the attached Service, and a mirrored one.
#[tokio::test(start_paused = true)]
async fn a_restarted_process_works_in_the_namespaces_that_it_may_read() {
    let server = server(&["a", "b"]);
    let settings = of_namespaces(&["a", "b"]);
    let first = Replica::start(&server, "first", &settings);
    sleep(seconds(10)).await;
    assert_eq!([published(&server, "a", "10.1.0.1"), published(&server, "b", "10.1.0.1")], [3, 3]);
    assert_eq!(published(&server, "a", "192.0.2.7"), 2);
    first.kill().await;

    // The first of the namespaces is the one that the server would be asked about.
    let fault = forbid(&server, |request| request.namespace == "a");
    let before = outputs(&server, "a");
    server.load(["a", "b"].map(|namespace| pod(namespace, "two", "10.1.0.2"))).unwrap();
    let second = Replica::start(&server, "second", &settings);
    let led = second.led().await;
    assert!(led < seconds(20), "the lease expires after 15 s: {led:?}");
    sleep(seconds(2)).await;
    assert!(second.handle.has_synced());
    assert_eq!(published(&server, "b", "10.1.0.2"), 3);
    assert_eq!(
        unreadable(&second),
        ["a/pods", "a/services", "a/endpointslices", "a/endpoints", "a/endpointselectors"]
    );
    sleep(seconds(600)).await;
    assert_eq!(outputs(&server, "a"), before);
    assert!(second.writes(&server).iter().all(|it| it.request.namespace != "a"));

    server.remove_fault(fault);
    sleep(seconds(31)).await;
    assert_eq!(published(&server, "a", "10.1.0.2"), 3);
    assert_eq!(published(&server, "a", "192.0.2.7"), 2);
    assert_eq!(unreadable(&second), [""; 0]);
    second.stop().await;
}

/// A controller works in a namespace as soon as it can read the kinds that it needs there.
#[tokio::test(start_paused = true)]
async fn one_kind_that_cannot_be_read_stops_only_the_controllers_that_read_it_there() {
    let kinds = ["pods", "services", "endpoints", "endpointslices", "endpointselectors"];
    for kind in kinds {
        let server = server(&["a", "b"]);
        let settings = of_namespaces(&["a", "b"]);
        let first = Replica::start(&server, "first", &settings);
        sleep(seconds(10)).await;
        first.stop().await;
        let before = outputs(&server, "a");
        forbid(&server, move |it| it.namespace == "a" && it.plural() == kind && it.verb != "get");
        server.load(["a", "b"].map(|namespace| pod(namespace, "two", "10.1.0.2"))).unwrap();
        let second = Replica::start(&server, "second", &settings);
        second.led().await;
        sleep(seconds(120)).await;
        assert_eq!(published(&server, "b", "10.1.0.2"), 3, "{kind}");
        assert_eq!(unreadable(&second), [format!("a/{kind}")]);
        let want = match kind {
            // The endpointslice and the endpoint selector controller.
            "endpoints" => 2,
            // The endpoints controller.
            "endpointslices" => 1,
            "endpointselectors" => 2,
            _ => 0,
        };
        assert_eq!(published(&server, "a", "10.1.0.2"), want, "{kind}");
        let now = outputs(&server, "a");
        assert_eq!(now.len(), before.len(), "{kind}: nothing is deleted");
        if want == 0 {
            assert_eq!(now, before, "{kind}");
        }
        assert_eq!(published(&server, "a", "192.0.2.7"), 2, "{kind}");
        second.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn leftover_endpoints_go_when_the_namespace_can_be_read() {
    let server = server(&["a", "b"]);
    server.load(["a", "b"].map(|namespace| {
        json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": "gone", "namespace": namespace,
                "labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"},
                "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
                    "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:subsets": {}}}]},
            "subsets": [{"addresses": [{"ip": "10.1.0.9"}], "ports": [{"port": 80}]}],
        })
    }))
    .unwrap();
    let left = || ["a", "b"].map(|namespace| published(&server, namespace, "10.1.0.9"));
    for kind in ["services", "endpoints"] {
        let fault = forbid(&server, move |it| it.namespace == "a" && it.plural() == kind && it.verb != "get");
        let replica = Replica::start(&server, "only", &of_namespaces(&["a", "b"]));
        replica.led().await;
        sleep(seconds(60)).await;
        assert_eq!(left(), [1, 0], "{kind}");
        server.remove_fault(fault);
        if kind == "services" {
            replica.kill().await;
            continue;
        }
        sleep(seconds(31)).await;
        assert_eq!(left(), [0, 0]);
        replica.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_may_read_no_namespace_is_not_ready_and_begins_with_the_first() {
    let server = server(&["a", "b"]);
    let fault = forbid(&server, |request| ["a", "b"].contains(&&*request.namespace));
    let replica = Replica::start(&server, "only", &of_namespaces(&["a", "b"]));
    sleep(seconds(300)).await;
    assert!(!replica.handle.has_synced());
    let status = replica.handle.status();
    assert!(status.unlisted.iter().any(|it| it.kind == "pods" && it.error.is_some()), "{status}");
    assert_eq!(unreadable(&replica), [""; 0], "the kinds fail, and not some namespaces");
    assert_eq!(published(&server, "a", "10.1.0.1") + published(&server, "b", "10.1.0.1"), 0);
    server.remove_fault(fault);
    let still = forbid(&server, |request| request.namespace == "a");
    sleep(seconds(62)).await;
    assert!(replica.handle.has_synced() && replica.leads());
    assert_eq!([published(&server, "a", "10.1.0.1"), published(&server, "b", "10.1.0.1")], [0, 3]);
    server.remove_fault(still);
    sleep(seconds(31)).await;
    assert_eq!(published(&server, "a", "10.1.0.1"), 3);
    replica.stop().await;
}

/// The Role goes while two replicas run.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_can_no_longer_be_read_delays_no_take_over() {
    let server = server(&["a", "b"]);
    let settings = of_namespaces(&["a", "b"]);
    let leader = Replica::start(&server, "leader", &settings);
    sleep(seconds(10)).await;
    let standby = Replica::start(&server, "standby", &settings);
    sleep(seconds(10)).await;
    let before = outputs(&server, "a");
    let fault = forbid(&server, |request| request.namespace == "a");
    // Watches that are open stay open on a real server, too.
    server.close_watches();
    sleep(seconds(120)).await;
    for replica in [&leader, &standby] {
        assert_eq!(unreadable(replica).len(), 5);
        assert!(replica.handle.has_synced());
        assert!(replica.handle.status().unreadable.iter().all(|it| it.listed));
    }
    server.load([pod("b", "two", "10.1.0.2")]).unwrap();
    sleep(seconds(1)).await;
    assert_eq!(published(&server, "b", "10.1.0.2"), 3);
    leader.kill().await;
    let died = Instant::now();
    standby.led().await;
    assert!(died.elapsed() < seconds(20), "{:?}", died.elapsed());
    server.load([pod("b", "three", "10.1.0.3")]).unwrap();
    sleep(seconds(2)).await;
    assert_eq!(published(&server, "b", "10.1.0.3"), 3);
    assert_eq!(outputs(&server, "a"), before);

    server.load([pod("a", "two", "10.1.0.2")]).unwrap();
    server.remove_fault(fault);
    // The failure of a watch ends with its next event or bookmark.
    sleep(seconds(95)).await;
    assert_eq!(published(&server, "a", "10.1.0.2"), 3);
    assert_eq!(unreadable(&standby), [""; 0]);
    standby.stop().await;
}

/// An output that the server forbids everywhere stops the controllers that write it, and no others.
#[tokio::test(start_paused = true)]
async fn a_take_over_does_not_wait_for_ever_for_a_kind_that_is_forbidden_everywhere() {
    let server = server(&["a", "b"]);
    forbid(&server, |request| request.plural() == "endpointslices");
    let replica = Replica::start(&server, "only", &of_namespaces(&["a", "b"]));
    sleep(seconds(120)).await;
    assert!(replica.leads() && !replica.handle.has_synced());
    let has_endpoints =
        |namespace| objects(&server, "endpoints", namespace).iter().any(|it| it.starts_with("\"web\""));
    assert!(has_endpoints("a") && has_endpoints("b"));
    replica.stop().await;
}

/// Returns an EndpointSelector whose leader a Lease names, a Service that names it, and two pods.
fn led(namespace: &str) -> Vec<Value> {
    let metadata = |name: &str| json!({"name": name, "namespace": namespace});
    let mut service = metadata("led");
    service["annotations"] = json!({"kube-endpoint-manager.github.io/endpoint-selector": "leader"});
    vec![
        pod(namespace, "one", "10.1.0.1"),
        pod(namespace, "two", "10.1.0.2"),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": service, "spec": {"ports": [{"port": 80}]}}),
        json!({"apiVersion": "kube-endpoint-manager.github.io/v1alpha1", "kind": "EndpointSelector",
            "metadata": metadata("leader"),
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "readiness": {"lease": {"name": "leader"}}}}),
    ]
}

fn lease(namespace: &str, holder: &str, renewal: u32) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "leader", "namespace": namespace},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": renewal}})
}

fn ready(server: &EmbeddedApiServer, namespace: &str) -> Vec<String> {
    let slices =
        server.list("endpointslices").into_iter().filter(|it| it["metadata"]["namespace"] == namespace);
    let endpoints: Vec<Value> =
        slices.flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default()).collect();
    let ready = endpoints.iter().filter(|it| it["conditions"]["ready"] != false);
    ready.map(|it| it["targetRef"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Leases that cannot be read in one namespace do not stop others from being followed: neither with
/// an own watch for each namespace, nor where one for all is forbidden.
#[tokio::test(start_paused = true)]
async fn leases_of_one_namespace_that_cannot_be_read_stop_no_others() {
    for more in [0, 25] {
        let names: Vec<String> = (0..more).map(|number| format!("n{number}")).collect();
        let objects = ["a", "b"].into_iter().chain(names.iter().map(String::as_str)).flat_map(led);
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}});
        let server = EmbeddedApiServer::builder().seed(1).load(objects.chain([node])).build().unwrap();
        // The whole cluster is watched, and only the Leases of some namespaces may be read.
        forbid(&server, |it| {
            it.plural() == "leases" && it.verb != "get" && (it.namespace == "a" || it.namespace.is_empty())
        });
        let mut settings = of_namespaces(&[]);
        settings.controllers = vec![ControllerName::EndpointSelector];
        settings.leader_election = None;
        let replica = Replica::start(&server, "only", &settings);
        let mut renewals = 0..;
        let mut renew = |holder: &str| {
            let renewal = renewals.next().unwrap();
            server.load(["a", "b"].map(|namespace| lease(namespace, holder, renewal))).unwrap();
        };
        for _ in 0..30 {
            renew("one");
            sleep(seconds(2)).await;
        }
        assert_eq!(ready(&server, "b"), ["one"], "{more}");
        renew("two");
        sleep(seconds(1)).await;
        assert_eq!(ready(&server, "b"), ["two"], "{more}");
        assert_eq!(unreadable(&replica), ["a/leases"]);
        assert!(replica.handle.has_synced());
        replica.stop().await;
    }
}
