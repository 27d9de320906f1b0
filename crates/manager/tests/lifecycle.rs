//! The life of a manager under a paused clock: its watches, the start of its controllers, their
//! rate limits, and its shutdown.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_controllers::ApiClient;
use kube_endpoint_controllers::{ControllerName, Manager, ManagerError, Settings};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, LoggedRequest};
use kube_endpoint_informer::{Cluster, Handler};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns a Service that selects no pods. The endpoints and endpointslice controllers each make an
/// object without endpoints from it.
fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]}})
}

async fn server_with(services: usize) -> EmbeddedApiServer {
    let server = EmbeddedApiServer::builder().seed(1).build().unwrap();
    for number in 0..services {
        server.create(service(&format!("s{number}"))).await.unwrap();
    }
    server
}

struct Running {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<(), ManagerError>>,
}

impl Running {
    fn start(server: &EmbeddedApiServer, settings: &Settings) -> Self {
        let client = ApiClient::for_tests(server.service());
        let manager = Manager::new(client, settings, server.now(), 1).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(manager.run(async move {
            let _ = stopped.await;
        }));
        Self { stop, ended }
    }

    /// Stops the manager and returns how long that took.
    async fn stop(self) -> Duration {
        let start = Instant::now();
        self.stop.send(()).unwrap();
        self.ended.await.unwrap().unwrap();
        start.elapsed()
    }
}

/// Returns the write requests of the manager, in order.
fn writes(server: &EmbeddedApiServer) -> Vec<LoggedRequest> {
    let written_by_us =
        |entry: &LoggedRequest| entry.request.is_write() && entry.request.user_agent.contains("manager");
    server.request_log().into_iter().filter(written_by_us).collect()
}

#[tokio::test(start_paused = true)]
async fn each_needed_kind_is_watched_once() {
    use ControllerName::{EndpointSelector, EndpointSlice, EndpointSliceMirroring, Endpoints};
    let watched_by = async |controllers: &[ControllerName]| {
        let server = server_with(1).await;
        let mut settings = Settings::default();
        settings.controllers = controllers.to_vec();
        let running = Running::start(&server, &settings);
        sleep(seconds(30)).await;
        running.stop().await;
        let log = server.request_log();
        let watches = log.iter().filter(|entry| entry.request.verb == "watch");
        let mut kinds: Vec<&str> = watches.map(|entry| entry.request.plural()).collect();
        kinds.sort_unstable();
        kinds.join(" ")
    };
    assert_eq!(watched_by(&[]).await, "");
    assert_eq!(watched_by(&[Endpoints]).await, "endpoints pods services");
    assert_eq!(watched_by(&[EndpointSlice]).await, "endpointslices nodes pods services");
    assert_eq!(watched_by(&[EndpointSliceMirroring]).await, "endpoints endpointslices services");
    let all = &[Endpoints, EndpointSlice, EndpointSliceMirroring];
    assert_eq!(watched_by(all).await, "endpoints endpointslices nodes pods services");
    let of_selectors = "endpointselectors endpointslices nodes pods services";
    assert_eq!(watched_by(&[EndpointSelector]).await, of_selectors);
}

