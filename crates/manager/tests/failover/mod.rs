//! Two managers with leader election on one server, under a paused clock: what the standby does and
//! does not do, what it waits for when it takes over, and that nobody writes without the lease.

mod events;
mod lagging;
mod lease_limits;
mod replica;
mod restored;
mod shutdown;
mod standby;
mod views;
