//! The pod has ended for good.


about! {
    /// The pod's phase is Succeeded or Failed. Its address may belong to another pod by now, so no
    /// controller publishes it. If the Service has no other pods, the severity is error. The
    /// message names the reason if the pod's status has one, such as `Evicted`, or else who ended
    /// it by the condition `DisruptionTarget`, or else the container that failed and its exit code.
    /// If the kubelet of a node did not take the pod (`UnexpectedAdmissionError`, `OutOfcpu` and
    /// others), the message names the node: a pod in its place may come to the same node, so the
    /// advice is to look at that node first.
    EP010 "pod-finished" Info
    "The pod has ended for good."
}
