//! The Service has no ports.

use super::about;

about! {
    /// A Service that is not headless needs ports: kube-proxy makes rules for ports.
    EP035 "no-service-ports" Error
    "The Service has no ports."
}
