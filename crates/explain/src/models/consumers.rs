//! Models of the programs that read EndpointSlices: to whom they send a client, and why not to the
//! others.
//!
//! Both are functions of a Service and the slices that name it, whoever writes these. They ask no
//! server, so tests, `explain` and simulations can judge slices by their effect on users.
//!
//! - [`kube_proxy`] answers for a client that uses a cluster IP, a node port or a load balancer.
//! - [`core_dns`] answers for a client that asks for the name of a Service or of one of its pods.

pub mod core_dns;
pub mod kube_proxy;
