//! The flags of kube-controller-manager that change nothing here, so that users can copy its
//! command line.
//!
//! This program accepts them with a warning that gives the reason, and leaves them out of its help
//! text.

use clap::{Arg, ArgAction, ArgMatches, Command};

use Reason::{
    Address, Credentials, Log, LogLevels, Metrics, Migration, OtherController, Profiling, Socket, Start, Tls,
    Version,
};
use Takes::{Switch, Value};

/// The text after the name of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    /// Nothing, `=true` or `=false`.
    Switch,
    /// A value, after `=` or as the next word.
    Value,
}

/// The reason why a flag changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Address,
    Credentials,
    Log,
    LogLevels,
    Metrics,
    Migration,
    OtherController,
    Profiling,
    Socket,
    Start,
    Tls,
    Version,
}

impl Reason {
    fn text(self) -> &'static str {
        match self {
            Address => "the API server is that of --master, --kubeconfig or the service account",
            Credentials => "all controllers use the credentials of --kubeconfig or the service account",
            Log => "each log line is written to standard error at once",
            LogLevels => "RUST_LOG sets the log levels of single modules",
            Metrics => "all metrics are always exported, with all their labels",
            Migration => {
                "to hand over without overlap, set --leader-elect-resource-name to the Lease of the migrated controllers"
            }
            OtherController => "it is a flag of another controller",
            Profiling => "there are no profiles to serve",
            Socket => "the port is not shared",
            Start => "the controllers start together",
            Tls => "there is one certificate, and the key exchange is the TLS library's choice",
            Version => {
                "the controllers behave as those of Kubernetes 1.36; see --compatibility and --feature-gates"
            }
        }
    }
}

/// The flags, sorted.
const FLAGS: [(&str, Takes, Reason); 97] = [
    ("allocate-node-cidrs", Switch, OtherController),
    ("allow-metric-labels", Value, Metrics),
    ("allow-metric-labels-manifest", Value, Metrics),
    ("attach-detach-reconcile-sync-period", Value, OtherController),
    ("cidr-allocator-type", Value, OtherController),
    ("cloud-config", Value, OtherController),
    ("cloud-provider", Value, OtherController),
    ("cluster-cidr", Value, OtherController),
    ("cluster-name", Value, OtherController),
    ("cluster-signing-cert-file", Value, OtherController),
    ("cluster-signing-duration", Value, OtherController),
    ("cluster-signing-key-file", Value, OtherController),
    ("cluster-signing-kube-apiserver-client-cert-file", Value, OtherController),
    ("cluster-signing-kube-apiserver-client-key-file", Value, OtherController),
    ("cluster-signing-kubelet-client-cert-file", Value, OtherController),
    ("cluster-signing-kubelet-client-key-file", Value, OtherController),
    ("cluster-signing-kubelet-serving-cert-file", Value, OtherController),
    ("cluster-signing-kubelet-serving-key-file", Value, OtherController),
    ("cluster-signing-legacy-unknown-cert-file", Value, OtherController),
    ("cluster-signing-legacy-unknown-key-file", Value, OtherController),
    ("concurrent-cron-job-syncs", Value, OtherController),
    ("concurrent-daemonset-syncs", Value, OtherController),
    ("concurrent-deployment-syncs", Value, OtherController),
    ("concurrent-device-taint-eviction-syncs", Value, OtherController),
    ("concurrent-ephemeralvolume-syncs", Value, OtherController),
    ("concurrent-gc-syncs", Value, OtherController),
    ("concurrent-horizontal-pod-autoscaler-syncs", Value, OtherController),
    ("concurrent-job-syncs", Value, OtherController),
    ("concurrent-namespace-syncs", Value, OtherController),
    ("concurrent-rc-syncs", Value, OtherController),
    ("concurrent-replicaset-syncs", Value, OtherController),
    ("concurrent-resource-quota-syncs", Value, OtherController),
    ("concurrent-resourceclaim-syncs", Value, OtherController),
    ("concurrent-service-syncs", Value, OtherController),
    ("concurrent-serviceaccount-token-syncs", Value, OtherController),
    ("concurrent-statefulset-syncs", Value, OtherController),
    ("concurrent-ttl-after-finished-syncs", Value, OtherController),
    ("concurrent-validating-admission-policy-status-syncs", Value, OtherController),
    ("configure-cloud-routes", Switch, OtherController),
    ("contention-profiling", Switch, Profiling),
    ("controller-start-interval", Value, Start),
    ("disable-attach-detach-reconcile-sync", Switch, OtherController),
    ("disable-force-detach-on-timeout", Switch, OtherController),
    ("disabled-metrics", Value, Metrics),
    ("emulated-version", Value, Version),
    ("enable-dynamic-provisioning", Switch, OtherController),
    ("enable-garbage-collector", Switch, OtherController),
    ("enable-hostpath-provisioner", Switch, OtherController),
    ("enable-leader-migration", Switch, Migration),
    ("external-cloud-volume-plugin", Value, OtherController),
    ("flex-volume-plugin-dir", Value, OtherController),
    ("horizontal-pod-autoscaler-cpu-initialization-period", Value, OtherController),
    ("horizontal-pod-autoscaler-downscale-stabilization", Value, OtherController),
    ("horizontal-pod-autoscaler-initial-readiness-delay", Value, OtherController),
    ("horizontal-pod-autoscaler-sync-period", Value, OtherController),
    ("horizontal-pod-autoscaler-tolerance", Value, OtherController),
    ("large-cluster-size-threshold", Value, OtherController),
    ("leader-migration-config", Value, Migration),
    ("legacy-service-account-token-clean-up-period", Value, OtherController),
    ("log-flush-frequency", Value, Log),
    ("log-json-info-buffer-size", Value, Log),
    ("log-json-split-stream", Switch, Log),
    ("log-text-info-buffer-size", Value, Log),
    ("log-text-split-stream", Switch, Log),
    ("min-compatibility-version", Value, Version),
    ("namespace-sync-period", Value, OtherController),
    ("node-cidr-mask-size", Value, OtherController),
    ("node-cidr-mask-size-ipv4", Value, OtherController),
    ("node-cidr-mask-size-ipv6", Value, OtherController),
    ("node-eviction-rate", Value, OtherController),
    ("node-monitor-grace-period", Value, OtherController),
    ("node-monitor-period", Value, OtherController),
    ("node-startup-grace-period", Value, OtherController),
    ("permit-address-sharing", Switch, Socket),
    ("permit-port-sharing", Switch, Socket),
    ("profiling", Switch, Profiling),
    ("pv-recycler-increment-timeout-nfs", Value, OtherController),
    ("pv-recycler-minimum-timeout-hostpath", Value, OtherController),
    ("pv-recycler-minimum-timeout-nfs", Value, OtherController),
    ("pv-recycler-pod-template-filepath-hostpath", Value, OtherController),
    ("pv-recycler-pod-template-filepath-nfs", Value, OtherController),
    ("pv-recycler-timeout-increment-hostpath", Value, OtherController),
    ("pvclaimbinder-sync-period", Value, OtherController),
    ("resource-quota-sync-period", Value, OtherController),
    ("root-ca-file", Value, OtherController),
    ("route-reconciliation-period", Value, OtherController),
    ("secondary-node-eviction-rate", Value, OtherController),
    ("service-account-private-key-file", Value, OtherController),
    ("service-cluster-ip-range", Value, OtherController),
    ("show-hidden-metrics-for-version", Value, Metrics),
    ("terminated-pod-gc-threshold", Value, OtherController),
    ("tls-curve-preferences", Value, Tls),
    ("tls-sni-cert-key", Value, Tls),
    ("unhealthy-zone-threshold", Value, OtherController),
    ("unsupported-kube-api-over-localhost", Switch, Address),
    ("use-service-account-credentials", Switch, Credentials),
    ("vmodule", Value, LogLevels),
];

