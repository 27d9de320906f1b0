//! Reflectors against the embedded API server: whatever fails, the stores end up equal to the
//! server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1 as api;
use kube::api::DeleteParams;
use kube::{Api, Client};
use kube_endpoint_api_client::{ApiClient, ContentType};
use kube_endpoint_core_model::{ObjectKey, Pod, Service};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, Lag};
use kube_endpoint_informer::{Change, Cluster, Handler, Kind, Object, PodEvent, ReflectorOptions, run};
use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::json;
use tokio::time::Instant;

/// The objects that a handler knows from the changes that the cluster called it with.
#[derive(Default)]
struct Replica {
    pods: Mutex<BTreeMap<ObjectKey, Arc<Pod>>>,
    services: Mutex<BTreeMap<ObjectKey, Arc<Service>>>,
}

fn record<T>(objects: &Mutex<BTreeMap<ObjectKey, Arc<T>>>, key: ObjectKey, change: &Change<T>) {
    let before = match &change.new {
        Some(new) => objects.lock().insert(key, new.clone()),
        None => objects.lock().remove(&key),
    };
    // The cluster reports each change once.
    assert_eq!(before.is_some(), change.old.is_some());
}

impl Handler for Replica {
    fn on_pod(&self, event: &PodEvent) {
        record(&self.pods, event.change.latest().unwrap().key.clone(), &event.change);
    }

    fn on_service(&self, change: &Change<Service>) {
        record(&self.services, change.latest().unwrap().key.clone(), change);
    }
}

struct Reflectors {
    server: EmbeddedApiServer,
    client: Client,
    cluster: Cluster,
    replica: Arc<Replica>,
}

impl Reflectors {
    fn new(options: ReflectorOptions, history: usize) -> Self {
        Self::with(options, history, ContentType::default())
    }

    fn with(options: ReflectorOptions, history: usize, content_type: ContentType) -> Self {
        let server = EmbeddedApiServer::builder().history(history).build().unwrap();
        let cluster = Cluster::new([Kind::Pods, Kind::Services]);
        let replica = Arc::new(Replica::default());
        cluster.add_handler(replica.clone());
        let reflectors = Self { client: Client::new(server.service(), "default"), server, cluster, replica };
        reflectors.watch::<Pod>(options, content_type);
        reflectors.watch::<Service>(options, content_type);
        reflectors
    }

    fn watch<T: Object>(&self, options: ReflectorOptions, content_type: ContentType) {
        let client = ApiClient::for_tests(self.server.service()).with_content_type(content_type);
        tokio::spawn(run::<T>(client, self.cluster.clone(), options, std::future::pending()));
    }

    fn put_pod(&self, name: u8, app: u8) {
        let labels = json!({"app": format!("a{app}")});
        self.server
            .load([json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{name}"), "namespace": "n", "labels": labels},
                "spec": {"containers": [{"name": "c", "image": "i"}]}})])
            .unwrap();
    }

    fn put_service(&self, name: u8, app: u8) {
        self.server
            .load([json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s{name}"), "namespace": "n"},
                "spec": {"selector": {"app": format!("a{app}")}, "ports": [{"port": 80}]}})])
            .unwrap();
    }

    async fn delete(&self, pod: u8) {
        let pods = Api::<api::Pod>::namespaced(self.client.clone(), "n");
        // The pod may not exist, and a fault may refuse the request.
        let _ = pods
            .delete(
                &format!("p{pod}"),
                &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() },
            )
            .await;
    }

    /// Asserts that the stores and the handler hold the objects of the server in their current
    /// versions.
    fn check(&self) {
        let keys = |plural: &str| -> BTreeMap<ObjectKey, String> {
            let objects = self.server.list(plural).into_iter();
            let of = |object: serde_json::Value| {
                let text = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
                (ObjectKey::new(text("namespace"), text("name")), text("resourceVersion"))
            };
            objects.map(of).collect()
        };
        let (pods, services) = (keys("pods"), keys("services"));
        assert_eq!(self.cluster.count(Kind::Pods), pods.len());
        for (key, version) in &pods {
            assert_eq!(self.cluster.pod(key).unwrap().resource_version.to_string(), *version, "{key}");
        }
        assert_eq!(self.cluster.services(), services.keys().cloned().collect::<Vec<_>>());
        for (key, version) in &services {
            assert_eq!(self.cluster.service(key).unwrap().resource_version.to_string(), *version, "{key}");
        }
        assert!(self.replica.pods.lock().keys().eq(pods.keys()));
        let replica = self.replica.services.lock();
        assert!(replica.values().all(|held| **held == *self.cluster.service(&held.key).unwrap()));
        assert_eq!(replica.len(), services.len());
    }
}

