//! Feature gates, on and off, from a manager's settings to what the controllers do: each gate reaches the controller that
//! it is about.
#![cfg(all(feature = "embedded", feature = "endpoints", feature = "endpointslice", feature = "mirroring"))]
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_manager_core::ApiClient;
use kube_endpoint_manager_core::{ControllerName, Gate, Gates, Manager, Settings};
use serde_json::{Value, json};
use tokio::sync::oneshot;

const AUTO: (&str, &str) = ("service.kubernetes.io/topology-mode", "Auto");

fn node(name: &str, zone: &str) -> Value {
    let labels = if zone.is_empty() { json!({}) } else { json!({"topology.kubernetes.io/zone": zone}) };
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn pod(number: usize, node: &str, ready: bool) -> Value {
    let ip = format!("10.1.0.{number}");
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("p{number:02}"), "uid": format!("uid-{number}"), "labels": {"app": "web"}},
        "spec": {"nodeName": node, "containers": [{"name": "web", "image": "example.invalid/web", "ports": [
            {"name": "http", "containerPort": 8080, "protocol": "TCP"},
        ]}]},
        "status": {
            "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
        },
    })
}

fn service(annotation: Option<(&str, &str)>) -> Value {
    let annotations: serde_json::Map<String, Value> =
        annotation.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "annotations": annotations},
        "spec": {
            "selector": {"app": "web"}, "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ipFamilies": ["IPv4"],
            "ports": [{"port": 80, "targetPort": "http", "protocol": "TCP"}],
        },
    })
}

/// A server and a manager on it.
struct World {
    server: EmbeddedApiServer,
    _running: oneshot::Sender<()>,
}

impl World {
    /// The endpointslice controller with upstream's behaviour but for one gate.
    async fn new(gate: Gate, on: bool, objects: Vec<Value>) -> Self {
        Self::of(ControllerName::EndpointSlice, gate, on, objects).await
    }

    /// One controller with upstream's behaviour but for one gate.
    async fn of(controller: ControllerName, gate: Gate, on: bool, objects: Vec<Value>) -> Self {
        let server = EmbeddedApiServer::builder().load(objects).seed(1).build().unwrap();
        let settings = Settings {
            controllers: vec![controller],
            gates: Gates::upstream().with(gate, on),
            qps: -1.0,
            max_endpoints_per_slice: 4,
            topology_node_tolerance: 0.5,
            ..Settings::default()
        };
        let manager = Manager::new(ApiClient::for_tests(server.service()), &settings, server.now()).unwrap();
        let (running, stopped) = oneshot::channel::<()>();
        tokio::spawn(manager.run(async move {
            let _ = stopped.await;
        }));
        let world = Self { server, _running: running };
        world.pass(2).await;
        world
    }

    async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    async fn load(&self, objects: impl IntoIterator<Item = Value>) {
        self.server.load(objects).unwrap();
        self.pass(5).await;
    }

    fn slices(&self) -> Vec<Value> {
        self.server.list("endpointslices")
    }

    fn endpoints(&self) -> Vec<Value> {
        let lists = self.slices().into_iter().filter_map(|slice| slice["endpoints"].as_array().cloned());
        lists.flatten().collect()
    }

    fn hinted(&self) -> usize {
        self.endpoints().iter().filter(|endpoint| !endpoint["hints"].is_null()).count()
    }

    fn ready(&self) -> usize {
        self.endpoints().iter().filter(|endpoint| endpoint["conditions"]["ready"] == true).count()
    }

