//! Reflectors that list and watch namespaces one by one, into the same stores.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_core_model::{
    EndpointSelector, EndpointSlice, Lease, Node, ObjectKey, ObjectMeta, Pod, ResourceVersion, Service,
};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultId, FaultRule, RequestInfo};
use kube_endpoint_informer::{
    Change, Cluster, ClusterOptions, Handler, Kind, Kinds, Object, ReflectorOptions, Scope, StreamEvent,
    WatchedNamespaces, run,
};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::json;
use tokio::time::sleep;

const V: fn(u64) -> ResourceVersion = ResourceVersion;

fn in_namespace(name: &str) -> Scope {
    Scope::Namespace(name.into())
}

fn slice(namespace: &str, name: &str, version: u64) -> EndpointSlice {
    let (name, namespace) = (name.into(), namespace.into());
    let metadata = ObjectMeta { name, namespace, resource_version: V(version), ..ObjectMeta::default() };
    EndpointSlice { metadata, ..EndpointSlice::default() }
}

fn cluster(kinds: &[Kind]) -> Cluster {
    let kinds: Kinds = kinds.iter().copied().collect();
    let watched_namespaces = WatchedNamespaces::named(["a", "b"]);
    Cluster::with_options(kinds, ClusterOptions { watched_namespaces, ..ClusterOptions::default() })
}

#[test]
fn each_namespace_has_a_position_and_the_kind_has_the_lowest() {
    let cluster = cluster(&[Kind::EndpointSlices]);
    let positions = || {
        let of = |namespace| cluster.position_in(Kind::EndpointSlices, namespace);
        (of("a"), of("b"), cluster.position(Kind::EndpointSlices).0)
    };
    let apply = |namespace: &str, event| cluster.apply_in(&in_namespace(namespace), event);
    apply("a", StreamEvent::restarted(vec![slice("a", "x", 3)], V(5)));
    assert_eq!(positions(), (V(5), V(0), 0));
    assert!(!cluster.has_synced());
    apply("b", StreamEvent::restarted(vec![slice("b", "x", 2), slice("b", "y", 3)], V(4)));
    assert_eq!(positions(), (V(5), V(4), 4));
    assert!(cluster.has_synced());
    apply("b", StreamEvent::Applied(slice("b", "x", 9)));
    apply("a", StreamEvent::Bookmark(V(7)));
    assert_eq!(positions(), (V(7), V(9), 7));
    // A list of one namespace neither removes objects of the other nor moves its position.
    apply("b", StreamEvent::restarted(vec![slice("b", "z", 1)], V(2)));
    assert_eq!(positions(), (V(7), V(2), 2));
    assert_eq!(cluster.count(Kind::EndpointSlices), 2);
    assert!(cluster.endpoint_slice(&ObjectKey::new("a", "x")).is_some());
    assert!(cluster.endpoint_slice(&ObjectKey::new("b", "z")).is_some());
    assert_eq!(cluster.position_in(Kind::EndpointSlices, "elsewhere"), V(0));
}

/// Records the Services that the cluster called it for, and the scopes of complete lists.
#[derive(Default)]
struct Recorded(Mutex<Vec<String>>);

impl Handler for Recorded {
    fn on_service(&self, change: &Change<Service>) {
        let sign = if change.new.is_none() { "-" } else { "+" };
        self.0.lock().extend(change.latest().map(|service| format!("{sign}{}", service.key)));
    }

    fn on_relisted(&self, kind: Kind, scope: &Scope) {
        self.0.lock().push(format!("{}@{}", kind.name(), scope.namespace().unwrap_or("*")));
    }
}

