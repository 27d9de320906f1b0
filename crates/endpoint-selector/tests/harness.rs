//! The controller, and beside it the three controllers that have the place of
//! kube-controller-manager's.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::time::Duration;

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_api_writer::{ApiWriter, Clock, EventRecorder, RequestLimiter};
use kube_endpoint_controller_runtime::{Controller, ControllerContext, Reconciler, StateCounts};
use kube_endpoint_core_model::Text;
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, RequestInfo};
use kube_endpoint_endpoints_controller::EndpointsController;
use kube_endpoint_endpointslice_controller::EndpointSliceController;
use kube_endpoint_informer::{Cluster, Kind};
use kube_endpoint_mirroring::MirroringController;
use kube_endpoint_selector::controller::EVENT_COMPONENT;
use kube_endpoint_selector::{ControllerOptions, SelectorController};
use kube_endpoint_testing::{Environment, Simulation, server_builder};
use serde_json::{Value, json};

use crate::simulated::{self, all_buckets};

const KUBE_CONTROLLER_MANAGER: &str = "kube-controller-manager";
const ANNOTATION: &str = "kube-endpoint-manager.github.io/endpoint-selector";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// The user agent of the controller.
pub(crate) const ADDON: &str = "kube-endpoint-manager/0.1.0";

pub(crate) struct Harness(Simulation<SelectorController>);

impl Deref for Harness {
    type Target = Simulation<SelectorController>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Returns a pod of the application `web`. Its number is that of its address.
pub(crate) fn pod(name: &str, number: u8, track: &str, ready: bool) -> Value {
    let address = format!("10.1.0.{number}");
    let status = if ready { "True" } else { "False" };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web", "track": track}, "uid": format!("uid-{name}")},
        "spec": {"nodeName": "node", "containers": [{"name": "web", "image": "example.invalid/web"}]},
        "status": {
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        },
    })
}

/// Returns the Service `web`, which selects the application.
pub(crate) fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {
            "selector": {"app": "web"}, "clusterIP": "10.96.1.1", "clusterIPs": ["10.96.1.1"],
            "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}],
        },
    })
}

/// Returns an EndpointSelector of the application, without a track.
pub(crate) fn selector(not: &str) -> Value {
    json!({
        "apiVersion": "kube-endpoint-manager.github.io/v1alpha1", "kind": "EndpointSelector",
        "metadata": {"name": "stable"},
        "spec": {"selector": {
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "track", "operator": "NotIn", "values": [not]}],
        }},
    })
}

/// Returns a server with these objects and the node of the pods.
fn server(objects: impl IntoIterator<Item = Value>) -> EmbeddedApiServer {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}, "status": {
        "conditions": [{"type": "Ready", "status": "True"}]}});
    server_builder().track_managers().load(objects.into_iter().chain([node])).build().unwrap()
}

fn none() -> RequestLimiter {
    RequestLimiter::unlimited()
}

fn limit() -> RequestLimiter {
    RequestLimiter::new(20.0, 30).unwrap()
}

impl Harness {
    /// Starts all controllers on a server with these objects, and waits for their first syncs.
    pub(crate) async fn start(objects: impl IntoIterator<Item = Value>) -> Self {
        Self::start_with(1, objects).await
    }

    /// As [`Self::start`], with so many processes that run the endpoint selector controller,
    /// without a Lease.
    pub(crate) async fn start_with(addons: usize, objects: impl IntoIterator<Item = Value>) -> Self {
        Self::begin(addons, KUBE_CONTROLLER_MANAGER, objects).await
    }

    /// As [`Self::start`], with the controllers of kube-controller-manager inside another program.
    pub(crate) async fn start_inside(
        program: &'static str,
        objects: impl IntoIterator<Item = Value>,
    ) -> Self {
        Self::begin(1, program, objects).await
    }

    async fn begin(addons: usize, program: &'static str, objects: impl IntoIterator<Item = Value>) -> Self {
        Self::on(&server(objects), addons, program, &[], none()).await
    }

    /// As [`Self::start`], with the default limit of requests.
    pub(crate) async fn start_limited(objects: impl IntoIterator<Item = Value>) -> Self {
        Self::on(&server(objects), 1, KUBE_CONTROLLER_MANAGER, &[], limit()).await
    }

