//! The Service asks for traffic within a zone, but nodes have no zone.

use super::about;

about! {
    /// The controller hints each endpoint for the zone of its node. An endpoint on a node without a
    /// zone has no hint, and kube-proxy ignores the hints of a Service if one endpoint has none.
    EP037 "no-zones" Warning
    "The Service asks for traffic within a zone, but nodes have no zone."
}