#[tokio::test(start_paused = true)]
async fn without_watch_list_client_informers_list_in_pages() {
    for watch_list_client in [true, false] {
        let server = server_with(1).await;
        let mut settings = Settings::default();
        settings.watch_list_client = watch_list_client;
        let running = Running::start(&server, &settings);
        sleep(seconds(30)).await;
        running.stop().await;
        let lists = server.request_log().iter().filter(|entry| entry.request.verb == "list").count();
        assert_eq!(lists, if watch_list_client { 0 } else { 5 }, "{watch_list_client}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_controller_writes_before_the_kinds_that_it_reads_have_synced() {
    let server = server_with(3).await;
    server.add_fault(FaultRule::on(Fault::StallWatch(seconds(20)), "watch", "nodes").times(1));
    let running = Running::start(&server, &Settings::default());
    sleep(seconds(19)).await;
    let early = writes(&server);
    assert_eq!(early.len(), 3, "the endpoints controller reads no nodes");
    assert!(early.iter().all(|write| write.request.plural() == "endpoints"));
    sleep(seconds(60)).await;
    assert_eq!(writes(&server).len(), 6, "Endpoints and a slice for each Service");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_controller_has_its_own_rate_limit_and_user_agent() {
    let server = server_with(10).await;
    let mut settings = Settings::default();
    (settings.qps, settings.burst) = (2.0, 1);
    let running = Running::start(&server, &settings);
    sleep(seconds(60)).await;
    running.stop().await;
    let writes = writes(&server);
    let agents: BTreeSet<&str> = writes.iter().map(|entry| &*entry.request.user_agent).collect();
    assert_eq!(agents.len(), 2, "{agents:?}");
    for agent in agents {
        let times: Vec<Duration> =
            writes.iter().filter(|entry| entry.request.user_agent == agent).map(|entry| entry.at).collect();
        assert_eq!(times.len(), 10, "{agent}");
        for pair in times.windows(2) {
            // Timers have a resolution of one millisecond.
            assert!(pair[1] - pair[0] >= Duration::from_millis(499), "{agent}: {times:?}");
        }
        assert!(times[9] - times[0] < seconds(6), "{agent}: {times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_manager_stops_immediately() {
    let server = server_with(1).await;
    let running = Running::start(&server, &Settings::default());
    sleep(seconds(30)).await;
    assert!(running.stop().await < seconds(1));
}

/// A handler that holds the stores, as the controllers do.
struct Holder(#[expect(dead_code, reason = "it only keeps the stores in memory")] Cluster);

impl Handler for Holder {}

#[tokio::test(start_paused = true)]
async fn a_manager_that_is_dropped_leaves_nothing_in_memory() {
    let server = server_with(1).await;
    let manager = || {
        let client = ApiClient::for_tests(server.service());
        let manager = Manager::new(client, &Settings::default(), server.now(), 1).unwrap();
        let (sent, made) = std::sync::mpsc::channel();
        manager.add_handler(move |cluster| {
            let holder = Arc::new(Holder(cluster.clone()));
            sent.send(Arc::downgrade(&holder)).unwrap();
            holder
        });
        (manager, made.recv().unwrap())
    };
    let (unused, holder) = manager();
    assert!(holder.upgrade().is_some());
    drop(unused);
    assert!(holder.upgrade().is_none(), "a manager that never ran");

    let (running, holder) = manager();
    let handle = running.handle();
    let running = tokio::spawn(running.run(std::future::pending()));
    sleep(seconds(30)).await;
    assert!(handle.has_synced() && holder.upgrade().is_some());
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    // Its own tasks end at their next turn.
    sleep(seconds(1)).await;
    assert!(holder.upgrade().is_none(), "a manager whose future was dropped");
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_a_write_in_progress() {
    let server = server_with(1).await;
    server.add_fault(FaultRule::on(Fault::Delay(seconds(5)), "create", "endpointslices").times(1));
    let running = Running::start(&server, &Settings::default());
    sleep(seconds(2)).await;
    assert_eq!(server.list("endpointslices").len(), 0);
    let took = running.stop().await;
    assert!(took > seconds(2) && took < seconds(5), "{took:?}");
    assert_eq!(server.list("endpointslices").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn shutdown_times_out_on_a_write_that_is_never_answered() {
    let server = server_with(1).await;
    server.add_fault(FaultRule::on(Fault::Delay(seconds(3600)), "create", "endpointslices"));
    let running = Running::start(&server, &Settings::default());
    sleep(seconds(2)).await;
    assert!(running.stop().await <= seconds(11));
}

#[tokio::test(start_paused = true)]
async fn shutdown_sends_queued_events() {
    let server = server_with(1).await;
    server.add_fault(
        FaultRule::on(Fault::Refuse { status: 500, retry_after: None }, "create", "endpointslices").times(1),
    );
    server.add_fault(FaultRule::on(Fault::Delay(seconds(3)), "create", "events"));
    let running = Running::start(&server, &Settings::default());
    sleep(seconds(1)).await;
    running.stop().await;
    let events = server.list("events");
    let reasons: Vec<&str> = events.iter().filter_map(|event| event["reason"].as_str()).collect();
    assert_eq!(reasons, ["FailedToUpdateEndpointSlices"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_all_requests_is_retried_until_it_recovers() {
    let server = server_with(2).await;
    let fault = server.add_fault(FaultRule::new(Fault::Refuse { status: 503, retry_after: None }, |_| true));
    let running = Running::start(&server, &Settings::default());
    sleep(seconds(120)).await;
    assert!(!running.ended.is_finished());
    server.remove_fault(fault);
    sleep(seconds(120)).await;
    assert_eq!(server.list("endpointslices").len(), 2);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_manager_fails_when_a_controller_ends_unexpectedly() {
    let server = server_with(1).await;
    let client = ApiClient::for_tests(server.service());
    let manager = Manager::new(client, &Settings::default(), server.now(), 1).unwrap();
    let controllers = manager.controllers().clone();
    let ended = tokio::spawn(manager.run(std::future::pending()));
    sleep(seconds(5)).await;
    assert!(!ended.is_finished());
    controllers.mirroring.unwrap().shut_down();
    assert!(
        matches!(ended.await.unwrap(), Err(ManagerError::TaskEnded { name }) if name == "endpointslice mirroring controller")
    );
}
