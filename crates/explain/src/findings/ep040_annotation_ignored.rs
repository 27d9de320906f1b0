//! An annotation of the Service has no effect.

use super::about;

about! {
    /// Kubernetes reads this annotation no longer since 1.24. This project's controllers read it if
    /// a feature gate is on, which is off by default. If `spec.publishNotReadyAddresses` says the
    /// same as the annotation, nothing is missed, and this is no finding.
    ///
    /// The annotation `kube-endpoint-manager.github.io/endpoints` has no effect if its value is
    /// none of its forms, or if kube-controller-manager writes the Endpoints of the Service ([Leave
    /// v1 Endpoints behind](leaving-endpoints.md)).
    EP040 "annotation-ignored" Warning
    "An annotation of the Service has no effect."
}
