//! The pod is bound to no node.


about! {
    /// The scheduler has found no node for the pod. Its message says why, and each cause that it
    /// names has its own advice. If the pod has no condition `PodScheduled`, no scheduler has
    /// looked at it. The scheduler ignores a pod with scheduling gates until other programs have
    /// removed them; the message names the gates. Taints that nodes have while something is wrong
    /// with them, such as `node.kubernetes.io/disk-pressure`, are told apart from those that
    /// somebody chose.
    EP022 "not-scheduled" Warning
    "The pod is bound to no node."
}
