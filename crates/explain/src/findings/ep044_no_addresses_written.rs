//! The Service's endpoints are written by hand, and hold no ready address.

use super::about;

about! {
    /// The Service has no selector. Whoever writes its endpoints has listed no ready address.
    EP044 "no-addresses-written" Error
    "The Service's endpoints are written by hand, and hold no ready address."
}
