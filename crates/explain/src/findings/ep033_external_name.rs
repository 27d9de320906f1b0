//! The Service is an alias of a DNS name and has no endpoints.

use super::about;

about! {
    /// DNS answers with the name in `spec.externalName`. No controller makes endpoints for it, even
    /// if the Service has a selector.
    EP033 "external-name" Info
    "The Service is an alias of a DNS name and has no endpoints."
}
