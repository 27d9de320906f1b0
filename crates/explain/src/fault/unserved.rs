//! Message and remedy for a cluster that no endpoint controller serves.

use kube_endpoint_core_model::ObjectKey;

use crate::remedy::Person::ClusterAdministrator;
use crate::{Remedy, Step, Unserved, age};

/// Says how long no controller has written, and who waits.
pub(super) fn told(unserved: &Unserved) -> String {
    let mut text = "no endpoint controller writes".to_owned();
    if let Some(seconds) = unserved.seconds {
        text.push_str(&format!("; the last known write is {} old", age::seconds(seconds)));
    }
    for stale in &unserved.leases {
        let seconds = age::seconds(stale.seconds);
        text.push_str(&format!("; nobody has renewed the lease {} for {seconds}", stale.lease));
    }
    match unserved.services {
        Some(1) => text.push_str("; 1 Service waits for its slices"),
        Some(count) => text.push_str(&format!("; {count} Services wait for their slices")),
        None => {}
    }
    text
}

pub(super) fn remedy(unserved: &Unserved) -> Remedy {
    let leases = unserved.leases.iter().map(|stale| {
        Step::kubectl_in(&stale.lease.namespace, ["get", "lease", &stale.lease.name, "-o", "yaml"])
    });
    Remedy::ask(
        ClusterAdministrator,
        "Start the endpoint controllers, or look at why they do not write: they are part of kube-controller-manager, or run as kube-endpoint-manager",
    )
    .shown_by(leases.chain([doctor()]))
}

/// Returns the command that tells which controllers run.
pub(super) fn doctor() -> Step {
    Step::kubectl(["endpoints", "doctor"])
}

/// Returns the command that shows the events about a Service and its Endpoints.
pub(super) fn events(service: &ObjectKey) -> Step {
    let about = format!("involvedObject.name={}", service.name);
    Step::kubectl_in(&service.namespace, ["get", "events", "--field-selector", &about])
}
