//! No pod of the headless Service gets a DNS name of its own.

use super::about;

about! {
    /// DNS has a name for each pod that has a hostname and a subdomain, from the headless Service
    /// of that name, if it selects the pod. No Service gives the pods a name here. Several headless
    /// Services may select the same pods, and one gives them their names: the others are no
    /// finding. Neither the subdomain of a pod nor the `serviceName` of a StatefulSet can be
    /// changed.
    EP036 "headless-without-names" Warning
    "No pod of the headless Service gets a DNS name of its own."
}
