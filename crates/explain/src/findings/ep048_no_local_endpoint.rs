//! A traffic policy is Local, and some nodes have no endpoint of the Service.

use super::about;

about! {
    /// With a policy `Local`, the kube-proxy of each node sends clients only to endpoints of its
    /// own node, and drops their connections if there are none. `spec.internalTrafficPolicy` is for
    /// clients of the cluster IP. `spec.externalTrafficPolicy` is for clients from outside: a load
    /// balancer asks each node's health check (`spec.healthCheckNodePort`) and leaves out nodes
    /// without an endpoint, and node ports there do not answer, so the severity is info. If no node
    /// has an endpoint, it is error. It is info, too, if you may not read nodes: other nodes may
    /// exist. Nodes that keep ordinary pods away do not count: those that are cordoned, not ready,
    /// or have a taint with the effect `NoSchedule` or `NoExecute`. So a DaemonSet with a pod on
    /// each other node is no finding. Endpoints on nodes that do not exist get no traffic, and are
    /// a finding even if each node has an endpoint. The manager's status page does not check this,
    /// because the manager's caches hold no traffic policies.
    EP048 "no-local-endpoint" Warning
    "A traffic policy is Local, and some nodes have no endpoint of the Service."
}
