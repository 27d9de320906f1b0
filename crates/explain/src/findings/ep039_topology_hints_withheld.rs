//! The Service asks for topology aware routing, but its endpoints cannot have hints.

use super::about;

about! {
    /// The annotation `service.kubernetes.io/topology-mode: Auto` asks for endpoints in proportion
    /// to the CPU of each zone. The controllers look at the nodes that are ready and have neither
    /// the label `node-role.kubernetes.io/control-plane` nor `node-role.kubernetes.io/master`. Each
    /// of these needs a zone and allocatable CPU: one without withholds the hints of all Services.
    /// They must be in two zones at least, and there must be enough ready pods to divide them in
    /// proportion. The message names the nodes and what they lack, or quotes the controller's
    /// event. Each cause is a finding of its own. The annotation overrides
    /// `spec.trafficDistribution` ([EP074](#ep074-distribution-overridden)).
    EP039 "topology-hints-withheld" Warning
    "The Service asks for topology aware routing, but its endpoints cannot have hints."
}
