//! Tests with real processes: replicas of the binary, an API server in a process of its own whose
//! request log is the witness, signals, and a load of pods that change.
//!
//! A [`Scene`] has all of it, and dropping it removes everything. [`Size`] is the size of the load;
//! the default suits a machine with two cores, and `KEM_PROCESSES=full` selects the full one with
//! client-go's lease times. `KEM_BINARY` names another binary than the one of the build, such as a
//! release build.

#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

mod audit_log;
mod binary;
mod cluster;
mod flips;
mod outputs;
mod pages;
mod scene;
mod server;
mod size;
mod witness;

pub use audit_log::read_audit_log;
pub use binary::{binary, plugin};
pub use cluster::{NAMESPACE, objects, service_name};
pub use flips::Flips;
pub use kube_endpoint_processes::{Memory, Process, raise_file_limit};
pub use outputs::{Outputs, writes_of_a_new_manager};
pub use pages::{Pages, free_port};
pub use scene::{LEASE, Replica, Scene};
pub use server::{SCRAPER, ServerConfig, ServerProcess, user_name, user_token};
pub use size::{LeaseTimes, Size};
pub use witness::{Answer, Line, Tenure, Witness, answers, tenures, worst};
