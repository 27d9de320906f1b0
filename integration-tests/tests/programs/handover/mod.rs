//! Tests the hand-over of the three loops from a real kube-controller-manager to this project's
//! binary, and back, on a real API server. The audit log of the API server is the witness.
//!
//! kube-controller-manager runs the loops under a Lease of their own, for which the binary
//! campaigns, too. So the loops run in one of the two at any time.
//!
//! The tests need a cluster on which nothing else runs the loops. The harness ignores them, and
//! says so, unless these environment variables are set:
//!
//! | variable | what it names |
//! |---|---|
//! | `KEM_HANDOVER_KUBECONFIG` | a kubeconfig whose user may do everything, impersonation included |
//! | `KEM_HANDOVER_CONTROLLER_MANAGER` | the binary of kube-controller-manager |
//! | `KEM_HANDOVER_SERVICE_ACCOUNT_KEY` | the private key with which kube-controller-manager signs tokens |
//! | `KEM_HANDOVER_AUDIT_LOG` | the audit log of the API server, with all writes and watches at the level Metadata or above |
//!
//! ```sh
//! cargo test -p kube-endpoint-integration-tests --test programs handover -- --nocapture
//! ```
#![allow(clippy::print_stdout)]

mod cluster;
mod switch;
mod zero_writes;

use kube_endpoint_integration_tests::programs::Tests;
use kube_endpoint_integration_tests::tests;

pub(crate) fn tests() -> Vec<Tests> {
    vec![tests!(cluster::a_cluster =>
        async switch::the_loops_go_from_upstream_to_us_and_back_by_the_name_of_the_lease,
        async switch::the_loops_go_from_upstream_to_us_and_back_by_leader_migration,
        async switch::the_loops_go_to_us_when_an_administrator_releases_the_lease,
        async switch::upstream_hands_over_to_upstream,
        async zero_writes::switches_write_nothing,
    )]
}
