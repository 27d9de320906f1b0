//! A server with a manager, Services that select the same pods, and one with mirrored Endpoints.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_endpoint_controllers::{Gates, Settings};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, LoggedRequest};
use kube_endpoint_integration_tests::running_manager::{RunningManager, settings};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

pub(crate) struct Bed {
    pub(crate) server: EmbeddedApiServer,
    manager: Option<RunningManager>,
    services: usize,
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn node() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

pub(crate) fn pod(number: usize, ready: bool) -> Value {
    let ip = format!("10.1.0.{}", number + 1);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("p{number}"), "namespace": "default", "uid": format!("uid-{number}"),
            "labels": {"app": "web"},
        },
        "spec": {"nodeName": "a", "containers": [{"name": "web", "image": "example.invalid/web"}]},
        "status": {
            "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
        },
    })
}

pub(crate) fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ipFamilies": ["IPv4"], "ports": [{"port": 80, "protocol": "TCP"}]},
    })
}

/// Returns a Service without a selector.
fn mirrored_service() -> Value {
    let mut service = service("mirrored");
    service["spec"].as_object_mut().unwrap().remove("selector");
    service
}

/// Returns the Endpoints that a user writes for it.
pub(crate) fn mirrored_endpoints(address: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "mirrored", "namespace": "default"},
        "subsets": [{"addresses": [{"ip": format!("10.2.0.{address}")}], "ports": [{"port": 80, "protocol": "TCP"}]}],
    })
}

/// Returns the same Endpoints, which the controller must not mirror.
pub(crate) fn skipped_endpoints() -> Value {
    let mut endpoints = mirrored_endpoints(1);
    endpoints["metadata"]["labels"] = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    endpoints
}

/// Returns a fault that refuses requests with this status.
pub(crate) fn refuse(status: u16) -> Fault {
    Fault::Refuse { status, retry_after: None }
}

/// Returns true for a write of an output of the controllers.
pub(crate) fn is_write(request: &LoggedRequest) -> bool {
    let plural = request.request.plural();
    request.request.method != "GET" && (plural == "endpoints" || plural == "endpointslices")
}

impl Bed {
    /// Returns a server with this number of Services, and a manager without a rate limit that has
    /// written the outputs.
    pub(crate) async fn start(services: usize) -> Self {
        let bed = Self::start_with(services, Some(&settings(Gates::default()))).await;
        bed.expect([true], 1);
        bed
    }

    /// As [`Self::start`], with other settings, or without a manager.
    pub(crate) async fn start_with(services: usize, settings: Option<&Settings>) -> Self {
        let objects = [node(), pod(0, true), mirrored_service(), mirrored_endpoints(1)];
        let services_of = (0..services).map(|number| service(&format!("web-{number:04}")));
        let server = EmbeddedApiServer::builder()
            .seed(1)
            .start_time("2026-12-01T00:00:00Z".parse().unwrap())
            .request_log_bytes(256 << 20)
            .load(objects.into_iter().chain(services_of))
            .build()
            .unwrap();
        let manager = settings.map(|settings| RunningManager::start(&server, settings));
        let bed = Self { server, manager, services };
        bed.pass(30).await;
        bed.server.clear_request_log();
        bed
    }

    pub(crate) fn start_manager(&mut self, settings: &Settings) {
        self.manager = Some(RunningManager::start(&self.server, settings));
    }

    pub(crate) async fn pass(&self, time: u64) {
        sleep(seconds(time)).await;
    }

    /// Adds this fault to later writes of slices and Endpoints.
    pub(crate) fn writes_meet(&self, fault: Fault) {
        self.server.add_fault(FaultRule::new(fault, |request| {
            request.method != "GET" && matches!(request.plural(), "endpoints" | "endpointslices")
        }));
    }

    /// Changes the inputs: the readiness of the pods, and the mirrored address.
    pub(crate) fn change(&self, ready: impl IntoIterator<Item = bool>, address: usize) {
        let pods = ready.into_iter().enumerate().map(|(number, ready)| pod(number, ready));
        self.server.load(pods.chain([mirrored_endpoints(address)])).unwrap();
    }

