//! Runs a controller on the embedded API server, in this process and under tokio's paused clock.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube_endpoint_core_model::Timestamp;
use kube_endpoint_embedded_apiserver::{Builder, EmbeddedApiServer, RequestInfo};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use tokio::task::JoinSet;

use crate::{Cluster, MetricsPage, START_TIME};

mod changes;
mod objects;
mod requests;
mod service;

pub use changes::{numbered_pods, without_an_address};
pub use service::ControllerService;
use service::Lateness;

/// The user agent of a controller's requests. It distinguishes them from the test's own requests.
pub const USER_AGENT: &str = "controller-under-test";
/// A controller that sends no request for this long has settled.
const QUIET: Duration = Duration::from_secs(5);
/// The maximum time that [`Simulation::settle`] waits.
const LONGEST_SETTLING: Duration = Duration::from_secs(600);

/// A controller that runs against the embedded API server.
///
/// Start it under a paused clock (`#[tokio::test(start_paused = true)]`): waiting then takes no
/// real time, and every run is the same. `C` is the type that the starting closure returns.
/// Dropping a simulation ends its tasks.
pub struct Simulation<C = ()> {
    pub server: EmbeddedApiServer,
    /// The value that the starting closure returned.
    pub controller: C,
    environment: Environment,
}

/// The server, the clients and the clock that a test gives to its controller.
pub struct Environment {
    server: EmbeddedApiServer,
    metrics: PrometheusHandle,
    recorder: Arc<PrometheusRecorder>,
    lateness: Lateness,
    controllers: JoinSet<()>,
    helpers: JoinSet<()>,
    on_crash: Vec<Box<dyn FnOnce() + Send>>,
}

impl Cluster {
    /// Returns a server that holds the objects of this cluster; see [`server_builder`].
    ///
    /// # Panics
    ///
    /// If the server cannot read an object.
    #[track_caller]
    pub fn server(&self) -> EmbeddedApiServer {
        match server_builder().load(self.objects().iter().cloned()).build() {
            Ok(server) => server,
            Err(error) => panic!("the server cannot hold this cluster: {error}"),
        }
    }
}

/// Returns a server whose time starts at [`START_TIME`], with a fixed seed: it generates the same
/// names and uids in every run.
pub fn server_builder() -> Builder {
    match START_TIME.parse() {
        Ok(start) => EmbeddedApiServer::builder().seed(1).start_time(start),
        Err(error) => panic!("{START_TIME}: {error}"),
    }
}

impl Simulation {
    /// Starts a controller and waits until it has settled. The closure gets clients and a clock,
    /// and spawns its tasks on the environment. [`Simulation::metrics`] reads the metrics that it
    /// registers.
    pub async fn start<C>(
        server: &EmbeddedApiServer,
        start: impl FnOnce(&mut Environment) -> C,
    ) -> Simulation<C> {
        let simulation = Self::begin(server, [], start);
        simulation.settle().await;
        simulation
    }

    /// Starts a controller, which runs once the test awaits something. `buckets` are the upper
    /// bounds of histograms, by name of the metric; the page shows other distributions as
    /// summaries.
    ///
    /// # Panics
    ///
    /// If a histogram has no buckets.
    pub fn begin<C>(
        server: &EmbeddedApiServer,
        buckets: impl IntoIterator<Item = (&'static str, Vec<f64>)>,
        start: impl FnOnce(&mut Environment) -> C,
    ) -> Simulation<C> {
        let recorder = buckets
            .into_iter()
            .fold(PrometheusBuilder::new(), |builder, (name, bounds)| {
                match builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), &bounds) {
                    Ok(builder) => builder,
                    Err(error) => panic!("buckets of {name}: {error}"),
                }
            })
            .build_recorder();
        let recorder = Arc::new(recorder);
        let mut environment = Environment {
            server: server.clone(),
            metrics: recorder.handle(),
            recorder: Arc::clone(&recorder),
            lateness: Lateness::default(),
            controllers: JoinSet::new(),
            helpers: JoinSet::new(),
            on_crash: Vec::new(),
        };
        let controller = metrics::with_local_recorder(&*recorder, || start(&mut environment));
        Simulation { server: server.clone(), controller, environment }
    }
}

