//! Leader election on a Lease of `coordination.k8s.io`, with the rules of client-go's
//! `tools/leaderelection`, for programs that run as several replicas, one of them active.
//!
//! ```
//! use kube_endpoint_api_client::ApiClient;
//! use kube_endpoint_api_writer::Clock;
//! use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
//! use kube_endpoint_leader_election::{Elector, ElectorOptions, Ended, LastWrites, Leadership};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // In a cluster, `kube_endpoint_api_client::client_from_config` makes the client.
//!     let server = EmbeddedApiServer::builder().build()?;
//!     let client = ApiClient::for_tests(server.service());
//!     let options = ElectorOptions::new("kube-system", "my-controller", "replica-1");
//!     let clock = Clock::starting_at(server.now());
//!     let (elector, mut leadership) = Elector::new(client, options, clock, 42)?;
//!     let work = async move {
//!         while !matches!(*leadership.borrow(), Leadership::Leading { .. }) {
//!             leadership.changed().await.ok()?;
//!         }
//!         // Here this process is the only one that writes.
//!         Some(LastWrites::default())
//!     };
//!     assert_eq!(elector.run(work).await?, Ended::Released);
//!     assert_eq!(server.count("leases"), 1);
//!     Ok(())
//! }
//! ```
//!
//! An [`Elector`] tries to acquire the Lease. While it holds the Lease, it renews it. It publishes
//! its role as [`Leadership`]. A leader that cannot renew the Lease in time has lost it for good:
//! [`Elector::run`] returns an error, and the process must exit. So a process is a standby, then
//! perhaps the leader, then ends.
//!
//! # Rules
//!
//! - **Clocks of different hosts are never compared.** The times in a Lease are information for
//!   people. A Lease expires when this process has not seen its record change for the record's
//!   `leaseDurationSeconds`, on its own monotonic clock. As with client-go, a clock that stands
//!   still while the process does not know it, as in a suspended virtual machine, defeats the
//!   rules.
//! - **A leader's time is counted from the start of a request.** [`Leadership::Leading`] has the
//!   time until which the leader may begin writes: the start of the last successful renewal plus
//!   the renew deadline. The API server carried out the renewal after its start, so every standby
//!   sees it later than that, and waits for longer: the lease duration exceeds the renew deadline.
//! - **Every write has the Lease's version as its precondition,** and is sent once. If its answer
//!   is lost, the Lease is read back.
//! - **A standby polls, and it watches.** The watch shows a released Lease at once, and when the
//!   leader renewed the Lease. If the watch fails, polling goes on as in client-go.
//! - **A Lease that somebody else deletes, or empties by hand, is not free at once.** A standby
//!   that saw the leader's record waits until that record would have expired, so a leader that is
//!   alive keeps the Lease. client-go takes such a Lease at once, and two processes lead until the
//!   old leader's next renewal. The fields of coordinated leader election (`strategy`,
//!   `preferredHolder`) are left as they are.
//!
//! - **A process that is proven dead needs no expiry.** A process that starts in the place of a
//!   killed one may take its Lease back at once ([`Elector::with_former`]). The proof is the lock
//!   of an [`IdentityFile`]. Nothing else is one: neither the status of a pod nor a host name.
//!
//! # Last writes
//!
//! A leader that stops on request releases the Lease. With it, in the annotation
//! [`LAST_WRITES_ANNOTATION`], it leaves the versions of its last writes for its successor, whose
//! caches may not show them yet. See [`LastWrites`].

mod action;
mod elector;
mod health;
mod identity_file;
mod leadership;
mod lease;
mod metrics;
mod observation;
mod options;
mod requests;
mod state;
mod watch;

pub use elector::{Elector, LowerVersion};
pub use health::{LeaseHealth, LeaseOverdue};
pub use identity_file::{CRASH_PERIOD, IdentityFile, IdentityFileError, Machine, NoFormer, Record};
pub use leadership::{
    Ended, LAST_WRITES_ANNOTATION, LastWrites, LeaderElectionError, Leadership, Predecessor,
};
pub use metrics::{LEASE_HELD, LEASE_TAKEN_BACK, MASTER_STATUS, SLOWPATH};
pub use options::{ElectorOptions, InvalidElectorOptions, RESERVED};
