//! No running controller maintains the slices of a Service that names an EndpointSelector.

use super::about;

about! {
    /// The slices are late (EP050), and the status of the EndpointSelector shows that no controller
    /// has seen it, or not its last change (`status.observedGeneration`). If the status is up to
    /// date, nothing tells whether the controller still runs, and the finding is EP050.
    EP094 "endpoint-selector-unserved" Error may_be_under_way
    "No running controller maintains the slices of a Service that names an EndpointSelector."
}
