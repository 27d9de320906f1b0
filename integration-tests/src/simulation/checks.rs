//! The properties that must hold once changes and faults have ended.

use std::collections::BTreeMap;
use std::time::Duration;

use kube_endpoint_controller_runtime::StateCounts;
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, RequestInfo};
use kube_endpoint_manager_core::RunningControllers;
use serde_json::{Value, json};

use super::cluster::{Cluster, text};
use super::objects;
use crate::conformance::{Compare, Snapshot, normal::normal_form, unified_diff};

/// Longer than any single fault and the retries after it.
const LONG: Duration = Duration::from_secs(300);
/// The `managed-by` label of slices made from pods.
const FROM_PODS: &str = "endpointslice-controller.k8s.io";
/// The `managed-by` label of mirrored slices.
const MIRRORED: &str = "endpointslicemirroring-controller.k8s.io";

fn slice_label<'a>(slice: &'a Value, label: &str) -> &'a str {
    slice["metadata"]["labels"][label].as_str().unwrap_or_default()
}

impl Cluster {
    /// Ends all faults, adds the nodes that pods name, without which syncs keep failing, and waits.
    pub async fn settle(&self) {
        self.server.clear_faults();
        let nodes = self.server.list("nodes");
        let is_there = |name: u8| nodes.iter().any(|node| text(node, "/metadata/name") == format!("n{name}"));
        let missing = (0..3).filter(|name| !is_there(*name)).map(|name| objects::node(name, 1));
        self.server.load(missing).unwrap();
        tokio::time::sleep(LONG).await;
    }

    /// The write requests since the log was cleared, except deletes of leftover Endpoints without a Service.
    fn writes(&self) -> Vec<String> {
        let log = self.server.request_log();
        let is_leftover = |it: &RequestInfo| {
            it.verb == "delete"
                && it.plural() == "endpoints"
                && !self
                    .services()
                    .iter()
                    .any(|service| it.path.ends_with(&format!("/{}", text(service, "/metadata/name"))))
        };
        log.iter()
            .filter(|it| it.request.method != "GET" && !is_leftover(&it.request))
            .map(|it| format!("{} {} {}", it.request.verb, it.request.path, it.status))
            .collect()
    }

    /// [`Self::writes`] without events: each process reports once why it keeps something.
    fn writes_of_outputs(&self) -> Vec<String> {
        self.writes().into_iter().filter(|write| !write.contains("/events")).collect()
    }

    /// Checks that a settled cluster causes no writes and that no sync is pending.
    pub async fn writes_nothing(&self) -> Result<(), String> {
        self.server.clear_request_log();
        tokio::time::sleep(LONG).await;
        let writes = self.writes();
        if !writes.is_empty() {
            return Err(format!("still writes: {writes:#?}"));
        }
        let RunningControllers { endpoint_slice, endpoints, mirroring } = &self.controllers;
        let pending = [
            endpoint_slice.as_ref().map(|it| it.pending()),
            endpoints.as_ref().map(|it| it.pending()),
            mirroring.as_ref().map(|it| it.pending()),
        ];
        if pending != [Some(0); 3] {
            return Err(format!("syncs are pending: {pending:?}"));
        }
        Ok(())
    }

    fn services(&self) -> Vec<Value> {
        self.server.list("services")
    }

    /// For each Service, whether it has a selector.
    fn selecting(&self) -> BTreeMap<String, bool> {
        let service =
            |it: &Value| (text(it, "/metadata/name").to_owned(), it["spec"]["selector"].is_object());
        self.services().iter().map(service).collect()
    }

    /// The outputs in normal form, without those that depend on history: Endpoints without a Service, and slices made from
    /// pods for a Service that has lost its selector.
    fn outputs(&self) -> Value {
        let selecting = self.selecting();
        let list = |plural: &str| self.server.list(plural);
        let mut snapshot = Snapshot {
            services: self.services(),
            pods: list("pods"),
            endpoints: list("endpoints"),
            slices: list("endpointslices"),
            events: Vec::new(),
        };
        snapshot.endpoints.retain(|it| selecting.contains_key(text(it, "/metadata/name")));
        snapshot.slices.retain(|it| {
            let owner = slice_label(it, "kubernetes.io/service-name");
            let is_from_pods = slice_label(it, "endpointslice.kubernetes.io/managed-by") == FROM_PODS;
            selecting.get(owner) != Some(&false) || !is_from_pods
        });
        let compare: Compare =
            serde_json::from_value(json!({"trigger": "ignore", "sizes": "ignore"})).unwrap();
        normal_form(&snapshot, "default", &compare)
    }

