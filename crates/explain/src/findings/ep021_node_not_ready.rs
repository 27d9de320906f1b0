//! The pod's node is not ready, so the pod is not either.


about! {
    /// The node's Ready condition is not true, so the node lifecycle controller has set the pod's
    /// Ready condition to false. The pod itself may still run. The message has what the node's
    /// condition says.
    EP021 "node-not-ready" Warning
    "The pod's node is not ready, so the pod is not either."
}