impl<C> Simulation<C> {
    /// Sleeps for `time` of tokio's clock.
    pub async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Sleeps for two milliseconds: everything that has no delay happens in that time.
    pub async fn moment(&self) {
        self.pass(Duration::from_millis(2)).await;
    }

    /// Waits until the controller has sent no request for five seconds, other than watches and
    /// requests for leases.
    ///
    /// # Panics
    ///
    /// If it still sends requests after ten minutes.
    pub async fn settle(&self) {
        let requests = || self.server.request_log().iter().filter(|it| counts(&it.request)).count();
        let mut waited = Duration::ZERO;
        loop {
            let before = requests();
            self.pass(QUIET).await;
            if requests() == before {
                return;
            }
            waited += QUIET;
            assert!(waited < LONGEST_SETTLING, "the controller still makes requests after {waited:?}");
        }
    }

    /// Waits until all tasks given to [`Environment::run`] have ended.
    ///
    /// # Panics
    ///
    /// If one of them panicked.
    pub async fn stopped(&mut self) {
        while let Some(ended) = self.environment.controllers.join_next().await {
            if let Err(error) = ended {
                panic!("a controller failed: {error}");
            }
        }
    }

    /// Aborts the controller's tasks, as a crash would. Returns the server, without its faults.
    pub async fn crash(mut self) -> EmbeddedApiServer {
        for end in std::mem::take(&mut self.environment.on_crash) {
            end();
        }
        self.environment.controllers.shutdown().await;
        self.environment.helpers.shutdown().await;
        self.server.clear_faults();
        self.server
    }

    /// Returns the metrics page with the metrics that the start closure registered.
    pub fn metrics(&self) -> MetricsPage {
        self.environment.metrics.run_upkeep();
        MetricsPage::new(self.environment.metrics.render())
    }

    /// Delays the responses to the controller's later writes by `by`. The server still carries the
    /// writes out at once.
    pub fn answer_late(&self, by: Duration) {
        self.environment.lateness.set(by);
    }
}

impl<C: fmt::Debug> fmt::Debug for Simulation<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").field("controller", &self.controller).finish_non_exhaustive()
    }
}

impl Environment {
    /// Returns the server as a tower service, to build a client on that is not kube's own.
    pub fn service(&self) -> ControllerService {
        ControllerService::new(&self.server, self.lateness.clone())
    }

    /// Returns a kube client of the server, in process. It never retries.
    pub fn client(&self) -> Client {
        Client::new(self.service(), "default")
    }

    /// Returns the server.
    pub fn server(&self) -> &EmbeddedApiServer {
        &self.server
    }

    /// Returns the server's time, which advances with tokio's clock.
    pub fn now(&self) -> Timestamp {
        self.server.now()
    }

    /// Runs the controller. [`Simulation::stopped`] waits for it.
    ///
    /// [`Simulation::metrics`] also shows the metrics that it registers while it runs.
    pub fn run(&mut self, controller: impl Future<Output = ()> + Send + 'static) {
        let recorder = Arc::clone(&self.recorder);
        let mut controller = Box::pin(controller);
        self.controllers.spawn(poll_fn(move |context| {
            metrics::with_local_recorder(&*recorder, || controller.as_mut().poll(context))
        }));
    }

    /// Spawns a task that the controller needs and that may outlive it, such as a watch.
    pub fn spawn(&mut self, helper: impl Future<Output = ()> + Send + 'static) {
        self.helpers.spawn(helper);
    }

    /// Calls `end` at a [crash](Simulation::crash), before the tasks are aborted.
    pub fn on_crash(&mut self, end: impl FnOnce() + Send + 'static) {
        self.on_crash.push(Box::new(end));
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").field("server", &self.server).finish_non_exhaustive()
    }
}

fn counts(request: &RequestInfo) -> bool {
    request.verb != "watch" && request.plural() != "leases"
}
