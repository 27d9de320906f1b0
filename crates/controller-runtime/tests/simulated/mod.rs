//! A controller with its own informers, on the embedded API server and under a paused clock. The
//! tests of each controller include this file.
#![allow(dead_code, reason = "no controller's tests need all of it")]

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_api_writer::{ApiWriter, Clock, EventRecorder, RequestLimiter};
use kube_endpoint_controller_runtime::{Controller, ControllerContext, Reconciler, StateCounts};
use kube_endpoint_core_model::{EndpointSelector, EndpointSlice, Endpoints, Lease, Node, Pod, Service};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_informer::{Cluster, Kind, Object, ReflectorOptions};
use kube_endpoint_testing::{Environment, Simulation, USER_AGENT};
use kube_endpoint_workqueue::{HISTOGRAM_BUCKETS, HISTOGRAM_NAMES};

/// The differences between controllers.
pub(crate) trait Simulated: Reconciler {
    /// The component of its events.
    const COMPONENT: &'static str;

    /// Returns the buckets of its own histograms.
    fn buckets() -> Vec<(&'static str, Vec<f64>)> {
        Vec::new()
    }

    /// Returns empty stores.
    fn cluster() -> Cluster {
        Cluster::new(Self::kinds())
    }
}

/// Returns the buckets of controllers' own histograms, and those of their runtime and queues.
pub(crate) fn all_buckets(
    own: impl IntoIterator<Item = (&'static str, Vec<f64>)>,
) -> impl Iterator<Item = (&'static str, Vec<f64>)> {
    let of_queues = HISTOGRAM_NAMES.map(|name| (name, HISTOGRAM_BUCKETS.to_vec()));
    own.into_iter().chain(kube_endpoint_controller_runtime::buckets()).chain(of_queues)
}

pub(crate) struct Harness<R: Reconciler>(Simulation<Controller<R>>);

impl<R: Simulated> Harness<R> {
    /// Starts a controller on a server and waits two seconds for its first syncs.
    pub(crate) async fn start(server: &EmbeddedApiServer, options: R::Options) -> Self {
        let harness = Self::begin(server, options);
        harness.pass(Duration::from_secs(2)).await;
        harness
    }

    /// Returns a controller on a server; it runs once the test awaits something.
    pub(crate) fn begin(server: &EmbeddedApiServer, options: R::Options) -> Self {
        Self::begin_with(server, options, R::cluster())
    }

    /// As [`Self::begin`], with a given cluster. This lists only the kinds that the controller
    /// reads.
    pub(crate) fn begin_with(server: &EmbeddedApiServer, options: R::Options, cluster: Cluster) -> Self {
        let begin = |environment: &mut Environment| {
            let client = ApiClient::for_tests(environment.service());
            let context = context(environment, &client, cluster.clone(), R::COMPONENT);
            let controller = Controller::new(context, options);
            watch(environment, &client, &cluster, R::kinds().iter());
            environment.run(controller.clone().run());
            environment.on_crash(move || cluster.remove_handlers());
            controller
        };
        Self(Simulation::begin(server, all_buckets(R::buckets()), begin))
    }

    /// Aborts the controller, and returns the server.
    pub(crate) async fn crash(self) -> EmbeddedApiServer {
        self.0.crash().await
    }

    /// Deletes everything and checks that the controller remembers nothing. Flow tests end with it.
    pub(crate) async fn nothing_is_remembered(&self) {
        self.remove_everything().await;
        assert_eq!(self.controller.pending(), 0);
        assert_eq!(self.controller.state_counts(), StateCounts::default());
    }

    /// Returns the controller's events, sorted.
    pub(crate) fn events(&self) -> Vec<String> {
        self.0.events(R::COMPONENT)
    }
}

impl<R: Reconciler> Deref for Harness<R> {
    type Target = Simulation<Controller<R>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<R: Reconciler> DerefMut for Harness<R> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// Returns the context of a controller whose events have this component.
pub(crate) fn context(
    environment: &mut Environment,
    client: &ApiClient,
    cluster: Cluster,
    component: &'static str,
) -> ControllerContext {
    let writer = ApiWriter::new(client.clone(), RequestLimiter::unlimited(), USER_AGENT);
    let clock = Clock::starting_at(environment.now());
    let (events, sending) = EventRecorder::new(component, writer.clone(), clock, 1);
    environment.spawn(sending);
    ControllerContext { cluster, writer, events, clock, seed: 1 }
}

/// Lists and watches these kinds.
pub(crate) fn watch(
    environment: &mut Environment,
    client: &ApiClient,
    cluster: &Cluster,
    kinds: impl IntoIterator<Item = Kind>,
) {
    for kind in kinds {
        match kind {
            Kind::Pods => watch_kind::<Pod>(environment, client, cluster),
            Kind::Services => watch_kind::<Service>(environment, client, cluster),
            Kind::Nodes => watch_kind::<Node>(environment, client, cluster),
            Kind::EndpointSlices => watch_kind::<EndpointSlice>(environment, client, cluster),
            Kind::Endpoints => watch_kind::<Endpoints>(environment, client, cluster),
            Kind::EndpointSelectors => watch_kind::<EndpointSelector>(environment, client, cluster),
            Kind::Leases => watch_kind::<Lease>(environment, client, cluster),
        }
    }
}

fn watch_kind<T: Object>(environment: &mut Environment, client: &ApiClient, cluster: &Cluster) {
    let (client, cluster) = (client.clone(), cluster.clone());
    let options = ReflectorOptions::new(1);
    environment.spawn(async move {
        // A test that restores the server looks at what is still written by the old stores.
        let _ = kube_endpoint_informer::run::<T>(client, cluster, options, std::future::pending()).await;
    });
}
