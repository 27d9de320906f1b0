//! An annotation or a label of the Service has nearly the key of an annotation that controllers read.

use super::about;

about! {
    /// Controllers ignore it. If nobody selects pods for the Service because of it, it is an error.
    EP099 "annotation-mistyped" Warning
    "An annotation or a label of the Service has nearly the key of an annotation that controllers read."
}
