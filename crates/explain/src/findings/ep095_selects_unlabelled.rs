//! The EndpointSelector of the Service selects pods without any label, too.

use super::about;

about! {
    /// All requirements are negative (`NotIn`, `DoesNotExist`), and a pod without the label meets
    /// these. So each new pod of the namespace that lacks it gets traffic of the Service.
    EP095 "selects-unlabelled" Info
    "The EndpointSelector of the Service selects pods without any label, too."
}
