//! A container of the pod runs but is not ready.


about! {
    /// The condition ContainersReady is false, and the container runs. The message names the
    /// container and the probe that has not succeeded: the startup probe until it has succeeded
    /// once, then the readiness probe. A sidecar is an init container that keeps running; the
    /// containers after it wait for its startup probe.
    ///
    /// If `initialDelaySeconds` is not over, the probe has not run, and the severity is warning
    /// even if no pod receives traffic. The message names the port that the probe asks if no
    /// container of the pod declares it. If the Service is headless and names its pods, and none of
    /// them is ready, they may wait for one another: the advice names `publishNotReadyAddresses`.
    EP019 "container-not-ready" Warning
    "A container of the pod runs but is not ready."
}
