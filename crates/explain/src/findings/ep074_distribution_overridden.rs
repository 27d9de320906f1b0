//! An annotation of the Service overrides its trafficDistribution.

use super::about;

about! {
    /// With `service.kubernetes.io/topology-mode: Auto`, or the older
    /// `service.kubernetes.io/topology-aware-hints`, the controllers do not look at
    /// `spec.trafficDistribution`. The severity is warning if topology mode has no effect either
    /// ([EP039](#ep039-topology-hints-withheld)): without the annotation the field would have one.
    EP074 "distribution-overridden" Info
    "An annotation of the Service overrides its trafficDistribution."
}
