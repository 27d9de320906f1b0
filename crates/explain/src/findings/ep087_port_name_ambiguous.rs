//! Several containers of a pod have a port of the name that the Service asks for.

use super::about;

about! {
    /// A name may occur once in each container. The controllers take the port of the first
    /// container of the pod that has the name, then those of restartable init containers.
    EP087 "port-name-ambiguous" Warning
    "Several containers of a pod have a port of the name that the Service asks for."
}
