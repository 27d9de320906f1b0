//! A controller that follows a script, on stores that the test fills.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_api_writer::{ApiWriter, Clock, EventRecorder, RequestLimiter};
use kube_endpoint_controller_runtime::{
    Cause, Completion, Config, Controller, ControllerContext, ForeignWrite, Outcome, Reconciler, Runtime,
    RuntimeOptions, SyncError,
};
use kube_endpoint_core_model::{
    EndpointSlice, ObjectKey, ObjectMeta, PlannedEvent, ResourceVersion, Service, Writes,
};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule};
use kube_endpoint_informer::{Change, Cluster, Kind, Kinds, PodEvent, StreamEvent};
use kube_endpoint_tracker::{Verb, WriteTracker};
use kube_endpoint_workqueue::default_controller_rate_limiter;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The test's instructions to the controller, and its record of the syncs.
#[derive(Clone, Default)]
pub(crate) struct Script {
    /// The syncs: when they began, in seconds since the start, and how they ended.
    pub(crate) syncs: Arc<Mutex<Vec<(u64, String)>>>,
    pub(crate) panic: Arc<Mutex<bool>>,
    pub(crate) options: RuntimeOptions,
    /// The number of calls of [`Reconciler::on_pod`].
    pub(crate) pods: Arc<AtomicUsize>,
    /// True if each sync updates the slice that it finds.
    pub(crate) updates: Arc<Mutex<bool>>,
    /// The delay of the sync after a change of a Service.
    pub(crate) delay: Arc<Mutex<Duration>>,
    defers: Arc<Mutex<bool>>,
    deferred: Arc<Mutex<bool>>,
}

/// Creates one slice for each Service.
pub(crate) struct Fake {
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

    fn kinds() -> Kinds {
        [Kind::Services, Kind::EndpointSlices].into()
    }

    fn config(&self) -> Config {
        Config::new("fake", default_controller_rate_limiter(), 1, self.script.options.clone())
    }

    fn manages(&self, _: &EndpointSlice) -> bool {
        true
    }

    fn on_pod(&self, _: &Runtime<Self>, _: &PodEvent) {
        self.script.pods.fetch_add(1, Ordering::Relaxed);
    }

    fn on_service(&self, runtime: &Runtime<Self>, change: &Change<Service>) {
        let delay = *self.script.delay.lock().unwrap();
        let reason = Cause::Service.since(change.arrived);
        runtime.add_after(change.latest().unwrap().key.clone(), delay, reason);
    }

    fn foreign_write_delay(&self, _: &Runtime<Self>, _: ForeignWrite) -> Option<Duration> {
        Some(Duration::ZERO)
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
        if *self.script.defers.lock().unwrap() {
            let mut deferred = self.script.deferred.lock().unwrap();
            *deferred = !*deferred;
            if *deferred {
                report("put off".to_owned());
                return Ok(runtime.requeue_when_cache_changes(key));
            }
        }
        runtime.with_state(key, |state| *state += 1);
        let trigger_time = runtime.trigger_time(&service, &[], None);
        let create = if existing.is_empty() { vec![slice(&service)] } else { Vec::new() };
        let update = if *self.script.updates.lock().unwrap() { &*existing } else { &[] };
        let update = update.iter().map(|slice| EndpointSlice::clone(slice)).collect();
        let writes = Writes { create, update, ..Writes::default() };
        let written = runtime.carry_out(key, trigger_time, [writes], |_| ()).await;
        report(match &written {
            Ok(Completion::Complete) => format!("{} slices found", existing.len()),
            Ok(completion) => format!("{completion:?}"),
            Err(_) => "failed".to_owned(),
        });
        let Err(failed) = written else { return Ok(Outcome::Done) };
        let event = PlannedEvent::warning("Failed", failed[0].error.to_string());
        Err(SyncError::from(failed).with_event(Some(((&*service).into(), event))))
    }
}

pub(crate) fn slice(service: &Service) -> EndpointSlice {
    let metadata = ObjectMeta {
        namespace: service.key.namespace.clone(),
        // Each Service has a prefix of its own, so that ten thousand names do not collide.
        generate_name: format!("{}-", service.key.name).into(),
        labels: [("kubernetes.io/service-name", &*service.key.name)].into_iter().collect(),
        ..ObjectMeta::default()
    };
    EndpointSlice { metadata, ..EndpointSlice::default() }
}

pub(crate) struct TestBed {
    pub(crate) server: EmbeddedApiServer,
    pub(crate) cluster: Cluster,
    pub(crate) controller: Controller<Fake>,
    pub(crate) script: Script,
    pub(crate) running: JoinHandle<()>,
    writer: ApiWriter,
}

impl TestBed {
    /// Creates a controller whose stores are not filled yet.
    pub(crate) fn new() -> Self {
        Self::with(RuntimeOptions::default())
    }

