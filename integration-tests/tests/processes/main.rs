//! Tests replicas of the binary as processes, against the API server in a process of its own:
//! signals, outages, a Lease that another client changes, a full disk, slow clients, clients that
//! begin handshakes, few open files, no memory. The server's request log is the witness.
//!
//! The default load suits two cores. This is the full one, with 500 Services, 3,000 pods and
//! client-go's lease times:
//!
//! ```sh
//! cargo build --profile dist -p kube-endpoint-manager
//! KEM_PROCESSES=full KEM_BINARY=$PWD/target/dist/kube-endpoint-manager \
//!     cargo test -p kube-endpoint-integration-tests --test processes -- --nocapture
//! ```
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;
mod conformance;
mod failover;
mod handshakes;
mod lease;
mod limits;
mod memory;
mod outage;
mod slow_clients;
mod taken_back;
mod without_election;
