//! The readiness of the Service's EndpointSelector chooses no ready pod.

use super::about;

about! {
    /// Clients get no answer until a pod leads. By a Lease: it does not exist, nobody holds it, its
    /// holder no longer renews it, or the identity of the holder names none of the selected pods,
    /// or several. By a condition: it is `True` of no selected pod. In both cases the pod may also
    /// not be ready itself. While a leader is changing, this is normal for some seconds.
    EP097 "nobody-leads" Error
    "The readiness of the Service's EndpointSelector chooses no ready pod."
}
