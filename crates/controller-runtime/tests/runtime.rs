//! The runtime with a controller that does as the test says, on stores that the test fills, in paused time.

#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_api_writer::{ApiWriter, Clock, EventRecorder, RequestLimiter};
use kube_endpoint_controller_runtime::{
    Completion, Config, Controller, ForeignWrite, Outcome, Reconciler, Runtime, StateCounts, SyncError,
};
use kube_endpoint_core_model::{EndpointSlice, ObjectKey, ObjectMeta, ResourceVersion, Service, Writes};
use kube_endpoint_embedded_apiserver::{Cause, Details, EmbeddedApiServer, Fault, FaultRule, Status};
use kube_endpoint_informer::{Change, Cluster, Kind, Kinds, StreamEvent};
use kube_endpoint_workqueue::default_controller_rate_limiter;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// What the test sees of the controller, and what it tells it.
#[derive(Clone, Default)]
struct Script {
    /// When syncs began, in seconds since the start, and how they ended.
    syncs: Arc<Mutex<Vec<(u64, String)>>>,
    panic: Arc<Mutex<bool>>,
}

/// Creates one slice for each Service.
struct Fake {
    script: Script,
    start: Instant,
}

impl Reconciler for Fake {
    type Output = EndpointSlice;
    type State = usize;
    type Options = Script;

    fn new(script: Script) -> Self {
        Self { script, start: Instant::now() }
    }

    fn config(&self) -> Config {
        Config::new("fake", default_controller_rate_limiter(), 1)
    }

    fn manages(&self, _: &EndpointSlice) -> bool {
        true
    }

    fn on_service(&self, runtime: &Runtime<Self>, change: &Change<Service>) {
        runtime.queue().add(change.latest().unwrap().key.clone());
    }

    fn on_foreign_write(&self, runtime: &Runtime<Self>, key: &ObjectKey, _: ForeignWrite) {
        runtime.queue().add(key.clone());
    }

    async fn sync(&self, runtime: &Runtime<Self>, key: &ObjectKey) -> Result<Outcome, SyncError> {
        assert!(!*self.script.panic.lock().unwrap(), "the sync panics as it was told to");
        let began = self.start.elapsed().as_secs();
        let report = |how: String| self.script.syncs.lock().unwrap().push((began, how));
        let Some(service) = runtime.cluster().service(key) else {
            report(format!("forgot {}", runtime.forget(key)));
            return Ok(Outcome::Done);
        };
        let existing = match runtime.read_outputs(key) {
            Ok(slices) => slices,
            Err(outcome) => {
                report(format!("{outcome:?}"));
                return Ok(outcome);
            }
        };
        runtime.with_state(key, |state| *state += 1);
        let trigger_time = runtime.trigger_time(&service, &[]);
        let create = if existing.is_empty() { vec![slice(&service)] } else { Vec::new() };
        let writes = Writes { create, ..Writes::default() };
        let written = runtime.carry_out(key, trigger_time, [writes], |_| ()).await;
        report(match &written {
            Ok(Completion::Complete) => format!("{} slices found", existing.len()),
            Ok(completion) => format!("{completion:?}"),
            Err(_) => "failed".to_owned(),
        });
        written?;
        Ok(Outcome::Done)
    }
}

fn slice(service: &Service) -> EndpointSlice {
    let metadata = ObjectMeta {
        namespace: service.key.namespace.clone(),
        generate_name: "web-".into(),
        labels: [("kubernetes.io/service-name", &*service.key.name)].into_iter().collect(),
        ..ObjectMeta::default()
    };
    EndpointSlice { metadata, ..EndpointSlice::default() }
}

struct TestBed {
    server: EmbeddedApiServer,
    cluster: Cluster,
    controller: Controller<Fake>,
    script: Script,
    running: JoinHandle<()>,
}

