//! A readiness gate of the pod is not met.


about! {
    /// A pod with readiness gates is ready only if the condition of each gate is true. A controller
    /// outside the kubelet sets these conditions. The message has the reason and the message of the
    /// condition. For well-known gates, such as that of the AWS Load Balancer Controller, the
    /// advice names where to look.
    EP018 "readiness-gate-not-met" Warning
    "A readiness gate of the pod is not met."
}
