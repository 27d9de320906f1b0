//! The Endpoints object differs from what it should be.

use super::about;

about! {
    /// As EP050, for the Endpoints object. kube-proxy and DNS read slices. If no slice is behind,
    /// only clients that read Endpoints miss something, and the severity is info: the endpoints
    /// controller may be switched off on purpose (`--controllers=*,-endpoints-controller`). It is
    /// warning if a controller has written Endpoints of other Services since the slices of this
    /// Service last changed: then the endpoints controller works, and something keeps it from
    /// writing these.
    EP057 "endpoints-behind" Warning may_be_under_way
    "The Endpoints object differs from what it should be."
}
