//! The EndpointSelector has a readiness, and the Service publishes all pods.

use super::about;

about! {
    /// `publishNotReadyAddresses` makes all endpoints ready, as the Service API says, so clients
    /// are sent to all pods.
    EP098 "readiness-without-effect" Warning
    "The EndpointSelector has a readiness, and the Service publishes all pods."
}
