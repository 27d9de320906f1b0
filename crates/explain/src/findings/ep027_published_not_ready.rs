//! The pod is not ready, and the Service publishes it nevertheless.


about! {
    /// `spec.publishNotReadyAddresses` makes slices and Endpoints list the pod as ready. Peers of a
    /// StatefulSet often need that; other clients may reach a pod that does not answer. It is only
    /// information if the containers of the pod run. If they do not, or the node is not ready, that
    /// reason (EP020, EP021) comes first. A pod whose containers do not run answers nobody, so it
    /// does not count as receiving traffic.
    EP027 "published-not-ready" Info
    "The pod is not ready, and the Service publishes it nevertheless."
}
