//! The reasons why a cluster cannot be judged, each with what to do.

use kube_endpoint_controllers::ConnectError;

use super::{ConformanceError, LABEL};

/// An error that ends a run without a report.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// The kubeconfig makes no client.
    #[error(transparent)]
    Kubeconfig(#[from] ConnectError),
    #[error(
        "{address} does not answer: {why}. Check that the cluster runs, and that the current context of the kubeconfig names it"
    )]
    NoAnswer { address: String, why: String },
    #[error(
        "the user of the kubeconfig may not {}: give the kubeconfig of an administrator of a test cluster",
        .0.join(", ")
    )]
    Forbidden(Vec<String>),
    #[error(
        "an earlier run has left {}, or another run goes on: wait for its end, or run 'kubectl delete namespaces,nodes -l {LABEL}'",
        .0.join(", ")
    )]
    Leftovers(Vec<String>),
    #[error(
        "the cluster has a node {0}, and the recordings create one with this name: give a cluster without it"
    )]
    NodeTaken(String),
    #[error(
        "only some of the loops run in this cluster: {on} write, {off} do not. Turn all three on, or all three off"
    )]
    SomeLoops { on: String, off: String },
    #[error(
        "the loops run in this cluster already (written by {0}), and --upstream would start them a second time: leave --upstream out, or turn those of the cluster off"
    )]
    UpstreamRuns(String),
    #[error("interrupted; the namespaces and nodes of this run are deleted")]
    Interrupted,
    #[error(
        "interrupted; not all that this run has created is deleted: {0}. Run 'kubectl delete namespaces,nodes -l {LABEL}'"
    )]
    NotTidied(String),
    /// A request failed that does not belong to a recording.
    #[error(transparent)]
    Request(#[from] ConformanceError),
}
