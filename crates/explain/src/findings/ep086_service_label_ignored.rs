//! kube-proxy before Kubernetes 1.36 ignores the Service because of a label for headless Services.

use super::about;

about! {
    /// The label `service.kubernetes.io/headless` belongs on slices and Endpoints, where the
    /// controllers set it. Before Kubernetes 1.36 kube-proxy ignores Services that have it, too.
    /// This is a warning if nodes that were read are older, and an info if their versions are not
    /// known.
    EP086 "service-label-ignored" Warning
    "kube-proxy before Kubernetes 1.36 ignores the Service because of a label for headless Services."
}
