//! Tells Endpoints that a controller of another version of Kubernetes has written from those of
//! another client.
//!
//! Explanations compare objects with those that the controllers of Kubernetes 1.36 write. The
//! managers of other versions leave out what their version does not have:
//!
//! | What | Since | Without it |
//! |---|---|---|
//! | label `endpoints.kubernetes.io/managed-by` of Endpoints | 1.33 | `endpoints_due` ignores it, `is_of_others` looks at the writer and the targets |
//! | `trafficDistribution: PreferSameZone` and `PreferSameNode` | 1.34 | remedies name `PreferClose`, too |
//! | `trafficDistribution`, with the value `PreferClose` | 1.31 | no Service has the field |
//! | hints for nodes | 1.34 | only `PreferSameNode` asks for them |
//! | annotation `service.kubernetes.io/topology-mode` | 1.27 | plans read `topology-aware-hints`, too |
//! | kube-proxy uses terminating endpoints | 1.26 | see `consumers::kube_proxy` |
//! | annotation `tolerate-unready-endpoints` of Services | until 1.23 | told if the field does not say the same |
//! | restartable init containers | 1.29 | all init containers end |
//! | `spec.schedulingGates` | 1.27 | no pod has the field |
//! | `status.containerStatuses[].started` | 1.18 | a startup probe counts as failing only if no other probe can be |
//! | condition `DisruptionTarget` of pods | 1.25 | nobody is said to end a pod |
//! | `managedFields` | 1.18 | nobody is said to be the writer |

use kube_endpoint_core_model::maker::CONTROLLERS;
use kube_endpoint_core_model::well_known::{ENDPOINT_CONTROLLER, LABEL_ENDPOINTS_MANAGED_BY};
use kube_endpoint_core_model::{Endpoints, Text};

use super::{Behind, FaultInputs};
use crate::models::hand_over::names_pods;
use crate::models::planned::differ;

impl FaultInputs<'_> {
    /// Returns the due writes of the Endpoints that change more than the label that names the
    /// controller, or `None` if there are none or the Endpoints could not be read.
    pub(crate) fn endpoints_due(&self) -> Option<Behind> {
        let plan = self.planned.endpoints.as_ref().filter(|_| self.options.known.endpoints)?;
        let existing = self.objects.endpoints_of(&self.service.key);
        let changes =
            |new: &&Endpoints| existing.is_none_or(|old| differ(&unlabelled(old), &unlabelled(new)));
        let update = plan.writes.update.iter().filter(changes).count();
        let due = Behind { update, ..Behind::of(&plan.writes) };
        (!due.is_empty()).then_some(due)
    }

    /// Returns the Endpoints of a Service that selects pods, if another client than a controller
    /// wrote something else into them, and that client, if it is known.
    pub(crate) fn endpoints_of_others(&self) -> Option<(&Endpoints, Option<&Text>)> {
        let key = &self.service.key;
        let existing = self.objects.endpoints_of(key)?;
        let by = self.objects.endpoints_writes.get(key).map(|write| &write.by);
        (is_of_others(existing, by) && self.endpoints_due().is_some()).then_some((existing, by))
    }
}

/// Returns Endpoints without the label that names the controller.
fn unlabelled(endpoints: &Endpoints) -> Endpoints {
    let mut endpoints = endpoints.clone();
    endpoints.metadata.labels = endpoints.metadata.labels.without(LABEL_ENDPOINTS_MANAGED_BY);
    endpoints
}

/// Returns true if another client than a controller has written these Endpoints. `by` is the field
/// manager of their last write, if it is known.
fn is_of_others(endpoints: &Endpoints, by: Option<&Text>) -> bool {
    if let Some(manager) = endpoints.metadata.labels.get(LABEL_ENDPOINTS_MANAGED_BY) {
        return **manager != *ENDPOINT_CONTROLLER;
    }
    match by {
        Some(by) => !CONTROLLERS.contains(&&**by),
        None => !names_pods(endpoints),
    }
}