    fn writes(&self) -> Vec<String> {
        let log = self.server.request_log();
        self.server.clear_request_log();
        let writes = log.iter().filter(|it| matches!(it.request.verb, "create" | "update" | "delete"));
        writes.map(|it| it.request.verb.to_owned()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn node_zone_resync() {
    for on in [true, false] {
        let world =
            World::new(Gate::NodeZoneResync, on, vec![node("a", ""), pod(1, "a", true), service(None)]).await;
        world.load([node("a", "zone-a")]).await;
        assert_eq!(world.endpoints()[0]["zone"] == "zone-a", on);
    }
}

#[tokio::test(start_paused = true)]
async fn missing_node_resync() {
    for on in [true, false] {
        let world = World::new(Gate::MissingNodeResync, on, vec![pod(1, "a", true), service(None)]).await;
        // Between two retries.
        world.pass(35).await;
        assert_eq!(world.endpoints().len(), 0);
        world.load([node("a", "zone-a")]).await;
        assert_eq!(world.endpoints().len(), usize::from(on));
    }
}

#[tokio::test(start_paused = true)]
async fn tolerate_unready_annotation() {
    for on in [true, false] {
        let tolerate = Some(("service.alpha.kubernetes.io/tolerate-unready-endpoints", "true"));
        let objects = vec![node("a", "zone-a"), pod(1, "a", false), service(tolerate)];
        let world = World::new(Gate::TolerateUnreadyAnnotation, on, objects).await;
        assert_eq!(world.ready(), usize::from(on));
    }
}

#[tokio::test(start_paused = true)]
async fn topology_node_tolerance() {
    for on in [true, false] {
        let mut objects =
            vec![node("a", "zone-a"), node("b", "zone-b"), node("bare", ""), service(Some(AUTO))];
        objects.extend((1..=6).map(|number| pod(number, ["a", "b"][number % 2], true)));
        let world = World::new(Gate::TopologyNodeTolerance, on, objects).await;
        assert_eq!(world.hinted(), if on { 6 } else { 0 });
    }
}

#[tokio::test(start_paused = true)]
async fn slice_compaction() {
    for on in [true, false] {
        let mut objects = vec![node("a", "zone-a"), service(None)];
        objects.extend((1..=16).map(|number| pod(number, "a", true)));
        let world = World::new(Gate::SliceCompaction, on, objects).await;
        assert_eq!(world.slices().len(), 4);
        let mut gone: Vec<Value> =
            (1..=16).filter(|number| number % 4 != 0).map(|n| pod(n, "a", true)).collect();
        for pod in &mut gone {
            pod["metadata"]["labels"] = json!({});
        }
        world.load(gone).await;
        for round in 0..8 {
            world.writes();
            world.load([pod(4, "a", round % 2 == 0)]).await;
            assert!(world.writes().len() <= 2, "one more than without");
            assert_eq!(world.endpoints().len(), 4);
        }
        // Two slices that are half full on the whole are not sparse.
        assert_eq!(world.slices().len(), if on { 2 } else { 4 });
    }
}

#[tokio::test(start_paused = true)]
async fn safe_write_order() {
    for on in [true, false] {
        let on_port = |number: usize, port: u32| {
            let mut pod = pod(number, "a", true);
            pod["spec"]["containers"][0]["ports"][0]["containerPort"] = port.into();
            pod
        };
        let objects = vec![
            node("a", "zone-a"),
            service(None),
            on_port(1, 8080),
            on_port(2, 8080),
            on_port(3, 9090),
            on_port(4, 9090),
        ];
        let world = World::new(Gate::SafeWriteOrder, on, objects).await;
        world.writes();
        // Two pods change places, which two updates cannot do without taking one of them away for a moment.
        world.load([on_port(1, 9090), on_port(3, 8080)]).await;
        let writes: &[&str] = if on { &["create", "update", "update"] } else { &["update", "update"] };
        assert_eq!(world.writes(), writes);
        assert_eq!(world.endpoints().len(), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn endpoints_repair() {
    for on in [true, false] {
        let objects = vec![node("a", "zone-a"), pod(1, "a", true), service(None)];
        let world = World::of(ControllerName::Endpoints, Gate::EndpointsRepair, on, objects).await;
        let mut edited = world.server.get("endpoints", "default", "web").unwrap();
        assert_eq!(edited["subsets"][0]["addresses"][0]["ip"], "10.1.0.1");
        edited["subsets"] = json!([]);
        world.load([edited]).await;
        let now = world.server.get("endpoints", "default", "web").unwrap();
        assert_eq!(now["subsets"][0]["addresses"][0]["ip"] == "10.1.0.1", on);
    }
}

/// How many times Endpoints are written while something changes about the Service that does not matter.
async fn needless_writes(world: &World, mut service: Value) -> usize {
    world.writes();
    for round in 0..3 {
        service["metadata"]["annotations"]["round"] = round.to_string().into();
        world.load([service.clone()]).await;
    }
    world.writes().len()
}

#[tokio::test(start_paused = true)]
async fn endpoints_keep_truncated() {
    for on in [true, false] {
        let mut objects = vec![node("a", "zone-a"), service(None)];
        objects.extend((0..1001).map(|number| {
            let mut pod = pod(number, "a", true);
            let ip = format!("10.1.{}.{}", number / 250, number % 250);
            pod["status"]["podIP"] = ip.as_str().into();
            pod["status"]["podIPs"] = json!([{"ip": ip}]);
            pod
        }));
        let world = World::of(ControllerName::Endpoints, Gate::EndpointsKeepTruncated, on, objects).await;
        assert_eq!(needless_writes(&world, service(None)).await, if on { 0 } else { 3 });
    }
}

#[tokio::test(start_paused = true)]
async fn endpoints_ignore_reserved_labels() {
    for on in [true, false] {
        let mut labelled = service(None);
        labelled["metadata"]["labels"] = json!({"endpoints.kubernetes.io/managed-by": "somebody"});
        let objects = vec![node("a", "zone-a"), pod(1, "a", true), labelled.clone()];
        let gate = Gate::EndpointsIgnoreReservedLabels;
        let world = World::of(ControllerName::Endpoints, gate, on, objects).await;
        assert_eq!(needless_writes(&world, labelled).await, if on { 0 } else { 3 });
    }
}

#[tokio::test(start_paused = true)]
async fn orphaned_slice_cleanup() {
    for on in [true, false] {
        let mut lost = service(None);
        lost["metadata"]["uid"] = "uid-of-web".into();
        lost["spec"].as_object_mut().unwrap().remove("selector");
        let by_hand = json!({
            "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "web"},
            "subsets": [{"addresses": [{"ip": "10.9.9.9"}], "ports": [{"port": 80, "protocol": "TCP"}]}],
        });
        let left = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "web-left", "labels": {
                "kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            }, "ownerReferences": [
                {"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "uid-of-web", "controller": true},
            ]},
            "endpoints": [{"addresses": ["10.1.0.1"]}],
            "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        });
        let objects = vec![lost, by_hand, left];
        let world =
            World::of(ControllerName::EndpointSliceMirroring, Gate::OrphanedSliceCleanup, on, objects).await;
        world.pass(5).await;
        let addresses: Vec<Value> = world.endpoints().iter().map(|it| it["addresses"][0].clone()).collect();
        let stays = addresses.contains(&"10.1.0.1".into());
        assert!(addresses.contains(&"10.9.9.9".into()) && stays != on, "{addresses:?}");
    }
}
