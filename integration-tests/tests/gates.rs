//! Each gate of the endpoints and mirroring controllers by itself, through the manager's settings: what it changes, and
//! that without it upstream's behaviour is kept. And starts at states that the one profile left to the other.

#![expect(clippy::unwrap_used, reason = "a helper of tests that fails is a test that fails")]

mod running;

use std::time::Duration;

use http::Request;
use kube::Client;
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_manager_core::{Gate, Gates};
use running::{Running, settings, start, writes, writes_within};
use serde_json::{Value, json};

const LONG: Duration = Duration::from_secs(120);
const MADE_OF_PODS: &str = "endpointslice-controller.k8s.io";
const MIRRORED: &str = "endpointslicemirroring-controller.k8s.io";

struct World {
    server: EmbeddedApiServer,
    client: Client,
    running: Running,
}

impl World {
    /// A manager that has written what these objects come to.
    async fn start(gates: Gates, objects: impl IntoIterator<Item = Value>) -> Self {
        let start_time = "2026-12-01T00:00:00Z".parse().unwrap();
        let server = EmbeddedApiServer::builder().start_time(start_time).load(objects).build().unwrap();
        let client = Client::new(server.service(), "default");
        let running = start(&server, &settings(gates));
        let world = Self { server, client, running };
        world.pass(5).await;
        world.server.clear_request_log();
        world
    }

    async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    async fn patch(&self, plural: &str, patch: Value) {
        let request = Request::patch(format!("/api/v1/namespaces/default/{plural}/web"))
            .header("content-type", "application/merge-patch+json");
        let body = patch.to_string().into_bytes();
        let _: Value = self.client.request(request.body(body).unwrap()).await.unwrap();
        self.server.clear_request_log();
        self.pass(5).await;
    }

    async fn stop(self) -> EmbeddedApiServer {
        self.running.stop().await;
        self.server
    }

    /// Who manages the slices, sorted.
    fn managers(&self) -> Vec<String> {
        managers(&self.server)
    }

    fn endpoints(&self) -> Value {
        self.server.get("endpoints", "default", "web").unwrap()
    }
}

fn managers(server: &EmbeddedApiServer) -> Vec<String> {
    let manager = |slice: &Value| {
        slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"].as_str().unwrap().to_owned()
    };
    let mut managers: Vec<String> = server.list("endpointslices").iter().map(manager).collect();
    managers.sort();
    managers
}

fn alone(gate: Gate) -> [(Gates, bool); 2] {
    [(Gates::upstream().with(gate, true), true), (Gates::upstream(), false)]
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-web"},
        "spec": {
            "selector": {"app": "web"}, "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"],
            "ipFamilies": ["IPv4"], "ports": [{"name": "web", "port": 80, "targetPort": "web", "protocol": "TCP"}],
        },
    })
}

/// A pod; every third serves the port under another number.
fn pod(number: usize, ready: bool) -> Value {
    let ip = format!("10.1.{}.{}", number / 250, number % 250 + 1);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("p{number}"), "namespace": "default", "uid": format!("uid-{number}"),
            "labels": {"app": "web"},
        },
        "spec": {
            "nodeName": "node",
            "containers": [{
                "name": "web", "image": "example.invalid/web",
                "ports": [{"name": "web", "containerPort": 8080 + number % 3}],
            }],
        },
        "status": {
            "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
        },
    })
}

fn node() -> Value {
    let labels = json!({"topology.kubernetes.io/zone": "z"});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node", "labels": labels}})
}

/// Something that starts a sync and changes nothing in what it comes to.
fn touch() -> Value {
    json!({"metadata": {"annotations": {"touched": "yes"}}})
}

