//! The state that readers see, and the handlers that the cluster calls, when it applies events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kube_endpoint_core_model::well_known::LABEL_SERVICE_NAME;
use kube_endpoint_core_model::{
    EndpointSlice, Endpoints, Node, NodeLookup, ObjectKey, ObjectMeta, Pod, ResourceVersion, Service,
};
use kube_endpoint_informer::{Change, Cluster, Handler, Kind, PodEvent, Scope, StreamEvent, feed};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use parking_lot::Mutex;
use tokio::time::Instant;

const V: fn(u64) -> ResourceVersion = ResourceVersion;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("n", name)
}

fn pod(name: &str, version: u64, labels: &[(&str, &str)]) -> Pod {
    Pod {
        key: key(name),
        resource_version: V(version),
        labels: labels.iter().copied().collect(),
        ..Pod::default()
    }
}

fn service(name: &str, version: u64, selector: &[(&str, &str)]) -> Service {
    Service {
        key: key(name),
        resource_version: V(version),
        selector: Some(selector.iter().copied().collect()),
        ..Service::default()
    }
}

fn node(name: &str, version: u64, ready: bool) -> Node {
    Node { name: name.into(), resource_version: V(version), ready, ..Node::default() }
}

fn slice(name: &str, version: u64, service: &str) -> EndpointSlice {
    let labels = [(LABEL_SERVICE_NAME, service)].into_iter().collect();
    EndpointSlice { metadata: ObjectMeta { labels, ..meta(name, version) }, ..EndpointSlice::default() }
}

fn meta(name: &str, version: u64) -> ObjectMeta {
    ObjectMeta {
        name: name.into(),
        namespace: "n".into(),
        resource_version: V(version),
        ..ObjectMeta::default()
    }
}

#[derive(Default)]
struct RecordingHandler(Mutex<Vec<String>>);

impl RecordingHandler {
    fn change<T>(&self, kind: &str, change: &Change<T>, version: fn(&T) -> ResourceVersion) {
        let version =
            |side: &Option<Arc<T>>| side.as_deref().map_or("-".to_owned(), |it| version(it).to_string());
        self.0.lock().push(format!("{kind} {}..{}", version(&change.old), version(&change.new)));
    }

    fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock()).join("; ")
    }
}

impl Handler for RecordingHandler {
    fn on_pod(&self, event: &PodEvent) {
        self.change("pod", &event.change, |pod| pod.resource_version);
        let names =
            |keys: &[ObjectKey]| keys.iter().map(|key| key.name.to_string()).collect::<Vec<_>>().join("+");
        let all: Vec<_> = event.services().map(|key| &*key.name).collect();
        assert_eq!(all.len(), event.left.len() + event.joined.len() + event.stayed.len());
        let services = [&event.left, &event.joined, &event.stayed].map(|keys| names(keys));
        self.0.lock().push(format!("left {} joined {} stayed {}", services[0], services[1], services[2]));
    }

    fn on_service(&self, change: &Change<Service>) {
        self.change("service", change, |service| service.resource_version);
    }

    fn on_node(&self, change: &Change<Node>) {
        self.change("node", change, |node| node.resource_version);
    }

    fn on_endpoint_slice(&self, change: &Change<EndpointSlice>) {
        self.change("slice", change, |slice| slice.metadata.resource_version);
    }

    fn on_endpoints(&self, change: &Change<Endpoints>) {
        self.change("endpoints", change, |endpoints| endpoints.metadata.resource_version);
    }
}

/// Counts the pods that it was called for, and wants pods if a test says so.
#[derive(Default)]
struct Counting {
    wants_pods: AtomicBool,
    pods: AtomicUsize,
}

impl Handler for Counting {
    fn wants_pods(&self) -> bool {
        self.wants_pods.load(Ordering::Relaxed)
    }

    fn on_pod(&self, _: &PodEvent) {
        self.pods.fetch_add(1, Ordering::Relaxed);
    }
}

/// Records when the changes arrived that the cluster called it for.
#[derive(Default)]
struct Arrivals(Mutex<Vec<Option<Instant>>>);

