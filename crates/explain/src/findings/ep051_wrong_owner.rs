//! A slice of the Service is owned by another object.

use super::about;

about! {
    /// The slice carries the labels of the Service and of the controller, and its owner reference
    /// names another uid. The garbage collector deletes it when that owner is gone; the controller
    /// replaces it.
    EP051 "wrong-owner" Warning
    "A slice of the Service is owned by another object."
}