impl TestBed {
    /// A controller whose stores are not filled yet.
    fn new() -> Self {
        let server =
            EmbeddedApiServer::builder().start_time("2026-01-01T00:00:00Z".parse().unwrap()).build().unwrap();
        let cluster = Cluster::new([Kind::Services, Kind::EndpointSlices].into_iter().collect::<Kinds>());
        let client = ApiClient::for_tests(server.service());
        let writer = ApiWriter::new(client, RequestLimiter::unlimited(), "fake");
        let clock = Clock::starting_at(server.now());
        let (events, _) = EventRecorder::new("fake", writer.clone(), clock, 1);
        let script = Script::default();
        let controller = Controller::new(cluster.clone(), writer, events, clock, script.clone(), 1);
        let running = tokio::spawn(controller.clone().run());
        Self { server, cluster, controller, script, running }
    }

    fn fill(&self) {
        let service = Service { key: key(), ..Service::default() };
        self.cluster.apply(StreamEvent::restarted(vec![service], ResourceVersion(1)));
        self.show_slices();
    }

    /// Brings the cache of slices up to date with the server.
    fn show_slices(&self) {
        let slices = self.server.list("endpointslices");
        let versions =
            slices.iter().map(|it| it["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap());
        let version = ResourceVersion(versions.max().unwrap_or(1));
        let slices = slices.into_iter().map(|it| serde_json::from_value(it).unwrap()).collect();
        self.cluster.apply(StreamEvent::<EndpointSlice>::restarted(slices, version));
    }

    fn touch_service(&self, version: u64) {
        let resource_version = ResourceVersion(version);
        self.cluster.apply(StreamEvent::Applied(Service {
            key: key(),
            resource_version,
            ..Service::default()
        }));
    }

    /// A fault that meets so many creates.
    fn fault_on_create(&self, fault: Fault, times: usize) {
        self.server.add_fault(FaultRule::on(fault, "create", "endpointslices").times(times));
    }

    async fn pass(&self, seconds: u64) {
        // A little more, so that what happens at that second has happened.
        tokio::time::sleep(Duration::from_secs(seconds) + Duration::from_millis(20)).await;
    }

    /// The syncs since the last call.
    fn syncs(&self) -> Vec<(u64, String)> {
        std::mem::take(&mut self.script.syncs.lock().unwrap())
    }
}

fn key() -> ObjectKey {
    ObjectKey::new("default", "web")
}

fn at(second: u64, how: &str) -> (u64, String) {
    (second, how.to_owned())
}

#[tokio::test(start_paused = true)]
async fn nothing_is_synced_before_the_stores_are_filled() {
    let bed = TestBed::new();
    bed.cluster.apply(StreamEvent::restarted(
        vec![Service { key: key(), ..Service::default() }],
        ResourceVersion(1),
    ));
    bed.pass(10).await;
    assert_eq!(bed.syncs(), []);
    bed.show_slices();
    bed.pass(0).await;
    assert_eq!(bed.syncs(), [at(10, "0 slices found")]);
}

#[tokio::test(start_paused = true)]
async fn a_deferred_sync_is_resumed_by_the_cache_once() {
    let bed = TestBed::new();
    bed.fill();
    bed.pass(0).await;
    bed.touch_service(2);
    bed.pass(2).await;
    let stale: Vec<_> = [0, 1, 2].map(|second| at(second, "Stale")).into();
    assert_eq!(bed.syncs(), [vec![at(0, "0 slices found")], stale].concat());
    assert_eq!(bed.controller.state_counts().deferred, 1);
    bed.show_slices();
    bed.pass(10).await;
    assert_eq!(
        bed.syncs(),
        [at(2, "1 slices found"), at(3, "1 slices found")],
        "the cache, and the delay that ran"
    );
    assert_eq!(bed.server.count("endpointslices"), 1);
    assert_eq!(bed.controller.state_counts().deferred, 0);
    assert_eq!(bed.controller.state_counts().outstanding_writes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_every_sync_and_is_five_minutes_at_most() {
    for (asked, kept) in [(7, 7), (86_400, 300)] {
        let bed = TestBed::new();
        bed.fault_on_create(Fault::Refuse { status: 429, retry_after: Some(asked) }, 1);
        bed.fill();
        bed.pass(1).await;
        bed.touch_service(2);
        bed.pass(400).await;
        assert_eq!(bed.syncs(), [at(0, "failed"), at(1, "Paused"), at(kept, "0 slices found")]);
        assert_eq!(bed.controller.state_counts().deferred, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_service_is_forgotten_even_while_it_is_paused() {
    let bed = TestBed::new();
    bed.fault_on_create(Fault::Refuse { status: 429, retry_after: Some(60) }, 1);
    bed.fill();
    bed.pass(1).await;
    let counts = bed.controller.state_counts();
    assert_eq!(counts, StateCounts { trigger_times: 1, deferred: 1, own: 1, ..StateCounts::default() });
    bed.cluster.apply(StreamEvent::<Service>::restarted(Vec::new(), ResourceVersion(2)));
    bed.pass(0).await;
    assert_eq!(bed.syncs(), [at(0, "failed"), at(1, "forgot 1")]);
    assert_eq!(bed.controller.state_counts(), StateCounts::default());
}

#[tokio::test(start_paused = true)]
async fn a_create_in_a_terminating_namespace_is_dropped() {
    let bed = TestBed::new();
    let cause = Cause { reason: "NamespaceTerminating".into(), message: String::new(), field: String::new() };
    let details = Details { causes: vec![cause], ..Details::default() };
    let refusal = Status { details: Some(Box::new(details)), ..Status::new(403, "Forbidden", "terminating") };
    bed.fault_on_create(Fault::RefuseWith(refusal), 1);
    bed.fill();
    bed.pass(60).await;
    assert_eq!(bed.syncs(), [at(0, "NamespaceTerminating")]);
    assert_eq!(bed.controller.pending(), 0);
}

fn not_found() -> Fault {
    Fault::Refuse { status: 404, retry_after: None }
}

#[tokio::test(start_paused = true)]
async fn a_create_answered_with_404_is_tried_again_until_the_cache_shows_that_the_service_is_gone() {
    let bed = TestBed::new();
    bed.fault_on_create(not_found(), usize::MAX);
    bed.fill();
    bed.pass(10).await;
    let syncs = bed.syncs();
    assert!((5..15).contains(&syncs.len()), "with backoff: {syncs:?}");
    assert!(syncs.iter().all(|(_, how)| how == "failed"));
    assert_eq!(bed.controller.pending(), 1);
    bed.cluster.apply(StreamEvent::<Service>::restarted(Vec::new(), ResourceVersion(2)));
    bed.pass(60).await;
    assert!(bed.syncs().iter().all(|(_, how)| how.starts_with("forgot")));
    assert_eq!(bed.controller.pending(), 0);
    assert_eq!(bed.controller.state_counts(), StateCounts::default());
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_was_lost_is_not_repeated_under_another_name() {
    let bed = TestBed::new();
    bed.fault_on_create(Fault::ApplyAndLoseAnswer, 1);
    bed.fill();
    bed.pass(2).await;
    bed.show_slices();
    bed.pass(5).await;
    let syncs = bed.syncs();
    assert_eq!(syncs[..2], [at(0, "failed"), at(0, "failed")], "lost, then refused because it exists");
    assert_eq!(syncs.last().unwrap().1, "1 slices found");
    assert_eq!(bed.server.count("endpointslices"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_finishes_the_write_in_flight_and_leaves_what_is_queued() {
    let bed = TestBed::new();
    bed.fault_on_create(Fault::Delay(Duration::from_secs(3)), 1);
    bed.fill();
    bed.pass(1).await;
    bed.touch_service(2);
    bed.controller.shut_down();
    let start = Instant::now();
    bed.running.await.unwrap();
    assert!((1900..2000).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    assert_eq!(bed.server.count("endpointslices"), 1);
    assert_eq!(bed.controller.pending(), 0);
    let waiting = TestBed::new();
    waiting.pass(1).await;
    waiting.controller.shut_down();
    waiting.running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_sync_ends_the_controller() {
    let bed = TestBed::new();
    *bed.script.panic.lock().unwrap() = true;
    bed.fill();
    assert!(bed.running.await.unwrap_err().is_panic());
}
