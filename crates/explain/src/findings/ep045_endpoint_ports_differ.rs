//! No endpoint written for the Service has the port that the Service asks for.

use super::about;

about! {
    /// The Service has no selector. kube-proxy matches the ports of a slice with those of the
    /// Service by name and protocol; a port without a name matches a port without a name, and it
    /// ignores ports without a number. Mirrored slices have the port names of the Endpoints. If
    /// endpoints have some of the Service's ports, or those of one IP family have them, the
    /// severity is warning. [EP050](#ep050-slices-behind) reports ports of the Endpoints that their
    /// mirrored slices lack.
    EP045 "endpoint-ports-differ" Error
    "No endpoint written for the Service has the port that the Service asks for."
}
