//! What follows from the facts: what the controllers plan, what kube-proxy and CoreDNS do with
//! slices, who selects which pods, who made an object. Imports facts only.

pub(crate) mod cluster;
pub mod consumers;
pub(crate) mod hand_over;
pub(crate) mod hint;
pub(crate) mod leader;
pub mod leftovers;
pub(crate) mod near;
pub(crate) mod planned;
pub(crate) mod refused;
pub(crate) mod rehearsal;
pub(crate) mod selection;
pub(crate) mod traffic;