impl Handler for Arrivals {
    fn on_pod(&self, event: &PodEvent) {
        self.0.lock().push(event.change.arrived);
    }

    fn on_service(&self, change: &Change<Service>) {
        self.0.lock().push(change.arrived);
    }

    fn on_node(&self, change: &Change<Node>) {
        self.0.lock().push(change.arrived);
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_an_event_shows_has_arrived_and_one_of_a_list_has_not() {
    let (cluster, arrivals) = (Cluster::new(Kind::ALL), Arc::new(Arrivals::default()));
    cluster.add_handler(Arc::clone(&arrivals) as _);
    for listed in [V(1), V(10)] {
        // Each object of the second list is new, and one object of each kind is gone.
        let version = listed.0 + 1;
        cluster
            .apply(StreamEvent::restarted(vec![pod("a", version, &[("v", &*listed.to_string())])], listed));
        cluster.apply(StreamEvent::restarted(vec![service("a", version, &[])], listed));
        cluster.apply(StreamEvent::restarted(vec![node("a", version, listed == V(1))], listed));
        let arrived = std::mem::take(&mut *arrivals.0.lock());
        assert!(arrived.len() >= 3 && arrived.iter().all(Option::is_none), "{listed}: {arrived:?}");
        tokio::time::advance(Duration::from_secs(1)).await;
        cluster.apply(StreamEvent::Applied(pod("b", version + 1, &[])));
        cluster.apply(StreamEvent::Deleted(pod("a", version + 2, &[])));
        cluster.apply(StreamEvent::Applied(service("b", version + 1, &[])));
        cluster.apply(StreamEvent::Deleted(service("a", version + 2, &[])));
        cluster.apply(StreamEvent::Applied(node("b", version + 1, true)));
        cluster.apply(StreamEvent::Deleted(node("a", version + 2, true)));
        let arrived = std::mem::take(&mut *arrivals.0.lock());
        assert_eq!(arrived, [Some(Instant::now()); 6], "{listed}");
    }
}

#[test]
fn a_list_of_pods_is_reported_if_somebody_wants_pods() {
    let (cluster, counting) = (Cluster::new(Kind::ALL), Arc::new(Counting::default()));
    cluster.add_handler(Arc::clone(&counting) as _);
    let list = |version, pods: &[&str]| {
        let pods = pods.iter().map(|name| pod(name, version, &[])).collect();
        cluster.apply(StreamEvent::restarted(pods, V(version)));
        counting.pods.swap(0, Ordering::Relaxed)
    };
    assert_eq!(list(1, &["a", "b"]), 0);
    assert!(cluster.pod(&key("a")).is_some() && cluster.has_synced_kinds([Kind::Pods]));
    counting.wants_pods.store(true, Ordering::Relaxed);
    assert_eq!(list(2, &["b", "c", "d"]), 3, "one was deleted, two were created");
    counting.wants_pods.store(false, Ordering::Relaxed);
    let recorded = Arc::new(RecordingHandler::default());
    cluster.add_handler(recorded.clone());
    assert_eq!(list(3, &["b", "c"]), 1, "another handler wants them");
    assert_eq!(recorded.take(), "pod 2..-; left  joined  stayed ");
}

fn cluster() -> (Cluster, Arc<RecordingHandler>) {
    let (cluster, recorded) = (Cluster::new(Kind::ALL), Arc::new(RecordingHandler::default()));
    cluster.add_handler(recorded.clone());
    (cluster, recorded)
}

#[test]
fn a_new_version_alone_is_reported_for_services_slices_and_endpoints_only() {
    let (cluster, recorded) = cluster();
    let apply = |version| {
        cluster.apply(StreamEvent::Applied(pod("p", version, &[])));
        cluster.apply(StreamEvent::Applied(node("a", version, true)));
        cluster.apply(StreamEvent::Applied(service("s", version, &[])));
        cluster.apply(StreamEvent::Applied(slice("l", version, "s")));
        cluster
            .apply(StreamEvent::Applied(Endpoints { metadata: meta("s", version), subsets: vec![].into() }));
    };
    apply(1);
    assert_eq!(
        recorded.take(),
        "pod -..1; left  joined  stayed ; node -..1; service -..1; slice -..1; endpoints -..1"
    );
    // The same version again, as when a watch begins before the version of the list.
    apply(1);
    assert_eq!(recorded.take(), "");
    apply(2);
    assert_eq!(recorded.take(), "service 1..2; slice 1..2; endpoints 1..2");
    // The stores have the new versions of all kinds.
    assert_eq!(cluster.pod(&key("p")).unwrap().resource_version, V(2));
    assert_eq!(cluster.pods_of(&key("s"))[0].resource_version, V(2));
    assert_eq!(NodeLookup::node(&cluster, "a").unwrap().resource_version, V(2));
    let applied = Kind::ALL.iter().filter(|kind| ![Kind::EndpointSelectors, Kind::Leases].contains(kind));
    assert!(applied.into_iter().all(|kind| cluster.position(*kind) == V(2)));
}

#[test]
fn changed_labels_move_a_pod_between_services() {
    let (cluster, recorded) = cluster();
    // A reflector may receive a pod before its Services.
    cluster.apply(StreamEvent::Applied(pod("p", 1, &[("a", "1"), ("b", "1")])));
    for (name, selector) in [("a1", ("a", "1")), ("a2", ("a", "2")), ("b1", ("b", "1"))] {
        cluster.apply(StreamEvent::Applied(service(name, 2, &[selector])));
    }
    cluster.apply(StreamEvent::Applied(service("all", 3, &[])));
    recorded.take();
    cluster.apply(StreamEvent::Applied(pod("p", 4, &[("a", "2"), ("b", "1")])));
    assert_eq!(recorded.take(), "pod 1..4; left a1 joined a2 stayed all+b1");
    // For a changed selector, the cluster calls handlers for the Service, not for its pods.
    cluster.apply(StreamEvent::Applied(service("a1", 5, &[("a", "2")])));
    assert_eq!(recorded.take(), "service 2..5");
    assert_eq!(cluster.pods_of(&key("a1")).len(), 1);
    cluster.apply(StreamEvent::Deleted(pod("p", 6, &[])));
    assert_eq!(recorded.take(), "pod 4..-; left a1+a2+all+b1 joined  stayed ");
    cluster.apply::<Pod>(StreamEvent::DeletedFinalStateUnknown { key: key("p"), resource_version: V(7) });
    assert_eq!((recorded.take(), cluster.position(Kind::Pods)), (String::new(), V(7)));
}

#[test]
fn a_list_is_compared_with_the_store() {
    let (cluster, recorded) = cluster();
    let nodes = |list: &[(&str, u64, bool)]| {
        let items = list.iter().map(|(name, version, ready)| node(name, *version, *ready)).collect();
        StreamEvent::restarted(items, V(9))
    };
    cluster.apply(nodes(&[("a", 1, true), ("b", 2, true), ("c", 3, true)]));
    let before = cluster.node("a").unwrap();
    recorded.take();
    // One unchanged, one with a new version only, one changed, one created.
    cluster.apply(nodes(&[("e", 7, true), ("c", 6, false), ("b", 5, true), ("a", 1, true)]));
    assert_eq!(recorded.take(), "node -..7; node 3..6");
    assert!(Arc::ptr_eq(&before, &cluster.node("a").unwrap()));
    cluster.apply(nodes(&[("a", 1, true)]));
    assert_eq!(recorded.take(), "node 5..-; node 6..-; node 7..-");
    let names: Vec<_> = cluster.nodes().iter().map(|node| node.name.clone()).collect();
    assert_eq!(names, ["a"]);
}

#[test]
fn on_relisted_is_called_after_the_changes_of_a_list() {
    #[derive(Default)]
    struct Relists(Mutex<Vec<String>>);

    impl Handler for Relists {
        fn on_endpoint_slice(&self, change: &Change<EndpointSlice>) {
            self.0.lock().push(change.latest().map_or("-".into(), |slice| slice.metadata.name.to_string()));
        }

        fn on_relisted(&self, kind: Kind, _: &Scope) {
            self.0.lock().push(kind.name().into());
        }
    }

    let (cluster, recorded) = (Cluster::new(Kind::ALL), Arc::new(Relists::default()));
    cluster.add_handler(recorded.clone());
    let slices = || vec![slice("a", 1, "web"), slice("b", 2, "web")];
    cluster.apply(StreamEvent::restarted(slices(), V(2)));
    cluster.apply(StreamEvent::Applied(slice("c", 3, "web")));
    cluster.apply::<EndpointSlice>(StreamEvent::Bookmark(V(4)));
    cluster.apply(StreamEvent::restarted(slices(), V(5)));
    assert_eq!(*recorded.0.lock(), ["a", "b", "endpointslices", "c", "c", "endpointslices"]);
}

#[tokio::test]
async fn synced_means_that_each_kind_was_listed_and_handlers_were_called() {
    struct SyncedDuringCall(Cluster, AtomicBool);
    impl Handler for SyncedDuringCall {
        fn on_node(&self, _: &Change<Node>) {
            self.1.store(!self.0.has_synced(), Ordering::SeqCst);
        }
    }
    let cluster = Cluster::new([Kind::Nodes, Kind::Pods]);
    let handler = Arc::new(SyncedDuringCall(cluster.clone(), AtomicBool::new(false)));
    cluster.add_handler(handler.clone());
    let waiting = tokio::spawn({
        let cluster = cluster.clone();
        async move { cluster.synced().await }
    });
    cluster.apply::<Pod>(StreamEvent::restarted(vec![], V(3)));
    cluster.apply(StreamEvent::Applied(node("a", 1, true)));
    cluster.apply::<Service>(StreamEvent::restarted(vec![], V(3)));
    assert!(!cluster.has_synced());
    // `feed` applies any stream of events.
    let events = [StreamEvent::restarted(vec![node("a", 2, false)], V(4)), StreamEvent::Bookmark(V(6))];
    feed(cluster.clone(), futures::stream::iter(events)).await;
    assert!(cluster.has_synced() && handler.1.load(Ordering::SeqCst));
    assert_eq!((cluster.position(Kind::Nodes), cluster.count(Kind::Nodes)), (V(6), 1));
    waiting.await.unwrap();
    cluster.synced().await;
    assert!(Cluster::new([]).has_synced());
}

#[test]
fn a_list_becomes_visible_atomically() {
    let (cluster, _) = cluster();
    cluster.apply(StreamEvent::Applied(service("s", 1, &[("a", "b")])));
    let generation = |number: u64| {
        let pods = (0..300).map(|pod_number| Pod {
            uid: number.to_string().into(),
            ..pod(&format!("p{number}-{pod_number}"), number, &[("a", "b")])
        });
        StreamEvent::restarted(pods.collect(), V(number))
    };
    cluster.apply(generation(1));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    let position = cluster.position(Kind::Pods);
                    let pods = cluster.pods_of(&key("s"));
                    assert_eq!(pods.len(), 300);
                    assert!(pods.iter().all(|pod| pod.uid == pods[0].uid));
                    assert!(pods[0].resource_version >= position);
                }
            });
        }
        for number in 2..40 {
            cluster.apply(generation(number));
        }
        done.store(true, Ordering::SeqCst);
    });
}

