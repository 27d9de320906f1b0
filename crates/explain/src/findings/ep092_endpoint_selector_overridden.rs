//! The Service names an EndpointSelector and has a selector, which wins.

use super::about;

about! {
    /// `spec.selector` wins, so kube-controller-manager serves the Service. The finding rehearses
    /// the [hand-over](endpoint-selectors.md#attach-a-service): it says *ready to attach* or why
    /// not, how many pods the EndpointSelector selects, and which would come and go. It looks at
    /// the EndpointSelector and its status, the pods, and who wrote the present slices and
    /// Endpoints.
    EP092 "endpoint-selector-overridden" Info
    "The Service names an EndpointSelector and has a selector, which wins."
}
