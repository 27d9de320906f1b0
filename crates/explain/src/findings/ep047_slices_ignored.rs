//! kube-proxy ignores slices of the Service because of a label.

use super::about;

about! {
    /// The Service has a cluster IP, and slices with ready endpoints have the label
    /// `service.kubernetes.io/headless`. kube-proxy watches only slices without it; before
    /// Kubernetes 1.36 it ignores a Service with this label, too. If clients are sent to endpoints
    /// of other slices, the severity is warning. The controllers remove the label from their own
    /// slices (gate `HeadlessLabelRepair`); kube-controller-manager leaves it, and copies it from
    /// Endpoints. [EP050](#ep050-slices-behind) reports slices that the controllers are about to
    /// write.
    EP047 "slices-ignored" Error
    "kube-proxy ignores slices of the Service because of a label."
}
