//! Random changes of a cluster, and faults of its server.

pub(crate) mod cluster;
pub(crate) mod objects;
pub(crate) mod ops;
