//! Objects that tell whether or why the Service works could not be read.

use super::about;

about! {
    /// RBAC forbids you to list them, or the manager's caches do not hold them. The explanation
    /// says what it could decide without them, and its notes name the objects that it could not
    /// read. The status is UNKNOWN if the missing objects might show that the Service works, or
    /// that it does not. It is certain otherwise: slices tell how many endpoints receive traffic,
    /// and pods tell that no endpoint does if no pod is ready. Terminating endpoints, and addresses
    /// that somebody lists as not ready, prove no fault: without pods or Endpoints the status is
    /// UNKNOWN, too. The severity is error if no endpoint receives traffic; `lint` lists only that.
    EP001 "not-known" Warning
    "Objects that tell whether or why the Service works could not be read."
}
