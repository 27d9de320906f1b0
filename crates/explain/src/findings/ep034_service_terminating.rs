//! The Service is being deleted.

use super::about;

about! {
    /// The controllers create no slices for a Service with a deletion timestamp, because the
    /// garbage collector would delete them at the same time. Finalizers hold the Service.
    EP034 "service-terminating" Warning
    "The Service is being deleted."
}
