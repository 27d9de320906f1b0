//! A slice of the Service is managed by another controller.

use super::about;

about! {
    /// The label `endpointslice.kubernetes.io/managed-by` names another controller. Clients use the
    /// endpoints of all slices of a Service.
    EP052 "foreign-slice" Info
    "A slice of the Service is managed by another controller."
}