#[test]
fn a_relist_reports_the_objects_of_its_namespace_only() {
    let (cluster, recorded) = (cluster(&[Kind::Services]), Arc::new(Recorded::default()));
    cluster.add_handler(Arc::clone(&recorded) as _);
    let service = |namespace: &str, name: &str| Service {
        key: ObjectKey::new(namespace, name),
        resource_version: V(1),
        ..Service::default()
    };
    cluster.apply_in(&in_namespace("a"), StreamEvent::restarted(vec![service("a", "s")], V(1)));
    cluster.apply_in(&in_namespace("b"), StreamEvent::restarted(vec![service("b", "s")], V(1)));
    cluster.apply_in(&in_namespace("a"), StreamEvent::<Service>::restarted(vec![], V(2)));
    cluster.apply_in(&in_namespace("b"), StreamEvent::<EndpointSlice>::restarted(vec![], V(2)));
    cluster.apply(StreamEvent::<Node>::restarted(vec![], V(2)));
    assert_eq!(recorded.0.lock().join(" "), "+a/s +b/s -a/s endpointslices@b nodes@*");
}

/// A list or an event of the pods or Services of a namespace.
#[derive(Clone, Debug)]
enum Step {
    Pods(u8, Vec<(u8, u8, u8)>),
    Services(u8, Vec<(u8, u8)>),
    Pod(u8, (u8, u8, u8)),
    DeletePod(u8, u8),
}

fn step() -> impl Strategy<Value = Step> {
    let pod = || (0..4u8, 0..3u8, 0..3u8);
    prop_oneof![
        (0..2u8, prop::collection::vec(pod(), 0..5)).prop_map(|(space, pods)| Step::Pods(space, pods)),
        (0..2u8, prop::collection::vec((0..3u8, 0..3u8), 0..4))
            .prop_map(|(space, all)| Step::Services(space, all)),
        (0..2u8, pod()).prop_map(|(space, pod)| Step::Pod(space, pod)),
        (0..2u8, 0..4u8).prop_map(|(space, name)| Step::DeletePod(space, name)),
    ]
}

proptest! {
    /// Stores that reflectors fill namespace by namespace answer as two clusters with one namespace
    /// each.
    #[test]
    fn namespaces_do_not_affect_each_other(steps in prop::collection::vec(step(), 0..30)) {
        let spaces = ["a", "b"];
        let together = cluster(&[]);
        let apart = spaces.map(|_| Cluster::new([]));
        let mut version = 0;
        for step in steps {
            version += 1;
            let pod = |space: u8, (name, app, node): (u8, u8, u8)| Pod {
                key: ObjectKey::new(spaces[usize::from(space)], format!("p{name}")),
                labels: [("app", format!("a{app}"))].into_iter().collect(),
                node_name: Some(format!("n{node}").into()),
                resource_version: V(version),
                ..Pod::default()
            };
            match step {
                Step::Pods(space, mut pods) => {
                    pods.sort_unstable();
                    pods.dedup_by_key(|pod| pod.0);
                    let pods: Vec<_> = pods.into_iter().map(|it| pod(space, it)).collect();
                    apply(&together, &apart, space, StreamEvent::restarted(pods, V(version)));
                }
                Step::Services(space, mut services) => {
                    services.sort_unstable();
                    services.dedup_by_key(|service| service.0);
                    let of = |(name, app): (u8, u8)| Service {
                        key: ObjectKey::new(spaces[usize::from(space)], format!("s{name}")),
                        selector: Some([("app", format!("a{app}"))].into_iter().collect()),
                        ..Service::default()
                    };
                    let services: Vec<_> = services.into_iter().map(of).collect();
                    apply(&together, &apart, space, StreamEvent::restarted(services, V(version)));
                }
                Step::Pod(space, it) => apply(&together, &apart, space, StreamEvent::Applied(pod(space, it))),
                Step::DeletePod(space, name) => {
                    apply(&together, &apart, space, StreamEvent::Deleted(pod(space, (name, 0, 0))));
                }
            }
        }
        for kind in [Kind::Pods, Kind::Services] {
            prop_assert_eq!(together.count(kind), apart.iter().map(|one| one.count(kind)).sum::<usize>());
        }
        for node in ["n0", "n1", "n2"] {
            let both: Vec<_> = apart.iter().flat_map(|one| one.services_on_node(node)).collect();
            prop_assert_eq!(together.services_on_node(node), both, "{}", node);
        }
        let services: Vec<_> = apart.iter().flat_map(Cluster::services).collect();
        prop_assert_eq!(&together.services(), &services);
        for (key, one) in services.iter().map(|key| (key, &apart[usize::from(*key.namespace == *"b")])) {
            prop_assert_eq!(together.pods_of(key), one.pods_of(key));
        }
    }
}

