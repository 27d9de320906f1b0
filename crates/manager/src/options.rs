//! Command-line options, with the names and meanings of kube-controller-manager's flags.

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

/// Parses an integer. The error says what a valid value looks like.
fn whole<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| match text.parse::<i128>() {
        Ok(..0) => "it must not be negative",
        Ok(_) => "it is too large",
        Err(_) => "write a whole number, such as 5",
    })
}

/// Parses a number that may have a fraction.
fn number(text: &str) -> Result<f64, &'static str> {
    text.parse().ok().filter(|number: &f64| number.is_finite()).ok_or("write a number, such as 5 or 0.5")
}

/// Kubernetes' endpoints, EndpointSlice and EndpointSlice-mirroring controllers in one small, fast binary.
#[derive(Clone, Debug, Parser)]
#[command(name = "kube-endpoint-manager", version, max_term_width = 110)]
pub struct Options {
    /// Path of the kubeconfig; default: $KUBECONFIG, ~/.kube/config or the pod's service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Controllers to run: `*` enables all, `name` enables one, `-name` disables one
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true,
        long_help = "Controllers to run: `*` enables all, `name` enables one, `-name` disables one, `-*` disables all.\nAll: endpoints-controller, endpointslice-controller, endpointslice-mirroring-controller"
    )]
    pub controllers: Vec<String>,

    /// Maximum number of endpoints in a slice (1 to 1000)
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = whole::<usize>)]
    pub max_endpoints_per_slice: usize,

    /// Maximum number of addresses mirrored from one subset (1 to 1000)
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = whole::<usize>)]
    pub mirroring_max_endpoints_per_subset: usize,

    /// Number of Services that the endpointslice controller syncs concurrently (1 to 50)
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole::<usize>)]
    pub concurrent_service_endpoint_syncs: usize,

    /// Number of Services that the endpoints controller syncs concurrently (1 to 1000)
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole::<usize>)]
    pub concurrent_endpoint_syncs: usize,

    /// Number of Endpoints objects that the mirroring controller syncs concurrently (1 to 50)
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole::<usize>)]
    pub mirroring_concurrent_service_endpoint_syncs: usize,

    /// Delay after a pod change before slices are synced, to batch further changes, such as 500ms
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = go_duration::parse)]
    pub endpointslice_updates_batch_period: Duration,

    /// Delay after a pod change before Endpoints are synced, to batch further changes, such as 500ms
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = go_duration::parse)]
    pub endpoint_updates_batch_period: Duration,

    /// Delay after a slice change before mirrored slices are synced, to batch further changes, such as 500ms
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = go_duration::parse)]
    pub mirroring_endpointslice_updates_batch_period: Duration,

    /// Shortest time between two resyncs of all Services and Endpoints; each waits up to twice as long, 0 turns them off
    #[arg(long, value_name = "DURATION", default_value = "12h0m0s", value_parser = go_duration::parse)]
    pub min_resync_period: Duration,

    /// Requests per second to the API server, per controller; 0 means 5, negative means no limit
    #[arg(long, value_name = "RATE", default_value_t = 20.0, allow_negative_numbers = true, value_parser = number)]
    pub kube_api_qps: f64,

    /// Burst of requests to the API server, per controller; with --kube-api-qps=0, 0 means 10
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = whole::<u32>)]
    pub kube_api_burst: u32,

    /// Elect a leader among replicas; not implemented yet, only `false` is accepted
    #[arg(
        long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    pub leader_elect: bool,

    /// Port for metrics and health; not implemented yet, only `0` (no serving) is accepted
    #[arg(long, value_name = "PORT", default_value_t = 0, value_parser = whole::<u16>)]
    pub secure_port: u16,

    /// Feature gates, as Name=true|false,…: behaviour that differs from kube-controller-manager's
    #[arg(
        long, value_name = "LIST", value_delimiter = ',',
        long_help = format!("Feature gates, as Name=true|false,…: behaviour that differs from kube-controller-manager's.\nThe gates of kube-controller-manager are accepted too, so that its command line can be copied.\n{}", Gates::help())
    )]
    pub feature_gates: Vec<String>,

    /// `upstream` turns all feature gates off, for the behaviour of kube-controller-manager
    #[arg(long, value_name = "PROFILE")]
    pub compatibility: Option<String>,

    /// With the gate TopologyNodeTolerance: share of nodes, 0 to 1, that may lack a zone
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = number)]
    pub topology_node_tolerance: f64,

    /// Seed for the names of new slices and for jitter, to repeat a run; random by default
    #[arg(long, value_name = "N", value_parser = whole::<u64>)]
    pub seed: Option<u64>,

    /// Log level: 0 to 3 info (with --embedded, 0 is warnings only), 4 and 5 debug, 6 and more trace; RUST_LOG
    /// overrides it
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0, value_parser = whole::<u8>)]
    pub verbosity: u8,

    /// Start an embedded API server on loopback with a sample cluster and run against it; needs no cluster
    #[cfg(feature = "embedded")]
    #[arg(long, conflicts_with = "kubeconfig", help_heading = EMBEDDED)]
    pub embedded: bool,

    /// Address on which the embedded API server listens
    #[cfg(feature = "embedded")]
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", requires = "embedded", help_heading = EMBEDDED)]
    pub embedded_address: SocketAddr,

    /// Allow the embedded API server, which has no TLS, to listen on addresses other than loopback
    #[cfg(feature = "embedded")]
    #[arg(long, requires = "embedded", help_heading = EMBEDDED)]
    pub embedded_allow_remote: bool,

    /// Let the embedded API server accept requests without the bearer token that it writes to the kubeconfig
    #[cfg(feature = "embedded")]
    #[arg(long, requires = "embedded", help_heading = EMBEDDED)]
    pub embedded_no_auth: bool,

    /// Manifest (JSON or YAML) to load instead of the sample cluster; may be repeated
    #[cfg(feature = "embedded")]
    #[arg(long, value_name = "FILE", requires = "embedded", help_heading = EMBEDDED)]
    pub embedded_load: Vec<PathBuf>,

    /// Start the embedded API server without objects
    #[cfg(feature = "embedded")]
    #[arg(long, requires = "embedded", help_heading = EMBEDDED, conflicts_with = "embedded_load")]
    pub embedded_empty: bool,

    /// Path to write the kubeconfig of the embedded API server to
    #[cfg(feature = "embedded")]
    #[arg(long, value_name = "FILE", default_value = "embedded.kubeconfig", requires = "embedded", help_heading = EMBEDDED)]
    pub embedded_kubeconfig: PathBuf,
}

impl Options {
    /// The log level for the verbosity, on kube-controller-manager's scale. With `--embedded`, verbosity 0 logs warnings
    /// only, so that logs do not interleave with the printed writes.
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
    fn help_text() {
        insta::assert_snapshot!(Options::command().render_help());
    }
}
