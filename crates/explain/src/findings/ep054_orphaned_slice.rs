//! The Service of a slice does not exist.

use super::about;

about! {
    /// One of the controllers manages the slice. Usually the garbage collector deletes it with its
    /// Service, but not if somebody has removed the owner reference.
    EP054 "orphaned-slice" Warning
    "The Service of a slice does not exist."
}