fn apply<T: Object>(together: &Cluster, apart: &[Cluster; 2], space: u8, event: StreamEvent<T>) {
    together.apply_in(&in_namespace(["a", "b"][usize::from(space)]), event.clone());
    apart[usize::from(space)].apply(event);
}

fn pod(namespace: &str, name: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn watch(server: &EmbeddedApiServer, streaming_list: bool) -> Cluster {
    let cluster = cluster(&[Kind::Pods, Kind::Nodes]);
    let options = ReflectorOptions::new(0).streaming_list(streaming_list).page_size(2);
    let client = || ApiClient::for_tests(server.service());
    tokio::spawn(run::<Pod>(client(), cluster.clone(), options, std::future::pending()));
    tokio::spawn(run::<Node>(client(), cluster.clone(), options, std::future::pending()));
    cluster
}

#[tokio::test(start_paused = true)]
async fn only_the_namespaces_are_requested_and_nodes_as_a_whole() {
    for streaming_list in [true, false] {
        let server = EmbeddedApiServer::builder().build().unwrap();
        server.load(["a", "b", "c"].map(|namespace| pod(namespace, "before"))).unwrap();
        let cluster = watch(&server, streaming_list);
        sleep(Duration::from_secs(5)).await;
        server.load(["a", "b", "c"].map(|namespace| pod(namespace, "after"))).unwrap();
        sleep(Duration::from_secs(5)).await;
        assert_eq!(cluster.count(Kind::Pods), 4);
        let mut paths: Vec<_> = server.request_log().into_iter().map(|entry| entry.request.path).collect();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths, ["/api/v1/namespaces/a/pods", "/api/v1/namespaces/b/pods", "/api/v1/nodes"]);
    }
}

fn forbid(
    server: &EmbeddedApiServer,
    matches: impl Fn(&RequestInfo) -> bool + Send + Sync + 'static,
) -> FaultId {
    server.add_fault(FaultRule::new(Fault::Refuse { status: 403, retry_after: None }, matches))
}

/// Records the first lists of namespaces.
#[derive(Default)]
struct FirstLists(Mutex<Vec<String>>);

impl Handler for FirstLists {
    fn on_first_listed(&self, kind: Kind, namespace: &str) {
        self.0.lock().push(format!("{}@{namespace}", kind.name()));
    }
}

