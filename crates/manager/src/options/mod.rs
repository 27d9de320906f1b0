//! Command-line options, with the names and meanings of kube-controller-manager's flags.

mod api_server;
mod controllers;
#[cfg(feature = "embedded")]
mod embedded;
mod ignored;
mod leader_election;
mod logging;
mod selection;
mod serving;
#[cfg(all(feature = "embedded", feature = "ui"))]
mod ui_address;
mod values;

use std::path::PathBuf;

use clap::{ArgMatches, Command, Parser};
use tracing_subscriber::filter::LevelFilter;

pub use api_server::ApiServerOptions;
pub use controllers::{ControllerOptions, EndpointsDefault};
#[cfg(feature = "embedded")]
pub use embedded::{EmbeddedOptions, EmbeddedSample};
pub use leader_election::LeaderElectionOptions;
pub use logging::LoggingOptions;
pub use selection::SelectionOptions;
pub use serving::{AuthOptions, ServingOptions};
#[cfg(all(feature = "embedded", feature = "ui"))]
pub use ui_address::UiAddress;

/// The port of `--secure-port`. kube-controller-manager's is 10257; both may run on one host.
const SECURE_PORT: u16 = 10270;

/// Kubernetes' endpoints, EndpointSlice and EndpointSlice-mirroring controllers in one small, fast
/// binary.
#[derive(Clone, Debug, Parser)]
#[command(name = "kube-endpoint-manager", version, max_term_width = 110, args_override_self = true)]
pub struct Options {
    /// File (YAML) with flags as fields, such as leaderElect: false; flags and KEM_* environment
    /// variables override it
    #[arg(
        long,
        value_name = "FILE",
        long_help = "File (YAML) with flags as fields, in camel case:\n\n    apiVersion: kube-endpoint-manager.config/v1alpha1\n    kind: KubeEndpointManagerConfiguration\n    leaderElect: false\n    featureGates: {SliceCompaction: true}\n\nAn environment variable such as KEM_LEADER_ELECT=false overrides the file, and a flag overrides both."
    )]
    pub config: Option<PathBuf>,
    /// The connection to the API server.
    #[command(flatten)]
    pub api_server: ApiServerOptions,
    /// The controllers.
    #[command(flatten)]
    pub controllers: ControllerOptions,
    /// Leader election.
    #[command(flatten)]
    pub leader_election: LeaderElectionOptions,
    /// Serving metrics, health and status.
    #[command(flatten)]
    pub serving: ServingOptions,
    /// Access to the server.
    #[command(flatten)]
    pub auth: AuthOptions,
    /// Logs and traces.
    #[command(flatten)]
    pub logging: LoggingOptions,
    /// The part of the cluster that the manager works on.
    #[command(flatten)]
    pub selection: SelectionOptions,
    /// The embedded API server.
    #[cfg(feature = "embedded")]
    #[command(flatten)]
    pub embedded: EmbeddedOptions,
}

/// Adds the flags of kube-controller-manager that change nothing here.
pub(crate) fn add_ignored_flags(command: Command) -> Command {
    ignored::add_to(command)
}

/// Returns those of these flags that the user gave, with the reason why they change nothing.
pub(crate) fn ignored_flags(matches: &ArgMatches) -> impl Iterator<Item = (&'static str, &'static str)> {
    ignored::given(matches)
}

impl Options {
    /// Takes a flag with an empty path for one that the user did not give, as
    /// kube-controller-manager does: scripts write `--client-ca-file=`.
    pub(crate) fn unset_empty_paths(&mut self) {
        let Self { api_server, leader_election, serving, auth, .. } = self;
        let paths = [
            &mut api_server.kubeconfig,
            &mut leader_election.leader_elect_identity_file,
            &mut serving.tls_cert_file,
            &mut serving.tls_private_key_file,
            &mut serving.cert_dir,
            &mut auth.client_ca_file,
            &mut auth.authentication_kubeconfig,
            &mut auth.requestheader_client_ca_file,
            &mut auth.authorization_kubeconfig,
        ];
        for path in paths {
            path.take_if(|path| path.as_os_str().is_empty());
        }
    }

    /// Returns true if `--embedded` is given.
    pub fn is_embedded(&self) -> bool {
        #[cfg(feature = "embedded")]
        return self.embedded.embedded;
        #[cfg(not(feature = "embedded"))]
        false
    }

    /// Returns true if replicas elect a leader. They do by default, but not if nothing shares the
    /// API server (`--embedded`), and never in a dry run.
    pub(crate) fn elects_leader(&self) -> bool {
        self.leader_election.leader_elect.unwrap_or(!self.is_embedded()) && !self.api_server.dry_run
    }

    /// Returns the port to serve on, or 0 for none.
    pub fn port(&self) -> u16 {
        self.serving.secure_port.unwrap_or(if self.is_embedded() { 0 } else { SECURE_PORT })
    }

    /// Returns the log level for the verbosity, on kube-controller-manager's scale. With
    /// `--embedded`, verbosity 0 logs warnings only, so that logs do not interleave with the
    /// printed writes.
    pub fn log_level(&self) -> LevelFilter {
        match self.logging.verbosity {
            0 if self.is_embedded() => LevelFilter::WARN,
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

    #[test]
    fn a_flag_that_is_given_again_counts_as_last_given() {
        let options =
            Options::parse_from(["x", "--secure-port=1", "--secure-port=2", "--dry-run", "--dry-run=F"]);
        assert_eq!(options.port(), 2);
        assert!(!options.api_server.dry_run);
    }

    #[test]
    fn leader_election_and_serving_are_on_unless_nothing_shares_the_server() {
        let check = |words: &[&str], want: (bool, u16)| {
            let options = Options::parse_from(["x"].iter().chain(words));
            assert_eq!((options.elects_leader(), options.port()), want, "{words:?}");
        };
        check(&[], (true, 10270));
        check(&["--leader-elect=false", "--secure-port=0"], (false, 0));
        check(&["--dry-run"], (false, 10270));
        check(&["--dry-run", "--leader-elect"], (false, 10270));
        #[cfg(feature = "embedded")]
        check(&["--embedded"], (false, 0));
        #[cfg(feature = "embedded")]
        check(&["--embedded", "--leader-elect", "--secure-port=1"], (true, 1));
    }
}