    pub(crate) fn load(&self, object: Value) {
        self.server.load([object]).unwrap();
    }

    /// Returns the number of slices that mirror Endpoints.
    pub(crate) fn mirrored(&self) -> usize {
        let slices = self.server.list("endpointslices");
        slices
            .iter()
            .filter(|it| it["metadata"]["labels"]["kubernetes.io/service-name"] == "mirrored")
            .count()
    }

    /// Returns the names of wrong Endpoints, and of the Services with wrong slices.
    pub(crate) fn wrong(&self, ready: &[bool], address: usize) -> Vec<String> {
        let pods = |wanted: bool| {
            let numbers = (0..ready.len()).filter(move |number| ready[*number] == wanted);
            numbers.map(|number| format!("10.1.0.{}", number + 1)).collect::<BTreeSet<_>>()
        };
        let mut wrong = Vec::new();
        let mut seen = 0;
        for endpoints in self.server.list("endpoints") {
            let name = endpoints["metadata"]["name"].as_str().unwrap();
            if name == "mirrored" {
                continue;
            }
            seen += 1;
            let of = |field: &str| -> BTreeSet<String> {
                let subsets = endpoints["subsets"].as_array().into_iter().flatten();
                let addresses =
                    subsets.flat_map(|subset| subset[field].as_array().cloned().unwrap_or_default());
                addresses.map(|address| address["ip"].as_str().unwrap().to_owned()).collect()
            };
            if of("addresses") != pods(true) || of("notReadyAddresses") != pods(false) {
                wrong.push(format!("endpoints {name}"));
            }
        }
        let mirrored = format!("10.2.0.{address}");
        let mut slices = 0;
        for slice in self.server.list("endpointslices") {
            let name = slice["metadata"]["labels"]["kubernetes.io/service-name"].as_str().unwrap();
            slices += 1;
            let of = |wanted: bool| -> BTreeSet<String> {
                let endpoints = slice["endpoints"].as_array().into_iter().flatten();
                let ready =
                    endpoints.filter(|it| it["conditions"]["ready"].as_bool().unwrap_or(true) == wanted);
                ready.map(|endpoint| endpoint["addresses"][0].as_str().unwrap().to_owned()).collect()
            };
            let is_right = if name == "mirrored" {
                of(true) == BTreeSet::from([mirrored.clone()])
            } else {
                of(true) == pods(true) && of(false) == pods(false)
            };
            if !is_right {
                wrong.push(format!("slice of {name}"));
            }
        }
        if (seen, slices) != (self.services, self.services + 1) {
            wrong.push(format!("{seen} Endpoints and {slices} slices of {} Services", self.services));
        }
        wrong
    }

    #[track_caller]
    pub(crate) fn expect(&self, ready: impl AsRef<[bool]>, address: usize) {
        assert_eq!(self.wrong(ready.as_ref(), address), [""; 0]);
    }

    /// Waits until all outputs are right, and returns how long that took.
    pub(crate) async fn right_after(&self, ready: &[bool], address: usize) -> Duration {
        self.after(|| self.wrong(ready, address).is_empty()).await
    }

    /// Waits until `is_right` returns true, and returns how long that took.
    pub(crate) async fn after(&self, is_right: impl Fn() -> bool) -> Duration {
        let start = Instant::now();
        while !is_right() {
            assert!(start.elapsed() < seconds(1000), "it is still wrong");
            sleep(Duration::from_millis(100)).await;
        }
        start.elapsed()
    }

    /// Returns the writes of outputs since the log was cleared.
    pub(crate) fn writes(&self) -> Vec<LoggedRequest> {
        self.server.request_log().into_iter().filter(is_write).collect()
    }

    pub(crate) async fn stop(self) {
        if let Some(manager) = self.manager {
            manager.stop().await;
        }
    }
}