    pub(crate) fn with(options: RuntimeOptions) -> Self {
        let server =
            EmbeddedApiServer::builder().start_time("2026-01-01T00:00:00Z".parse().unwrap()).build().unwrap();
        let cluster = Cluster::new(Kind::ALL);
        let client = ApiClient::for_tests(server.service());
        let writer = ApiWriter::new(client, RequestLimiter::unlimited(), "fake");
        let clock = Clock::starting_at(server.now());
        let (events, sending) = EventRecorder::new("fake", writer.clone(), clock, 1);
        tokio::spawn(sending);
        let script = Script { options, ..Script::default() };
        let context =
            ControllerContext { cluster: cluster.clone(), writer: writer.clone(), events, clock, seed: 1 };
        let controller = Controller::new(context, script.clone());
        let running = tokio::spawn(controller.clone().run());
        Self { server, cluster, controller, script, running, writer }
    }

    pub(crate) fn fill(&self) {
        self.fill_with([key()]);
    }

    pub(crate) fn fill_with(&self, keys: impl IntoIterator<Item = ObjectKey>) {
        let services = keys.into_iter().map(|key| Service { key, ..Service::default() }).collect();
        self.cluster.apply(StreamEvent::restarted(services, ResourceVersion(1)));
        self.show_slices();
    }

    /// Brings the cache of slices up to date with the server.
    pub(crate) fn show_slices(&self) {
        let slices = self.server.list("endpointslices");
        let version = ResourceVersion(self.server.resource_version());
        let slices = slices.into_iter().map(|it| serde_json::from_value(it).unwrap()).collect();
        self.cluster.apply(StreamEvent::<EndpointSlice>::restarted(slices, version));
    }

    pub(crate) fn touch_service(&self, version: u64) {
        let resource_version = ResourceVersion(version);
        self.cluster.apply(StreamEvent::Applied(Service {
            key: key(),
            resource_version,
            ..Service::default()
        }));
    }

    /// Adds a fault to the next `times` creates.
    pub(crate) fn fault_on_create(&self, fault: Fault, times: usize) {
        self.server.add_fault(FaultRule::on(fault, "create", "endpointslices").times(times));
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        // The extra time lets everything happen that is due at that second.
        tokio::time::sleep(Duration::from_secs(seconds) + Duration::from_millis(20)).await;
    }

    pub(crate) async fn pass_exactly(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    pub(crate) fn add_service(&self, name: &str) {
        self.cluster.apply(StreamEvent::Applied(Service {
            key: ObjectKey::new("default", name),
            resource_version: ResourceVersion(2),
            ..Service::default()
        }));
    }

    /// Deletes all slices, as another client.
    pub(crate) async fn delete_slices(&self) {
        let tracker = WriteTracker::default();
        for slice in self.server.list("endpointslices") {
            let slice: EndpointSlice = serde_json::from_value(slice).unwrap();
            let (owner, object) = (key(), slice.key());
            let mut write = tracker.write(&owner, &object, Verb::Delete, ResourceVersion::default());
            self.writer.delete_seen::<EndpointSlice>(&slice.metadata, &mut write).await.unwrap();
        }
    }

    /// Changes all slices, as another client.
    pub(crate) async fn change_slices(&self) {
        let tracker = WriteTracker::default();
        for slice in self.server.list("endpointslices") {
            let mut slice: EndpointSlice = serde_json::from_value(slice).unwrap();
            slice.metadata.labels =
                [("kubernetes.io/service-name", "web"), ("changed", "yes")].into_iter().collect();
            let (owner, object) = (key(), slice.key());
            let verb = Verb::Update(slice.metadata.resource_version);
            let mut write = tracker.write(&owner, &object, verb, ResourceVersion::default());
            self.writer.update(&Arc::new(slice), &mut write).await.unwrap();
        }
    }

    /// Returns how many events the controller sent.
    pub(crate) fn recorded_events(&self) -> usize {
        let log = self.server.request_log();
        log.iter().filter(|it| it.request.plural() == "events").count()
    }

    /// Returns the syncs since the last call.
    pub(crate) fn syncs(&self) -> Vec<(u64, String)> {
        std::mem::take(&mut self.script.syncs.lock().unwrap())
    }
}

impl Drop for TestBed {
    /// Ends the controller. Else it would go on syncing while its test runs another one.
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Script {
    /// Makes every other sync wait for the cache.
    pub(crate) fn defer_every_other_sync(&self) {
        *self.defers.lock().unwrap() = true;
    }
}

pub(crate) fn key() -> ObjectKey {
    ObjectKey::new("default", "web")
}

pub(crate) fn at(second: u64, how: &str) -> (u64, String) {
    (second, how.to_owned())
}
