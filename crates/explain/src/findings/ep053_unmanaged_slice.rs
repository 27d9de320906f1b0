//! A slice of the Service names no controller.

use super::about;

about! {
    /// The slice carries the Service's name but no `endpointslice.kubernetes.io/managed-by`. No
    /// controller updates it, and clients use its endpoints. The label is no cure: it changes
    /// nothing for clients.
    EP053 "unmanaged-slice" Warning
    "A slice of the Service names no controller."
}
