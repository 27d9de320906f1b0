//! The Service has a selector, and another client wrote its Endpoints.

use super::about;

about! {
    /// The endpoints controller writes the Endpoints of a Service with a selector. Another client
    /// writes them too: each overwrites the other. kube-proxy and DNS read the slices, which the
    /// controller makes from the pods. A program such as Patroni writes the address of its leader;
    /// to stop it harms the program. Since Kubernetes 1.33 the controller labels what it writes.
    /// Endpoints without the label count as those of another client only if their `managedFields`
    /// name one, or, without `managedFields`, if an address names no pod.
    EP061 "endpoints-written-by-others" Warning
    "The Service has a selector, and another client wrote its Endpoints."
}
