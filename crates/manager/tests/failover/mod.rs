//! Two managers with leader election on one server, under a paused clock: the standby, its
//! take-over, the shutdown of the leader, and the limits of the lease.

mod events;
mod lagging;
mod lease_limits;
pub(crate) mod replica;
mod restored;
mod selectors;
mod shutdown;
mod standby;
mod taken_back;
mod views;
