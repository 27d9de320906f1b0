//! The Service's selector matches no pod, and pods of other namespaces have its labels.

use super::about;

about! {
    /// A Service selects pods of its own namespace. Many namespaces may have the same programs, so
    /// this is only a hint besides [EP030](#ep030-no-pod-matches),
    /// [EP031](#ep031-pods-nearly-match) or [EP067](#ep067-label-keys-differ). Pods that have ended
    /// do not count. `explain` asks the server for such pods only if the selector matches none, and
    /// says nothing if you may not read pods of all namespaces. `lint` compares the namespaces that
    /// it reads; the status page does not.
    EP068 "pods-elsewhere" Info
    "The Service's selector matches no pod, and pods of other namespaces have its labels."
}
