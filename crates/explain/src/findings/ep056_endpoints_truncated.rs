//! The Endpoints object holds only some of the addresses.

use super::about;

about! {
    /// The Endpoints object has the annotation `endpoints.kubernetes.io/over-capacity: truncated`.
    /// Clients of Endpoints see only a part of the pods.
    EP056 "endpoints-truncated" Warning
    "The Endpoints object holds only some of the addresses."
}
