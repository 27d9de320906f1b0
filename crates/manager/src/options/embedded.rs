//! Flags of the embedded API server.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

use super::values::boolean;

/// A sample cluster of the embedded API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EmbeddedSample {
    /// A shop on six nodes
    Shop,
    /// A shop whose Services name EndpointSelectors
    Selectors,
}

/// Flags of the embedded API server.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Embedded API server")]
pub struct EmbeddedOptions {
    /// Start an embedded API server on loopback with a sample cluster and run against it; needs no
    /// cluster
    #[arg(long, conflicts_with_all = ["kubeconfig", "master"])]
    pub embedded: bool,

    /// Address on which the embedded API server listens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", requires = "embedded")]
    pub embedded_address: SocketAddr,

    /// Allow the embedded API server to listen on addresses other than loopback
    #[arg(long, requires = "embedded")]
    pub embedded_allow_remote: bool,

    /// Let the embedded API server accept requests without the bearer token that it writes to the
    /// kubeconfig
    #[arg(long, requires = "embedded")]
    pub embedded_no_auth: bool,

    /// Sample cluster; selectors adds the endpoint selector controller to `*` of --controllers
    #[arg(
        long,
        value_name = "SAMPLE",
        default_value = "shop",
        requires = "embedded",
        conflicts_with_all = ["embedded_load", "embedded_empty"]
    )]
    pub embedded_sample: EmbeddedSample,

    /// Manifest (JSON or YAML) to load instead of the sample cluster; may be repeated
    #[arg(long, value_name = "FILE", requires = "embedded")]
    pub embedded_load: Vec<PathBuf>,

    /// Start the embedded API server without objects
    #[arg(long, requires = "embedded", conflicts_with = "embedded_load")]
    pub embedded_empty: bool,

    /// Range of cluster IPs of the embedded API server, or one range of each IP family, the first
    /// one for Services that ask for no family
    #[arg(
        long,
        value_name = "RANGE[,RANGE]",
        default_value = "10.96.0.0/12,fd00:10:96::/108",
        value_delimiter = ',',
        requires = "embedded"
    )]
    pub embedded_service_cidr: Vec<String>,

    /// Play the kubelet: pods that clients create get a node, an address and, after a second,
    /// Ready, and a deletion ends with its grace period [default: true; false with
    /// --controllers=-*]
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, value_parser = boolean, requires = "embedded",
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    pub embedded_kubelet: Option<bool>,

    /// Path to write the kubeconfig of the embedded API server to
    #[arg(long, value_name = "FILE", default_value = "embedded.kubeconfig", requires = "embedded")]
    pub embedded_kubeconfig: PathBuf,

    /// Address on loopback on which the status page listens; none turns it off
    #[cfg(feature = "ui")]
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", requires = "embedded")]
    pub embedded_ui_address: super::UiAddress,
}

impl EmbeddedOptions {
    /// Returns the sample cluster to load, or `None` if the embedded API server starts without
    /// objects or with those of manifests.
    pub fn sample(&self) -> Option<EmbeddedSample> {
        (!self.embedded_empty && self.embedded_load.is_empty()).then_some(self.embedded_sample)
    }
}
