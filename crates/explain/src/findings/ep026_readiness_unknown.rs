//! The pod has no Ready condition.


about! {
    /// The pod has an address but no Ready condition. The kubelet writes this condition when it
    /// starts a pod.
    EP026 "readiness-unknown" Warning
    "The pod has no Ready condition."
}
