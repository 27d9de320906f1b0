//! The command line, with kube-controller-manager's names and meanings.

#[cfg(feature = "embedded")]
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Parser};
use tracing_subscriber::filter::LevelFilter;

use crate::gates::Gates;
use crate::go_duration;

#[cfg(feature = "embedded")]
const EMBEDDED: &str = "Embedded API server";

/// Reads a whole number; what is none is told what would be.
fn whole<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| match text.parse::<i128>() {
        Ok(..0) => "it must not be negative",
        Ok(_) => "it is too large",
        Err(_) => "write a whole number, such as 5",
    })
}

/// Reads a number that may have a fraction.
fn number(text: &str) -> Result<f64, &'static str> {
    text.parse().ok().filter(|number: &f64| number.is_finite()).ok_or("write a number, such as 5 or 0.5")
}

/// Kubernetes' endpoints, EndpointSlice and EndpointSlice-mirroring controllers in one small, fast binary.
#[derive(Clone, Debug, Parser)]
#[command(name = "kube-endpoint-manager", version, max_term_width = 110)]
pub struct Options {
    /// Kubeconfig of the API server; without it $KUBECONFIG, ~/.kube/config or the pod's service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Controllers to run: `*` is all, `name` adds one, `-name` takes one away
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true,
        long_help = "Controllers to run: `*` is all, `name` adds one, `-name` takes one away, `-*` is none.\nAll: endpoints-controller, endpointslice-controller, endpointslice-mirroring-controller"
    )]
    pub controllers: Vec<String>,

    /// How many endpoints are put into a slice at most (1 to 1000)
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = whole::<usize>)]
    pub max_endpoints_per_slice: usize,

    /// How many addresses of a subset are mirrored at most (1 to 1000)
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = whole::<usize>)]
    pub mirroring_max_endpoints_per_subset: usize,

    /// How many Services the endpointslice controller syncs at once
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole::<usize>)]
    pub concurrent_service_endpoint_syncs: usize,

    /// How many Services the endpoints controller syncs at once
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole::<usize>)]
    pub concurrent_endpoint_syncs: usize,

    /// How many Endpoints the mirroring controller syncs at once
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole::<usize>)]
    pub mirroring_concurrent_service_endpoint_syncs: usize,

    /// How long syncs of slices wait for more changes of pods, such as 500ms
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = go_duration::parse)]
    pub endpointslice_updates_batch_period: Duration,

    /// How long syncs of Endpoints wait for more changes of pods, such as 500ms
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = go_duration::parse)]
    pub endpoint_updates_batch_period: Duration,

    /// How long syncs of mirrored slices wait for more changes of slices, such as 500ms
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = go_duration::parse)]
    pub mirroring_endpointslice_updates_batch_period: Duration,

    /// Requests a second to the API server, for each controller; negative means no limit
    #[arg(long, value_name = "RATE", default_value_t = 20.0, allow_negative_numbers = true, value_parser = number)]
    pub kube_api_qps: f64,

    /// Requests at once to the API server, for each controller
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = whole::<u32>)]
    pub kube_api_burst: u32,

    /// Elect a leader among replicas; only `false` is there yet
    #[arg(
        long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    pub leader_elect: bool,

    /// Port to serve metrics and health on; only `0`, which serves nothing, is there yet
    #[arg(long, value_name = "PORT", default_value_t = 0, value_parser = whole::<u16>)]
    pub secure_port: u16,

    /// Behaviour that goes past kube-controller-manager's, as Name=true|false,…
    #[arg(
        long, value_name = "LIST", value_delimiter = ',',
        long_help = format!("Behaviour that goes past kube-controller-manager's, as Name=true|false,…\n{}", Gates::help())
    )]
    pub feature_gates: Vec<String>,

    /// `upstream` turns off all that goes past kube-controller-manager's behaviour
    #[arg(long, value_name = "PROFILE")]
    pub compatibility: Option<String>,

    /// With the gate TopologyNodeTolerance: share of the nodes, 0 to 1, that may lack a zone
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = number)]
    pub topology_node_tolerance: f64,

    /// Seed of the names of new slices and of jitter, to repeat a run; random without it
    #[arg(long, value_name = "N", value_parser = whole::<u64>)]
    pub seed: Option<u64>,

    /// How much to log: 0 to 3 what matters (with --embedded, 0 is only what is wrong), 4 and 5 each sync, 6 and more
    /// everything; RUST_LOG goes before
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0, value_parser = whole::<u8>)]
    pub verbosity: u8,

    /// Start an embedded API server on loopback, with a sample cluster, and run against it: no cluster is needed
    #[cfg(feature = "embedded")]
    #[arg(long, conflicts_with = "kubeconfig", help_heading = EMBEDDED)]
    pub embedded: bool,

    /// Where the embedded API server listens
    #[cfg(feature = "embedded")]
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", requires = "embedded", help_heading = EMBEDDED)]
    pub embedded_address: SocketAddr,

    /// Let the embedded API server, which asks nobody who they are, listen on other addresses than loopback
    #[cfg(feature = "embedded")]
    #[arg(long, requires = "embedded", help_heading = EMBEDDED)]
    pub embedded_allow_remote: bool,

    /// Manifests (JSON or YAML) to load in place of the sample cluster; may be given more than once
    #[cfg(feature = "embedded")]
    #[arg(long, value_name = "FILE", requires = "embedded", help_heading = EMBEDDED)]
    pub embedded_load: Vec<PathBuf>,

    /// Start the embedded API server empty
    #[cfg(feature = "embedded")]
    #[arg(long, requires = "embedded", help_heading = EMBEDDED, conflicts_with = "embedded_load")]
    pub embedded_empty: bool,

    /// Where to write the kubeconfig for the embedded API server
    #[cfg(feature = "embedded")]
    #[arg(long, value_name = "FILE", default_value = "embedded.kubeconfig", requires = "embedded", help_heading = EMBEDDED)]
    pub embedded_kubeconfig: PathBuf,
}

impl Options {
    /// What is logged. The verbosity counts as kube-controller-manager's does; but a person who tries the embedded API
    /// server wants to read what the controllers write, and nothing else between.
    pub fn log_level(&self) -> LevelFilter {
        match self.verbosity {
            #[cfg(feature = "embedded")]
            0 if self.embedded => LevelFilter::WARN,
            0..=3 => LevelFilter::INFO,
            4..=5 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }

    #[cfg(feature = "embedded")]
    #[test]
    fn help_reads_well() {
        insta::assert_snapshot!(Options::command().render_help());
    }
}
