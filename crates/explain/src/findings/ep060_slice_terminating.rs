//! A slice of the Service is being deleted and still there.

use super::about;

about! {
    /// A slice with a deletion timestamp stays until somebody removes its finalizers. The
    /// controllers write other slices in its place; clients still see the old one.
    EP060 "slice-terminating" Warning
    "A slice of the Service is being deleted and still there."
}