#[derive(Clone, Debug)]
enum Step {
    Pod(u8, u8),
    Delete(u8),
    Service(u8, u8),
    Wait(u16),
    Compact,
    CloseWatches,
    Fault(Fault, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let fault = prop_oneof![
        (0..3usize).prop_map(|after| Fault::CutWatch { after }),
        (0..3usize).prop_map(|after| Fault::BreakWatch { after }),
        Just(Fault::Refuse { status: 429, retry_after: Some(3) }),
        Just(Fault::Refuse { status: 500, retry_after: None }),
        Just(Fault::LoseRequest),
        Just(Fault::ExpireWatch),
        Just(Fault::StallWatch(Duration::from_secs(20))),
        Just(Fault::Delay(Duration::from_secs(2))),
    ];
    prop_oneof![
        8 => (0..20u8, 0..3u8).prop_map(|(name, app)| Step::Pod(name, app)),
        4 => (0..20u8).prop_map(Step::Delete),
        2 => (0..4u8, 0..3u8).prop_map(|(name, app)| Step::Service(name, app)),
        4 => (0..5000u16).prop_map(Step::Wait),
        1 => Just(Step::Compact),
        1 => Just(Step::CloseWatches),
        2 => (fault, 1..4usize).prop_map(|(fault, times)| Step::Fault(fault, times)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn the_stores_end_up_equal_to_the_server(steps in prop::collection::vec(step(), 1..60), streaming_list: bool, history in 3..30usize, json: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let options = ReflectorOptions::new(0).streaming_list(streaming_list).page_size(3);
            let content_type = if json { ContentType::Json } else { ContentType::Protobuf };
            let reflectors = Reflectors::with(options, history, content_type);
            for step in steps {
                match step {
                    Step::Pod(name, app) => reflectors.put_pod(name, app),
                    Step::Delete(name) => reflectors.delete(name).await,
                    Step::Service(name, app) => reflectors.put_service(name, app),
                    Step::Wait(millis) => tokio::time::sleep(Duration::from_millis(millis.into())).await,
                    Step::Compact => reflectors.server.compact(),
                    Step::CloseWatches => reflectors.server.close_watches(),
                    Step::Fault(fault, times) => {
                        // Faults spare deletions, since nobody retries them.
                        let rule = FaultRule::new(fault, |request| request.verb == "list" || request.verb == "watch");
                        reflectors.server.add_fault(rule.times(times));
                    }
                }
            }
            tokio::time::sleep(Duration::from_secs(300)).await;
            assert!(reflectors.cluster.has_synced());
            reflectors.check();
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_restore_of_an_older_state_is_noticed() {
    for streaming_list in [true, false] {
        let reflectors = Reflectors::new(ReflectorOptions::new(0).streaming_list(streaming_list), 10_000);
        reflectors.put_pod(1, 1);
        reflectors.put_service(1, 1);
        let backup = reflectors.server.checkpoint();
        for pod in 2..9 {
            reflectors.put_pod(pod, 1);
        }
        reflectors.put_service(2, 1);
        reflectors.delete(1).await;
        reflectors.cluster.synced().await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        reflectors.check();
        let before = reflectors.cluster.count(Kind::Pods);
        reflectors.server.restore(&backup);
        let restored = Instant::now();
        let why = reflectors.cluster.storage_went_back().await.to_string();
        assert!(restored.elapsed() < Duration::from_secs(10), "{:?}", restored.elapsed());
        assert!(why.starts_with("the API server's version of "), "{why}");
        assert_eq!(reflectors.cluster.count(Kind::Pods), before, "nothing is read of another history");
    }
}

/// While evidence is deferred, the reflector lists the kind whose versions went back.
#[tokio::test(start_paused = true)]
async fn a_restore_while_evidence_is_deferred_is_evidence_later() {
    let reflectors = Reflectors::new(ReflectorOptions::new(0), 10_000);
    let deferred = Instant::now() + Duration::from_secs(600);
    reflectors.cluster.defer_evidence_until(deferred);
    reflectors.put_pod(1, 1);
    reflectors.cluster.synced().await;
    let backup = reflectors.server.checkpoint();
    reflectors.put_pod(2, 1);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(reflectors.cluster.count(Kind::Pods), 2);
    reflectors.server.restore(&backup);
    tokio::time::sleep(Duration::from_secs(30)).await;
    reflectors.check();
    reflectors.put_pod(3, 1);
    tokio::time::sleep(Duration::from_secs(10)).await;
    reflectors.check();
    reflectors.cluster.storage_went_back().await;
    assert_eq!(Instant::now(), deferred);
}

/// A server that answers some lists from an older state than others still has one history.
#[tokio::test(start_paused = true)]
async fn a_lower_version_that_is_not_confirmed_is_no_evidence() {
    for streaming_list in [true, false] {
        let reflectors = Reflectors::new(ReflectorOptions::new(0).streaming_list(streaming_list), 10_000);
        reflectors.put_pod(1, 1);
        reflectors.cluster.synced().await;
        let backup = reflectors.server.checkpoint();
        for pod in 2..5 {
            reflectors.put_pod(pod, 1);
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        let now = reflectors.server.checkpoint();
        reflectors.server.restore(&backup);
        // The first check comes at once, the second one a second later.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let checks = |server: &EmbeddedApiServer| {
            let log = server.request_log();
            log.iter().filter(|it| it.request.parameter("limit").as_deref() == Some("1")).count()
        };
        assert!(checks(&reflectors.server) >= 1, "a check has seen the lower version");
        reflectors.server.restore(&now);
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(reflectors.cluster.storage_went_back().now_or_never(), None);
        reflectors.check();
    }
}

/// The restored server has passed the position when the reflector asks for the second time.
#[tokio::test(start_paused = true)]
async fn a_restored_server_that_passes_the_position_between_two_checks_is_listed() {
    for streaming_list in [true, false] {
        let reflectors = Reflectors::new(ReflectorOptions::new(0).streaming_list(streaming_list), 10_000);
        reflectors.put_pod(1, 1);
        reflectors.put_service(1, 1);
        reflectors.cluster.synced().await;
        let backup = reflectors.server.checkpoint();
        for pod in 2..5 {
            reflectors.put_pod(pod, 1);
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        reflectors.server.restore(&backup);
        tokio::time::sleep(Duration::from_millis(500)).await;
        for pod in 12..30 {
            reflectors.put_pod(pod, 1);
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(
            reflectors.cluster.storage_went_back().now_or_never().is_some(),
            "the list contradicts the store"
        );
        reflectors.check();
    }
}

/// The restored server has passed all positions, so versions show nothing. The reflector lists
/// Services because writers suspect their store, and the list contradicts it.
#[tokio::test(start_paused = true)]
async fn a_list_that_contradicts_its_store_is_evidence() {
    for streaming_list in [true, false] {
        let reflectors = Reflectors::new(ReflectorOptions::new(0).streaming_list(streaming_list), 10_000);
        reflectors.put_pod(1, 1);
        reflectors.put_service(1, 1);
        reflectors.cluster.synced().await;
        let backup = reflectors.server.checkpoint();
        reflectors.put_pod(1, 2);
        reflectors.put_service(1, 2);
        tokio::time::sleep(Duration::from_secs(10)).await;
        reflectors.server.restore(&backup);
        for service in 2..20 {
            reflectors.put_service(service, 1);
        }
        reflectors.put_pod(9, 1);
        let (server, cluster) = (reflectors.server.resource_version(), &reflectors.cluster);
        assert!(cluster.position(Kind::Services).0 < server && cluster.position(Kind::Pods).0 < server);
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(cluster.storage_went_back().now_or_never(), None, "the restore was not noticed");
        for _ in 0..2 {
            cluster.request_version_check(Kind::Services, "n");
            tokio::time::sleep(Duration::from_secs(15)).await;
        }
        let why = cluster.storage_went_back().now_or_never().unwrap().to_string();
        assert!(why.starts_with("a list of services contradicts"), "{why}");
    }
}

/// The watch of pods lags and misses a deletion. Writers suspect the store of Services, which lacks
/// nothing, or that of pods: then the reflectors list all kinds, and pods a second time.
#[tokio::test(start_paused = true)]
async fn a_suspected_store_that_shows_a_lost_object_has_all_kinds_listed() {
    for (suspected, relists) in [(Kind::Pods, [2, 1]), (Kind::Services, [0, 1])] {
        let reflectors = Reflectors::new(ReflectorOptions::new(0), 10_000);
        reflectors.put_pod(1, 1);
        reflectors.put_service(1, 1);
        reflectors.cluster.synced().await;
        let lag = Fault::StallWatch(Duration::from_secs(3600));
        reflectors.server.add_fault(FaultRule::on(lag, "watch", "pods").times(1));
        reflectors.server.close_watches();
        tokio::time::sleep(Duration::from_secs(5)).await;
        reflectors.delete(1).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(reflectors.cluster.count(Kind::Pods), 1, "the watch lags");
        let lists = |plural: &str| {
            let log = reflectors.server.request_log();
            let of_kind = log.iter().filter(|it| it.request.plural() == plural);
            of_kind.filter(|it| it.request.parameter("sendInitialEvents").is_some()).count()
        };
        let before = [lists("pods"), lists("services")];
        for _ in 0..2 {
            reflectors.cluster.request_version_check(suspected, "n");
            tokio::time::sleep(Duration::from_secs(15)).await;
        }
        let after = [lists("pods"), lists("services")];
        assert_eq!([after[0] - before[0], after[1] - before[1]], relists, "{suspected:?}");
        assert_eq!(reflectors.cluster.storage_went_back().now_or_never(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_relist_of_a_server_that_was_not_set_back_contradicts_nothing() {
    let reflectors = Reflectors::new(ReflectorOptions::new(0), 10);
    reflectors.cluster.synced().await;
    for round in 0..20 {
        for number in 0..30 {
            reflectors.put_pod(number, round);
            reflectors.put_service(number, round);
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        reflectors.server.compact();
        reflectors.server.close_watches();
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    reflectors.check();
    assert_eq!(reflectors.cluster.storage_went_back().now_or_never(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_threads_apply_events_of_different_kinds() {
    let reflectors = Reflectors::new(ReflectorOptions::new(0), 10_000);
    for number in 0..200 {
        reflectors.put_pod(number, number % 3);
        reflectors.put_service(number % 20, number % 2);
        tokio::task::yield_now().await;
    }
    // The cluster calls handlers last: once they know the newest version of both kinds, it has
    // applied all events.
    let settled = || {
        let knows = |plural: &str, versions: Vec<u64>| {
            let newest = reflectors.server.list(plural).into_iter();
            let newest =
                newest.map(|object| object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap());
            versions.into_iter().max() == newest.max()
        };
        let pods = reflectors.replica.pods.lock().values().map(|pod| pod.resource_version.0).collect();
        let services =
            reflectors.replica.services.lock().values().map(|service| service.resource_version.0).collect();
        knows("pods", pods) && knows("services", services)
    };
    reflectors.cluster.synced().await;
    let settling = async {
        while !settled() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), settling).await.unwrap();
    reflectors.check();
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_listed_in_pages_where_the_watch_cache_is_behind_for_an_hour() {
    let server = EmbeddedApiServer::builder().build().unwrap();
    let behind = server.replica(1);
    behind.add_lag(Lag { plural: None, time: Duration::from_secs(3600), bunched: false });
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}});
    server.load([pod]).unwrap();
    let cluster = Cluster::new([Kind::Pods]);
    let client = ApiClient::for_tests(behind.service());
    let options = ReflectorOptions::new(1);
    tokio::spawn(run::<Pod>(client, cluster.clone(), options, std::future::pending()));
    // The server refuses the streaming list after three seconds.
    tokio::time::timeout(Duration::from_secs(5), cluster.synced()).await.unwrap();
    assert!(cluster.pod(&ObjectKey::new("default", "p")).is_some());
    let requests = server.request_log();
    let asked: Vec<_> = requests.iter().map(|it| (it.request.verb, it.request.parameter("limit"))).collect();
    assert_eq!(asked, [("watch", None), ("list", Some("500".to_owned())), ("watch", None)]);
}

/// The watch shows nothing for an hour, or the server refuses it.
#[tokio::test(start_paused = true)]
async fn a_relist_shows_what_was_written_before_it_whatever_the_watch_does() {
    for (fault, longest) in [
        (Fault::StallWatch(Duration::from_secs(3600)), 1),
        // The request cuts the backoff short.
        (Fault::Refuse { status: 500, retry_after: None }, 1),
        (Fault::Refuse { status: 500, retry_after: Some(20) }, 26),
    ] {
        let reflectors = Reflectors::new(ReflectorOptions::new(0).streaming_list(false), 100);
        reflectors.put_pod(1, 1);
        reflectors.cluster.synced().await;
        reflectors.server.add_fault(FaultRule::on(fault, "watch", "pods"));
        reflectors.server.close_watches();
        tokio::time::sleep(Duration::from_secs(300)).await;
        reflectors.put_pod(2, 1);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(reflectors.cluster.count(Kind::Pods), 1, "the watch does not show it");
        reflectors.server.clear_request_log();
        let asked = Instant::now();
        let relist = reflectors.cluster.relist(Kind::Pods, asked);
        tokio::time::timeout(Duration::from_secs(longest), relist).await.unwrap();
        reflectors.check();
        assert_eq!(reflectors.cluster.storage_went_back().now_or_never(), None);
        tokio::time::sleep(Duration::from_secs(300)).await;
        let log = reflectors.server.request_log();
        let lists = log.iter().filter(|it| it.request.verb == "list" && it.request.plural() == "pods");
        let lists = lists.filter(|it| it.request.parameter("limit").as_deref() == Some("500"));
        assert_eq!(lists.count(), 1, "one list answers the request");
        let again = reflectors.cluster.relist(Kind::Pods, asked).now_or_never();
        assert_eq!(again, Some(()), "that list began late enough");
    }
}