#[tokio::test(start_paused = true)]
async fn endpoints_repair() {
    for (gates, on) in alone(Gate::EndpointsRepair) {
        let world = World::start(gates, [node(), service(), pod(0, true)]).await;
        world.patch("endpoints", json!({"subsets": null})).await;
        let there = world.endpoints()["subsets"].as_array().is_some_and(|subsets| subsets.len() == 1);
        assert_eq!((there, writes(&world.server).len()), (on, usize::from(on)), "{on}");
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn endpoints_keep_truncated() {
    let objects = || [node(), service()].into_iter().chain((0..1002).map(|number| pod(number, true)));
    for (gates, on) in alone(Gate::EndpointsKeepTruncated) {
        let world = World::start(gates, objects()).await;
        assert_eq!(
            world.endpoints()["metadata"]["annotations"]["endpoints.kubernetes.io/over-capacity"],
            "truncated"
        );
        assert_eq!(world.endpoints()["subsets"].as_array().map(Vec::len), Some(3));
        world.patch("services", touch()).await;
        assert_eq!(writes(&world.server).is_empty(), on, "{:?}", writes(&world.server));
        // What upstream's controller has cut is left alone at the start, though there are several subsets.
        let server = world.stop().await;
        assert_eq!(writes_within(&server, &settings(Gates::default()), LONG).await, [""; 0]);
        assert_eq!(writes_within(&server, &settings(Gates::default()), LONG).await, [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn endpoints_ignore_reserved_labels() {
    let mut labelled = service();
    labelled["metadata"]["labels"] = json!({"service.kubernetes.io/headless": "of-its-own"});
    for (gates, on) in alone(Gate::EndpointsIgnoreReservedLabels) {
        let world = World::start(gates, [node(), labelled.clone(), pod(0, true)]).await;
        world.patch("services", touch()).await;
        let of_endpoints: Vec<String> =
            writes(&world.server).into_iter().filter(|write| write.contains("/endpoints/")).collect();
        assert_eq!(of_endpoints.is_empty(), on, "{of_endpoints:?}");
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn tolerate_unready_annotation() {
    let mut annotated = service();
    annotated["metadata"]["annotations"] =
        json!({"service.alpha.kubernetes.io/tolerate-unready-endpoints": "true"});
    for (gates, on) in alone(Gate::TolerateUnreadyAnnotation) {
        let world = World::start(gates, [node(), annotated.clone(), pod(0, false)]).await;
        let subset = &world.endpoints()["subsets"][0];
        assert_eq!((subset["addresses"].is_array(), subset["notReadyAddresses"].is_array()), (on, !on));
        let slice = &world.server.list("endpointslices")[0];
        assert_eq!(slice["endpoints"][0]["conditions"]["ready"], on, "both controllers");
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn orphaned_slice_cleanup() {
    for (gates, on) in alone(Gate::OrphanedSliceCleanup) {
        let world = World::start(gates, [node(), service(), pod(0, true)]).await;
        assert_eq!(world.managers(), [MADE_OF_PODS]);
        world.patch("services", json!({"spec": {"selector": null}})).await;
        let both = [MADE_OF_PODS, MIRRORED];
        assert_eq!(world.managers(), if on { &both[1..] } else { &both });
        // Its start finds what upstream leaves behind: each profile goes by its own rule, and then nothing is left to do.
        let server = world.stop().await;
        assert_eq!(writes_within(&server, &settings(Gates::upstream()), LONG).await, [""; 0]);
        let writes = writes_within(&server, &settings(Gates::default()), LONG).await;
        assert_eq!(writes.iter().filter(|write| write.starts_with("DELETE")).count(), usize::from(!on));
        assert_eq!(writes.len(), usize::from(!on), "{writes:?}");
        assert_eq!(managers(&server), [MIRRORED]);
        assert_eq!(writes_within(&server, &settings(Gates::default()), LONG).await, [""; 0]);
    }
}

/// Hints, more addresses than are mirrored, and empty Services: whoever wrote them, nothing is written at a start.
#[tokio::test(start_paused = true)]
async fn what_one_profile_wrote_the_other_leaves_alone() {
    let zone = |name: String, number: usize| {
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": format!("z{}", number % 2)}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "4"}},
        })
    };
    let on_node = |number: usize| {
        let mut pod = pod(number, true);
        pod["spec"]["nodeName"] = format!("n{}", number % 2).into();
        pod
    };
    let named = |name: &str, change: fn(&mut Value)| {
        let mut service = service();
        service["metadata"]["name"] = name.into();
        service["metadata"]["uid"] = format!("uid-{name}").into();
        change(&mut service);
        service
    };
    let addresses: Vec<Value> =
        (0..1200).map(|n| json!({"ip": format!("192.0.{}.{}", n / 250, n % 250 + 1)})).collect();
    let by_hand = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "by-hand", "namespace": "default"},
        "subsets": [{"addresses": addresses, "ports": [{"port": 80}]}],
    });
    let objects: Vec<Value> = (0..2)
        .map(|number| zone(format!("n{number}"), number))
        .chain((0..12).map(on_node))
        .chain([
            named("close", |it| it["spec"]["trafficDistribution"] = "PreferClose".into()),
            named("auto", |it| {
                it["metadata"]["annotations"] = json!({"service.kubernetes.io/topology-mode": "Auto"});
            }),
            named("nobody", |it| it["spec"]["selector"] = json!({"app": "nobody"})),
            named("by-hand", |it| it["spec"]["selector"] = Value::Null),
            by_hand,
        ])
        .collect();
    for (writer, taker) in [(Gates::upstream(), Gates::default()), (Gates::default(), Gates::upstream())] {
        let world = World::start(writer, objects.clone()).await;
        world.pass(60).await;
        let slices = world.server.list("endpointslices");
        let hinted = slices.iter().filter(|slice| slice["endpoints"][0]["hints"].is_object()).count();
        assert!(hinted >= 2, "{hinted}");
        let most = slices.iter().filter_map(|slice| slice["endpoints"].as_array()).map(Vec::len).max();
        assert_eq!(most, Some(1000));
        let server = world.stop().await;
        let events = server.list("events");
        let told = events.iter().filter(|event| event["reason"] == "TooManyAddressesToMirror").count();
        assert_eq!(told, 1, "{events:#?}");
        assert_eq!(writes_within(&server, &settings(taker.clone()), LONG).await, [""; 0]);
        assert_eq!(writes_within(&server, &settings(taker), LONG).await, [""; 0]);
    }
}
