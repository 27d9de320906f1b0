//! The Service has no selector, and nobody has written endpoints for it.

use super::about;

about! {
    /// The controllers make no endpoints for a Service without a selector. Somebody else has to
    /// write EndpointSlices, or Endpoints, which the mirroring controller copies.
    EP032 "no-selector" Error
    "The Service has no selector, and nobody has written endpoints for it."
}