/// Adds the flags to a command, hidden.
pub(super) fn add_to(command: Command) -> Command {
    command.args(FLAGS.map(|(name, takes, _)| {
        let arg = Arg::new(name).long(name).hide(true).action(ArgAction::Append);
        match takes {
            Switch => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
            Value => arg.num_args(1).allow_hyphen_values(true),
        }
    }))
}

/// Returns the flags that the user gave, each once, with the reason why it changes nothing.
pub(super) fn given(matches: &ArgMatches) -> impl Iterator<Item = (&'static str, &'static str)> {
    let given = |name: &str| matches.value_source(name).is_some();
    FLAGS.into_iter().filter(move |(name, ..)| given(name)).map(|(name, _, reason)| (name, reason.text()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    /// The flags that `kube-controller-manager --help` of Kubernetes 1.36 lists, one in a line.
    /// `=BOOL` follows those without a value.
    const UPSTREAM: &str = include_str!("kube_controller_manager_flags.txt");

    #[test]
    fn every_flag_of_kube_controller_manager_is_ours_or_ignored() {
        let ignored: BTreeSet<&str> = FLAGS.iter().map(|(name, ..)| *name).collect();
        let command = Options::command();
        let own: BTreeSet<&str> =
            command.get_arguments().filter_map(clap::Arg::get_long).chain(["help", "version"]).collect();
        assert!(own.is_disjoint(&ignored), "{:?}", own.intersection(&ignored));
        let upstream: BTreeSet<&str> = UPSTREAM.lines().map(|line| line.trim_end_matches("=BOOL")).collect();
        assert!(upstream.len() > 140);
        let missing: Vec<_> =
            upstream.iter().filter(|name| !own.contains(*name) && !ignored.contains(*name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        let nobodys: Vec<_> = ignored.difference(&upstream).collect();
        assert!(nobodys.is_empty(), "{nobodys:?}");
    }

    #[test]
    fn a_flag_takes_a_value_if_kube_controller_managers_does() {
        for (name, takes, _) in FLAGS {
            let switch = UPSTREAM.lines().any(|line| line.strip_suffix("=BOOL") == Some(name));
            assert_eq!(takes == Switch, switch, "{name}");
        }
        let command = Options::command();
        for arg in command.get_arguments() {
            let Some(line) =
                UPSTREAM.lines().find(|line| arg.get_long() == Some(line.trim_end_matches("=BOOL")))
            else {
                continue;
            };
            let takes_nothing = arg.get_num_args().is_some_and(|range| range.min_values() == 0);
            assert_eq!(takes_nothing, line.ends_with("=BOOL"), "{line}");
        }
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(FLAGS.is_sorted_by(|one, two| one.0 < two.0));
    }
}
