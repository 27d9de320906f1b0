//! The Service names an EndpointSelector that does not exist.

use super::about;

about! {
    /// While a selector is missing, the controller removes endpoints whose pod is gone, makes those
    /// whose pod is not ready unready, and adds none: nobody can say which pods to add. It does the
    /// same in slices that kube-controller-manager left before a hand-over. If the cluster does not
    /// serve EndpointSelectors at all, the message says so: whoever deletes the
    /// CustomResourceDefinition deletes each EndpointSelector. If other namespaces have one of this
    /// name, the message names them. If you may not read EndpointSelectors, or the manager does
    /// not, the finding is EP001 instead.
    EP090 "endpoint-selector-not-found" Error
    "The Service names an EndpointSelector that does not exist."
}
