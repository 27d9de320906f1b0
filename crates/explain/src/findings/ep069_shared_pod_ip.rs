//! Several pods have the same IP address.

use super::about;

about! {
    /// Addresses of pods are unique in a cluster. If the network plugin assigns one twice, the
    /// network sends packets to one of the pods, and kube-proxy takes both for one endpoint. Only
    /// ready pods count that are not in the network of their node, are not being deleted, and whose
    /// node exists: others may have had the address before. If all of the pods are the Service's,
    /// the severity is warning. `explain` compares the pods of the Service; `lint` compares all
    /// pods that it reads. Both do so only if you may read nodes. The status page does not know
    /// which pods are in the network of their node, and leaves the finding out.
    EP069 "shared-pod-ip" Error
    "Several pods have the same IP address."
}