#[tokio::test(start_paused = true)]
async fn the_lag_of_a_kind_is_the_time_since_the_server_last_sent_something_about_it() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let cluster = metrics::with_local_recorder(&recorder, || Cluster::new([Kind::Pods, Kind::Nodes]));
    let lags = || {
        cluster.update_metrics();
        let gauges = snapshotter.snapshot().into_vec().into_iter().filter_map(|(key, _, _, value)| {
            let is_lag = key.key().name() == kube_endpoint_informer::metrics::LAG;
            let kind = key.key().labels().next()?.value().to_owned();
            match value {
                DebugValue::Gauge(seconds) if is_lag && seconds.0 > 0.0 => Some(format!("{kind} {seconds}")),
                _ => None,
            }
        });
        gauges.collect::<Vec<_>>().join(", ")
    };
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(lags(), "", "nothing has been listed");
    cluster.apply::<Node>(StreamEvent::Restarted {
        items: vec![],
        undecodable: vec![],
        resource_version: V(3),
    });
    tokio::time::advance(Duration::from_secs(7)).await;
    assert_eq!(lags(), "nodes 7");
    cluster.apply::<Node>(StreamEvent::Bookmark(V(4)));
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(lags(), "nodes 2");
}

/// Asserts which pods of the Service `web` a reader has to read again after a change.
#[test]
fn a_reader_of_the_pods_of_a_service_can_read_what_has_changed_since() {
    let list = |version| -> Vec<Pod> {
        (0..120).map(|number| pod(&format!("p{number:03}"), version, &[("app", "web")])).collect()
    };
    let ready = |name: &str| {
        let ready =
            Some(kube_endpoint_core_model::pod::ReadyCondition { is_true: true, last_transition: None });
        StreamEvent::Applied(Pod { ready, ..pod(name, 2, &[("app", "web")]) })
    };
    // `want` has the names of the changed pods, with an exclamation mark after one that left. With
    // `None` the reader has to read all pods.
    let check = |change: &dyn Fn(&Cluster), want: Option<&str>| {
        let cluster = Cluster::new([Kind::Pods, Kind::Services]);
        cluster.apply(StreamEvent::restarted(vec![service("web", 1, &[("app", "web")])], V(1)));
        cluster.apply(StreamEvent::restarted(list(1), V(1)));
        let (pods, cursor) = cluster.pods_and_cursor(&key("web")).unwrap();
        assert_eq!((pods.len(), cluster.pod_count_of(&key("web"))), (120, 120));
        change(&cluster);
        let changed = cluster.changed_pods(&key("web"), &cursor.unwrap());
        let names = changed.map(|(changed, next)| {
            assert!(cluster.changed_pods(&key("web"), &next).is_some_and(|(changed, _)| changed.is_empty()));
            let name = |one: &kube_endpoint_core_model::change::ChangedPod| {
                assert_eq!(
                    one.now,
                    cluster.pod(&key(&one.name)).filter(|pod| pod.labels.get("app").is_some())
                );
                format!("{}{}", one.name, if one.now.is_none() { "!" } else { "" })
            };
            changed.iter().map(name).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(names.as_deref(), want);
    };
    check(&|_| (), Some(""));
    check(&|cluster| cluster.apply(ready("p003")), Some("p003"));
    check(&|cluster| cluster.apply(StreamEvent::Applied(pod("p003", 2, &[("app", "web")]))), Some(""));
    check(&|cluster| cluster.apply(StreamEvent::Deleted(pod("p003", 2, &[("app", "web")]))), Some("p003!"));
    check(&|cluster| cluster.apply(ready("new")), Some("new"));
    // Labels that the Service does not select, and others that it does.
    check(&|cluster| cluster.apply(StreamEvent::Applied(pod("p003", 2, &[]))), Some("p003!"));
    let more = &[("app", "web"), ("more", "x")];
    check(&|cluster| cluster.apply(StreamEvent::Applied(pod("p003", 2, more))), Some("p003"));
    check(&|cluster| cluster.apply(StreamEvent::Applied(pod("other", 2, &[]))), Some(""));
    check(&|cluster| cluster.apply(StreamEvent::Applied(service("web", 2, &[("app", "web")]))), Some(""));
    check(&|cluster| cluster.apply(StreamEvent::Applied(service("other", 2, &[("app", "web")]))), Some(""));
    // The index makes a new list.
    check(&|cluster| cluster.apply(StreamEvent::Applied(service("web", 2, &[]))), None);
    check(&|cluster| cluster.apply(StreamEvent::restarted(list(1), V(2))), None);
    check(
        &|cluster| {
            cluster.apply(StreamEvent::restarted(vec![service("web", 1, &[("app", "web")])], V(2)));
        },
        None,
    );
    check(&|cluster| cluster.apply(StreamEvent::Deleted(service("web", 2, &[("app", "web")]))), None);
}
