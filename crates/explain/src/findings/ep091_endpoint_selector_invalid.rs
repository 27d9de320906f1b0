//! The Service names an EndpointSelector that selects nothing, because it is invalid.

use super::about;

about! {
    /// Endpoints leave and none comes, as for EP090. The schema refuses nearly everything that is
    /// invalid; the message says what it cannot check. The controller writes the same message into
    /// the condition `Accepted` of the EndpointSelector.
    EP091 "endpoint-selector-invalid" Error
    "The Service names an EndpointSelector that selects nothing, because it is invalid."
}
