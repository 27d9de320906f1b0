//! The models of the cluster, computed from the facts: the plans of the controllers, the rules of
//! kube-proxy and CoreDNS, who selects which pods, who made an object. Imports facts only.

pub(crate) mod client;
pub(crate) mod cluster;
pub mod consumers;
pub(crate) mod dead;
pub(crate) mod hand_over;
pub(crate) mod hint;
pub(crate) mod leader;
pub mod leftovers;
pub(crate) mod near;
pub(crate) mod planned;
pub(crate) mod programs;
pub(crate) mod refused;
pub(crate) mod rehearsal;
pub(crate) mod selection;
pub(crate) mod traffic;
pub(crate) mod unwritten;
