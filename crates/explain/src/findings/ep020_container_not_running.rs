//! A container of the pod does not run.


about! {
    /// A container waits or has ended: the kubelet cannot pull its image, its command fails, or it
    /// uses more memory than it may. The message names the container that is the cause, not one
    /// that waits for it: an init container that fails or has not ended comes first. It has the
    /// reason, the exit code and how the previous run ended. The command shows the log of the
    /// previous run only if there was one. A container that cannot be started (`StartError`) never
    /// ran: the message is that of its runtime. Exit codes 137 and 143 tell that it was stopped
    /// from outside, often because its liveness probe failed. About several pods, the message has
    /// only what they have in common.
    EP020 "container-not-running" Warning
    "A container of the pod does not run."
}