    /// Ends all processes, and starts others on the same server.
    pub(crate) async fn restart(self) -> Self {
        let server = self.0.crash().await;
        Self::on(&server, 1, KUBE_CONTROLLER_MANAGER, &[], none()).await
    }

    /// As [`Self::restart`], with the default limit of requests.
    pub(crate) async fn restart_limited(self) -> Self {
        let server = self.0.crash().await;
        Self::on(&server, 1, KUBE_CONTROLLER_MANAGER, &[], limit()).await
    }

    /// Ends all processes, and starts others: kube-controller-manager inside another program, and
    /// the endpoint selector controller, which knows these field managers.
    pub(crate) async fn restart_inside(self, program: &str, known: &[&str]) -> Self {
        let server = self.0.crash().await;
        Self::on(&server, 1, program, known, none()).await
    }

    async fn on(
        server: &EmbeddedApiServer,
        addons: usize,
        program: &str,
        known: &[&str],
        limiter: RequestLimiter,
    ) -> Self {
        let buckets = kube_endpoint_endpointslice_controller::buckets().into_iter();
        let buckets =
            buckets.chain(kube_endpoint_selector::buckets()).chain(kube_endpoint_mirroring::buckets());
        let agent = format!("{program}/v1.36.2");
        let harness = Self(Simulation::begin(server, all_buckets(buckets), |environment| {
            let others = Watched::start(
                environment,
                [Kind::Pods, Kind::Services, Kind::Nodes, Kind::EndpointSlices, Kind::Endpoints],
            );
            let mut mirroring = kube_endpoint_mirroring::ControllerOptions::default();
            mirroring.orphaned_slice_cleanup = false;
            others.run::<_>(environment, &agent, &[], none(), |context| {
                EndpointSliceController::new(
                    context,
                    kube_endpoint_endpointslice_controller::ControllerOptions::default(),
                )
            });
            others.run::<_>(environment, &agent, &[], none(), |context| {
                EndpointsController::new(
                    context,
                    kube_endpoint_endpoints_controller::ControllerOptions::default(),
                )
            });
            others.run::<_>(environment, &agent, &[], none(), |context| {
                MirroringController::new(context, mirroring)
            });
            let kinds = [
                Kind::Pods,
                Kind::Services,
                Kind::Nodes,
                Kind::EndpointSlices,
                Kind::EndpointSelectors,
                Kind::Leases,
            ];
            let mut addon = || {
                let own = Watched::start(environment, kinds);
                own.run(environment, ADDON, known, limiter.clone(), |context| {
                    SelectorController::new(context, ControllerOptions::default())
                })
            };
            (1..addons).for_each(|_| drop(addon()));
            addon()
        }));
        harness.pass(Duration::from_secs(3)).await;
        harness
    }

    /// Passes some seconds, and asserts that no moment finds one of these addresses missing: each
    /// is ready in some slice of the Service.
    pub(crate) async fn pass_with(&self, seconds: u64, addresses: &[&str]) {
        for _ in 0..seconds * 100 {
            self.pass(Duration::from_millis(10)).await;
            let ready = self.ready();
            for address in addresses {
                assert!(ready.contains(*address), "{address} is missing: {:?}", self.slices());
            }
        }
    }

