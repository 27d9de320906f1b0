//! Some addresses of the Endpoints are not mirrored to slices.

use super::about;

about! {
    /// The mirroring controller leaves out texts that are not IP addresses, and addresses beyond
    /// the maximum for one subset.
    EP043 "address-not-mirrored" Warning
    "Some addresses of the Endpoints are not mirrored to slices."
}
