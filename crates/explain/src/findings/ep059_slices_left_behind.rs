//! Slices or Endpoints made from pods remain, although the Service selects no pods.

use super::about;

about! {
    /// Clients use these slices, and no controller updates them any more. If there are mirrored
    /// Endpoints of the same name, clients see both. The Endpoints that the endpoints controller
    /// made stay, too, when a Service loses its selector, and the mirroring controller, upstream's
    /// or ours, mirrors them to slices from then on: a frozen copy of all pods, which goes with the
    /// Endpoints. `kubectl endpoints cleanup --yes` deletes these Endpoints, unless clients would
    /// lose the last endpoint of a port with them.
    EP059 "slices-left-behind" Warning
    "Slices or Endpoints made from pods remain, although the Service selects no pods."
}