    fn ready(&self) -> BTreeSet<String> {
        let endpoints = |slice: Value| slice["endpoints"].as_array().cloned().unwrap_or_default();
        let all = self.server_slices().into_iter().flat_map(endpoints);
        let ready = all.filter(|endpoint| endpoint["conditions"]["ready"] != false);
        ready.map(|endpoint| endpoint["addresses"][0].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn server_slices(&self) -> Vec<Value> {
        let mut slices = self.list("endpointslices");
        slices.retain(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "web");
        slices
    }

    /// Returns the slices of the Service: the first word of the manager, then the endpoints, with
    /// an exclamation mark after one that is not ready. Sorted.
    pub(crate) fn slices(&self) -> Vec<String> {
        let slice = |slice: &Value| {
            let manager = slice["metadata"]["labels"][MANAGED_BY].as_str().unwrap_or("none");
            let manager = manager.split(['.', '-']).next().unwrap_or_default();
            let manager = if slice["metadata"]["labels"][ANNOTATION] == "stable" { "own" } else { manager };
            let endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
            let mut shown: Vec<String> = endpoints
                .iter()
                .map(|it| {
                    let mark = if it["conditions"]["ready"] == false { "!" } else { "" };
                    let address = it["addresses"][0].as_str().unwrap().trim_start_matches("10.1.0.");
                    format!("{address}{mark}")
                })
                .collect();
            shown.sort();
            format!("{manager}: {}", shown.join(" "))
        };
        let mut slices: Vec<String> = self.server_slices().iter().map(slice).collect();
        slices.sort();
        slices
    }

    /// Lets the Service name the EndpointSelector instead of having a selector.
    pub(crate) async fn attach(&self) {
        let patch = json!({"metadata": {"annotations": {ANNOTATION: "stable"}}, "spec": {"selector": null}});
        self.patch("services", "web", patch).await;
    }

    /// Gives the Service its selector back.
    pub(crate) async fn detach(&self) {
        let patch =
            json!({"metadata": {"annotations": {ANNOTATION: null}}, "spec": {"selector": {"app": "web"}}});
        self.patch("services", "web", patch).await;
    }

    pub(crate) async fn set_ready(&self, pod: &str, ready: bool) {
        let status = if ready { "True" } else { "False" };
        let conditions =
            json!([{"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:01:00Z"}]);
        let path = format!("/api/v1/namespaces/default/pods/{pod}/status");
        let body = json!({"status": {"conditions": conditions}});
        self.send("PATCH", &path, "application/merge-patch+json", &body).await;
    }

    /// Returns how many requests of a kind, `VERB RESOURCE`, the controller has sent since the last
    /// call.
    pub(crate) fn sent(&self, verb: &str, plural: &str) -> usize {
        let log = self.server.request_log();
        self.server.clear_request_log();
        let is_own = |it: &RequestInfo| it.user_agent == ADDON && it.verb == verb && it.plural() == plural;
        log.iter().filter(|it| is_own(&it.request)).count()
    }

    /// Returns the reasons of this controller's events, sorted.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let events = self.list("events").into_iter();
        let own = events.filter(|event| event["source"]["component"] == EVENT_COMPONENT);
        let mut reasons: Vec<String> =
            own.map(|event| event["reason"].as_str().unwrap().to_owned()).collect();
        reasons.sort();
        reasons
    }

    /// Returns the sum of the gauges of a name.
    pub(crate) fn gauge(&self, name: &str) -> f64 {
        self.metrics().sum(&format!("endpoint_selector_controller_{name}"), &[])
    }

    /// Deletes everything and checks that the controller remembers nothing.
    pub(crate) async fn nothing_is_remembered(&self) {
        self.remove_everything().await;
        self.pass(Duration::from_secs(700)).await;
        assert_eq!(self.controller.pending(), 0);
        assert_eq!(self.controller.state_counts(), StateCounts::default());
    }
}

/// Caches that informers fill.
struct Watched {
    client: ApiClient,
    cluster: Cluster,
}

impl Watched {
    fn start<const N: usize>(environment: &mut Environment, kinds: [Kind; N]) -> Self {
        let watched =
            Self { client: ApiClient::for_tests(environment.service()), cluster: Cluster::new(kinds) };
        simulated::watch(environment, &watched.client, &watched.cluster, kinds);
        let cluster = watched.cluster.clone();
        environment.on_crash(move || cluster.remove_handlers());
        watched
    }

    fn run<R: Reconciler>(
        &self,
        environment: &mut Environment,
        user_agent: &str,
        known: &[&str],
        limiter: RequestLimiter,
        new: impl FnOnce(ControllerContext) -> Controller<R>,
    ) -> Controller<R> {
        let known = known.iter().map(|name| Text::from(*name)).collect();
        let writer = ApiWriter::new(self.client.clone(), limiter, user_agent).with_controllers(known);
        let of_events = ApiWriter::new(self.client.clone(), none(), user_agent);
        let clock = Clock::starting_at(environment.now());
        let (events, sending) = EventRecorder::new(EVENT_COMPONENT, of_events, clock, 1);
        let controller =
            new(ControllerContext { cluster: self.cluster.clone(), writer, events, clock, seed: 1 });
        environment.spawn(sending);
        environment.run(controller.clone().run());
        controller
    }
}
