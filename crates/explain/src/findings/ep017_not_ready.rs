//! The pod's Ready condition is not true.


about! {
    /// The pod's Ready condition is false, and neither a container, a readiness gate nor the node
    /// explains it. Some client set the condition. The node controller does so while a node is not
    /// ready, without a reason. The kubelet sets it to true again when the node is back; if all
    /// containers are ready and it has not, the advice is to restart it.
    EP017 "not-ready" Warning
    "The pod's Ready condition is not true."
}
