//! The Service is an alias of an IP address, or of another text that is no DNS name.

use super::about;

about! {
    /// DNS answers with the alias, a name, and clients look that name up. An IP address, or a text
    /// with a scheme, a port or a path, is no name. The API server refuses most such texts, but not
    /// an IPv4 address. The status page does not know `spec.externalName`, and shows EP033.
    EP085 "external-name-invalid" Error
    "The Service is an alias of an IP address, or of another text that is no DNS name."
}
