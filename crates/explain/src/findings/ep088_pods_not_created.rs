//! The API server refuses the pods of a workload, and no pod of the Service runs.

use super::about;

about! {
    /// No pod of the Service runs, and the latest event `FailedCreate` of a workload tells why the
    /// API server refuses its pods. The event does not tell their labels, so the name of the
    /// workload has to begin with that of the Service or with a value of its selector, or the
    /// workload owned a pod that has ended. Only `explain` reads events.
    EP088 "pods-not-created" Error
    "The API server refuses the pods of a workload, and no pod of the Service runs."
}