fn unreadable(cluster: &Cluster, kind: Kind) -> Vec<String> {
    cluster
        .unreadable(kind)
        .iter()
        .map(|(namespace, failure)| format!("{namespace} {:?}", failure.code))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_cannot_be_read_delays_no_other() {
    let recorder = DebuggingRecorder::new();
    let _current = metrics::set_default_local_recorder(&recorder);
    let snapshotter = recorder.snapshotter();
    let gauges = || {
        let of_pods: BTreeMap<String, f64> = snapshotter
            .snapshot()
            .into_vec()
            .into_iter()
            .filter_map(|(key, _, _, value)| match value {
                DebugValue::Gauge(value) if key.key().labels().any(|label| label.value() == "pods") => {
                    Some((key.key().name().to_owned(), value.0))
                }
                _ => None,
            })
            .collect();
        ["informer_unreadable_namespaces", "informer_synced"].map(|name| of_pods[name])
    };
    let server = EmbeddedApiServer::builder().build().unwrap();
    server.load(["a", "b"].map(|namespace| pod(namespace, "one"))).unwrap();
    let fault = forbid(&server, |request| request.namespace == "b");
    let cluster = watch(&server, true);
    let first_lists = Arc::new(FirstLists::default());
    cluster.add_handler(Arc::clone(&first_lists) as _);
    sleep(Duration::from_secs(1)).await;
    assert!(cluster.has_synced() && cluster.status(Kind::Pods).synced);
    assert!(
        cluster.covers([Kind::Pods, Kind::Nodes], "a") && !cluster.covers([Kind::Pods, Kind::Nodes], "b")
    );
    assert_eq!(unreadable(&cluster, Kind::Pods), ["b Some(403)"]);
    assert_eq!(cluster.status(Kind::Pods).failure, None, "the kind can be read");
    assert!(cluster.position(Kind::Pods) > V(0));
    assert_eq!(gauges(), [1.0, 1.0]);
    // Nobody waits for its list.
    cluster.relist(Kind::Pods, tokio::time::Instant::now()).await;

    server.remove_fault(fault);
    sleep(Duration::from_secs(60)).await;
    assert!(cluster.covers([Kind::Pods], "b"));
    assert_eq!(*first_lists.0.lock(), ["pods@a", "pods@b"]);
    assert_eq!(unreadable(&cluster, Kind::Pods), [""; 0]);
    assert_eq!(gauges(), [0.0, 1.0]);

    // The store keeps its last state.
    let fault = forbid(&server, |request| request.namespace == "b");
    server.close_watches();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(unreadable(&cluster, Kind::Pods), ["b Some(403)"]);
    assert!(cluster.covers([Kind::Pods], "b") && cluster.pod(&ObjectKey::new("b", "one")).is_some());
    server.remove_fault(fault);
    // Its next bookmark ends the failure of a watch.
    sleep(Duration::from_secs(120)).await;
    assert_eq!(unreadable(&cluster, Kind::Pods), [""; 0]);
    assert_eq!(first_lists.0.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_fails_for_another_reason_delays_the_others_for_seconds() {
    let server = EmbeddedApiServer::builder().build().unwrap();
    let fails = FaultRule::new(Fault::Refuse { status: 500, retry_after: None }, |it| it.namespace == "b");
    server.add_fault(fails);
    let cluster = watch(&server, true);
    sleep(Duration::from_secs(10)).await;
    assert!(cluster.has_synced());
    assert_eq!(unreadable(&cluster, Kind::Pods), ["b Some(500)"]);
    // It may answer soon, and then show what others have written.
    let relist = cluster.relist(Kind::Pods, tokio::time::Instant::now());
    assert!(tokio::time::timeout(Duration::from_secs(600), relist).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_can_be_read_in_no_namespace_is_not_synced() {
    let server = EmbeddedApiServer::builder().build().unwrap();
    let fault = forbid(&server, |request| ["a", "b"].contains(&&*request.namespace));
    let cluster = watch(&server, true);
    sleep(Duration::from_secs(60)).await;
    assert!(cluster.has_synced_kinds([Kind::Nodes]) && !cluster.has_synced_kinds([Kind::Pods]));
    assert!(cluster.status(Kind::Pods).failure.is_some_and(|failure| failure.code == Some(403)));
    assert_eq!(unreadable(&cluster, Kind::Pods), [""; 0], "the kind fails");
    let relist = cluster.relist(Kind::Pods, tokio::time::Instant::now());
    assert!(tokio::time::timeout(Duration::from_secs(60), relist).await.is_err());
    server.remove_fault(fault);
    sleep(Duration::from_secs(60)).await;
    assert!(cluster.has_synced());
    assert_eq!(cluster.status(Kind::Pods).failure, None);
}

fn names_lease(namespace: &str) -> serde_json::Value {
    json!({
        "apiVersion": "kube-endpoint-manager.github.io/v1alpha1", "kind": "EndpointSelector",
        "metadata": {"name": "leader", "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "readiness": {"lease": {"name": "web"}}},
    })
}

fn lease_in(namespace: &str) -> serde_json::Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "web", "namespace": namespace},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15},
    })
}

/// Returns the paths of the watches of Leases since the last call, sorted, each once.
fn lease_watches(server: &EmbeddedApiServer) -> Vec<String> {
    let log = server.request_log();
    server.clear_request_log();
    let of_leases =
        log.iter().map(|it| &it.request).filter(|it| it.plural() == "leases" && it.verb == "watch");
    let mut paths: Vec<String> = of_leases
        .map(|it| format!("{}{}", it.path, if it.query.contains("fieldSelector") { " selected" } else { "" }))
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

#[tokio::test(start_paused = true)]
async fn where_one_watch_of_all_leases_is_forbidden_each_namespace_has_its_own() {
    let server = EmbeddedApiServer::builder().build().unwrap();
    let names: Vec<String> = (0..21).map(|number| format!("n{number:02}")).collect();
    server.load(names.iter().flat_map(|name| [names_lease(name), lease_in(name)])).unwrap();
    forbid(&server, |it| it.plural() == "leases" && (it.namespace.is_empty() || it.namespace == "n07"));
    let cluster = Cluster::new([Kind::EndpointSelectors]);
    let client = ApiClient::for_tests(server.service());
    let options = ReflectorOptions::new(1);
    tokio::spawn(run::<EndpointSelector>(client.clone(), cluster.clone(), options, std::future::pending()));
    tokio::spawn(run::<Lease>(client, cluster.clone(), options, std::future::pending()));
    let began = tokio::time::Instant::now();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(names.iter().filter(|name| cluster.has_listed_leases(name)).count(), 20);
    assert!(cluster.is_listed_since(Kind::Leases, "n06", began));
    assert!(!cluster.is_listed_since(Kind::Leases, "n07", began));
    assert_eq!(unreadable(&cluster, Kind::Leases), ["n07 Some(403)"]);
}

#[tokio::test(start_paused = true)]
async fn leases_are_listed_where_a_selector_names_one() {
    let server = EmbeddedApiServer::builder().build().unwrap();
    server.load(["a", "b", "kube-node-lease"].map(lease_in)).unwrap();
    let cluster = Cluster::new([Kind::EndpointSelectors]);
    let client = ApiClient::for_tests(server.service());
    let options = ReflectorOptions::new(1);
    tokio::spawn(run::<EndpointSelector>(client.clone(), cluster.clone(), options, std::future::pending()));
    tokio::spawn(run::<Lease>(client, cluster.clone(), options, std::future::pending()));
    let second = Duration::from_secs(1);
    sleep(second).await;
    assert_eq!(lease_watches(&server), [""; 0], "no selector names a Lease");
    assert!(cluster.status(Kind::Leases).synced && !cluster.has_listed_leases("a"));

    server.load([names_lease("a")]).unwrap();
    sleep(second).await;
    assert_eq!(lease_watches(&server), ["/apis/coordination.k8s.io/v1/namespaces/a/leases"]);
    assert!(cluster.has_listed_leases("a") && !cluster.has_listed_leases("b"));
    let key = |namespace| ObjectKey::new(namespace, "web");
    assert_eq!(cluster.lease(&key("a")).unwrap().record.holder, "a");
    assert_eq!(cluster.lease(&key("b")), None);

    // The selector goes and comes back before the reflectors notice.
    let selector = cluster.endpoint_selector(&ObjectKey::new("a", "leader")).unwrap();
    cluster.apply(StreamEvent::Deleted((*selector).clone()));
    cluster.apply(StreamEvent::Applied((*selector).clone()));
    assert!(!cluster.has_listed_leases("a"));
    sleep(second).await;
    assert!(cluster.has_listed_leases("a") && cluster.lease(&key("a")).is_some());
    lease_watches(&server);

    // Beyond twenty namespaces there is one watch for the cluster.
    server.load((0..20).map(|number| names_lease(&format!("n{number}")))).unwrap();
    sleep(second).await;
    assert_eq!(lease_watches(&server), ["/apis/coordination.k8s.io/v1/leases selected"]);
    assert!(cluster.lease(&key("a")).is_some() && cluster.lease(&key("b")).is_some());
    assert_eq!(cluster.lease(&key("kube-node-lease")), None, "nodes have theirs there");

    for namespace in ["a".to_owned()].into_iter().chain((0..20).map(|number| format!("n{number}"))) {
        let path = format!(
            "/apis/kube-endpoint-manager.github.io/v1alpha1/namespaces/{namespace}/endpointselectors/leader"
        );
        let request = http::Request::delete(path).body(kube::client::Body::empty()).unwrap();
        assert_eq!(tower::ServiceExt::oneshot(server.service(), request).await.unwrap().status(), 200);
    }
    sleep(second).await;
    lease_watches(&server);
    sleep(Duration::from_secs(1200)).await;
    assert_eq!(lease_watches(&server), [""; 0]);
    assert_eq!(cluster.count(Kind::Leases), 0);
}
