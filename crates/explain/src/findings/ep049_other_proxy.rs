//! kube-proxy ignores the Service, because a label names another proxy.

use super::about;

about! {
    /// kube-proxy watches only Services without the label
    /// `service.kubernetes.io/service-proxy-name`, whatever its value. Nobody knows if the other
    /// proxy runs, nor its choice of endpoints: the verdict counts the ready ones, and the
    /// explanation does not check EP045 to EP048, EP062 and EP063.
    EP049 "other-proxy" Info
    "kube-proxy ignores the Service, because a label names another proxy."
}
