//! The Service's Endpoints are not mirrored to slices.

use super::about;

about! {
    /// The mirroring controller copies Endpoints that another client wrote, unless a label or an
    /// annotation of the Endpoints prevents it. Most clients read slices only.
    EP042 "endpoints-not-mirrored" Error
    "The Service's Endpoints are not mirrored to slices."
}