    /// The objects that no controller writes.
    fn inputs(&self) -> Vec<Value> {
        let selecting = self.selecting();
        let kinds = [("nodes", "Node"), ("pods", "Pod"), ("services", "Service"), ("endpoints", "Endpoints")];
        let objects = kinds.into_iter().flat_map(|(plural, kind)| {
            self.server.list(plural).into_iter().map(move |mut object| {
                (object["apiVersion"], object["kind"]) = ("v1".into(), kind.into());
                object
            })
        });
        let is_input = |object: &Value| {
            object["kind"] != "Endpoints" || selecting.get(text(object, "/metadata/name")) == Some(&false)
        };
        objects.filter(is_input).collect()
    }

    /// Checks that the outputs are those of controllers that see the inputs for the first time.
    pub async fn equals_output_of_new_controllers(&self) -> Result<(), String> {
        let server =
            EmbeddedApiServer::builder().start_time(self.server.now()).load(self.inputs()).build().unwrap();
        let new = Self::at(server, self.seed ^ 1, &self.settings);
        new.settle().await;
        let (want, got) = (new.outputs(), self.outputs());
        if want == got {
            return Ok(());
        }
        Err(format!("differs from the output of new controllers:\n{}", unified_diff(&want, &got)))
    }

    /// Checks that a Service with both mirrored slices and slices made from pods of one address type has an event that says
    /// why the latter are kept.
    pub fn has_no_slices_from_pods_beside_mirrored_ones(&self) -> Result<(), String> {
        let events = self.server.list("events");
        let is_reported = |service: &str| {
            let tells = |event: &&Value| event["reason"] == "OrphanedEndpointSlicesKept";
            events.iter().filter(tells).any(|event| text(event, "/involvedObject/name") == service)
        };
        let slices = self.server.list("endpointslices");
        let by = |manager: &'static str| {
            let managed =
                move |it: &&Value| slice_label(it, "endpointslice.kubernetes.io/managed-by") == manager;
            slices.iter().filter(managed)
        };
        for mirrored in by(MIRRORED) {
            let place = |it: &Value| {
                (slice_label(it, "kubernetes.io/service-name").to_owned(), it["addressType"].clone())
            };
            let beside = by(FROM_PODS).find(|it| place(it) == place(mirrored));
            if let Some(beside) = beside.filter(|_| !is_reported(&place(mirrored).0)) {
                return Err(format!("{beside:#} exists beside {mirrored:#}"));
            }
        }
        Ok(())
    }

    /// Checks that restarted controllers write no outputs.
    pub async fn restart_writes_nothing(&mut self) -> Result<(), String> {
        self.server.clear_request_log();
        self.restart().await;
        tokio::time::sleep(LONG).await;
        let writes = self.writes_of_outputs();
        if writes.is_empty() { Ok(()) } else { Err(format!("writes after a restart: {writes:#?}")) }
    }

    fn state_counts(&self) -> [(&'static str, StateCounts); 3] {
        let RunningControllers { endpoint_slice, endpoints, mirroring } = &self.controllers;
        [
            ("endpointslice", endpoint_slice.as_ref().map(|it| it.state_counts()).unwrap_or_default()),
            ("endpoints", endpoints.as_ref().map(|it| it.state_counts()).unwrap_or_default()),
            ("mirroring", mirroring.as_ref().map(|it| it.state_counts()).unwrap_or_default()),
        ]
    }

    /// Checks that no sync is put off and no key fails. The name of a create whose answer was lost may be kept for the next
    /// create of its key.
    pub fn waits_for_nothing(&self) -> Result<(), String> {
        for (name, counts) in self.state_counts() {
            if (counts.deferred, counts.failing) != (0, 0) {
                return Err(format!("the {name} controller still waits: {counts:?}"));
            }
        }
        Ok(())
    }

    /// Checks that nothing is kept for any key.
    pub fn remembers_nothing(&self) -> Result<(), String> {
        for (name, counts) in self.state_counts() {
            if counts != StateCounts::default() {
                return Err(format!("the {name} controller remembers deleted objects: {counts:?}"));
            }
        }
        Ok(())
    }

    /// Checks that a second manager that is started beside the first one writes no output, nor makes the first one write one.
    pub async fn second_manager_writes_nothing(&self) -> Result<(), String> {
        self.server.clear_request_log();
        let second = Self::at(self.server.clone(), self.seed ^ 2, &self.settings);
        tokio::time::sleep(LONG).await;
        drop(second);
        let writes = self.writes_of_outputs();
        if writes.is_empty() { Ok(()) } else { Err(format!("a second manager causes writes: {writes:#?}")) }
    }
}
