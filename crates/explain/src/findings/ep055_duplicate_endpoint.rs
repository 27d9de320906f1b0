//! Several slices hold the same endpoint.

use super::about;

about! {
    /// Two entries are the same endpoint if they have the same address and the same pod, or if one
    /// names no pod. Pods in the network of one node have one address and are different endpoints.
    ///
    /// Some clients send such an endpoint twice its share of the traffic; kube-proxy does not. The
    /// slices may hold it with different conditions or hints, or with different nodes while a
    /// traffic policy is `Local`. Then a terminating entry loses, and kube-proxy takes any of the
    /// others, so one node may send clients to an endpoint that another node leaves out.
    EP055 "duplicate-endpoint" Warning
    "Several slices hold the same endpoint."
}
