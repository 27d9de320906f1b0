//! The pod is being deleted.


about! {
    /// The pod has a deletion timestamp. Its slice lists it as terminating, and as serving while it
    /// is still ready; Endpoints leave it out. kube-proxy sends traffic to serving endpoints if no
    /// endpoint is ready; DNS does not list them for a headless Service. If the Service has no
    /// other pods, the severity is warning while one of them receives traffic, and then error. The
    /// message names the finalizers, which keep the pod until the programs that handle them remove
    /// them. It names the node, if that is not ready or does not exist, because then no kubelet
    /// ends the pod. The condition `DisruptionTarget` (since Kubernetes 1.25) tells who ends the
    /// pod: a drain, the scheduler, a taint, the pod garbage collector or the kubelet. Each has its
    /// own advice. Deleting a node or a pod by force is a request to a person: the program may
    /// still run there, and its successor would start beside it. The message tells how long ago the
    /// grace period ended, if that is more than two minutes. A StatefulSet makes its pod again only
    /// once the old one is gone, so nobody is asked to start another.
    EP013 "pod-terminating" Info
    "The pod is being deleted."
}
