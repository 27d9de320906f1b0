//! What the options mean, once they are checked.

use std::path::PathBuf;
use std::time::Duration;

use crate::controller_name::ControllerName;
use crate::gates::Gates;
use crate::options::Options;

/// An option that cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid value {value:?} for {option}: {why}")]
pub struct InvalidOption {
    /// The option.
    pub option: String,
    /// What it was given.
    pub value: String,
    /// What is wrong with that, and what would be right.
    pub why: String,
}

/// Everything that a manager needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the API server is; none means the default places.
    pub kubeconfig: Option<PathBuf>,
    /// The controllers to run.
    pub controllers: Vec<ControllerName>,
    /// Which gates are on.
    pub gates: Gates,
    /// Requests a second, for each controller; negative means no limit.
    pub qps: f64,
    /// Requests at once, for each controller.
    pub burst: u32,
    /// How many endpoints a slice holds at most.
    pub max_endpoints_per_slice: usize,
    /// How many addresses of a subset are mirrored at most.
    pub mirroring_max_endpoints_per_subset: usize,
    /// How many Services the endpointslice controller syncs at once.
    pub endpoint_slice_workers: usize,
    /// How many Services the endpoints controller syncs at once.
    pub endpoints_workers: usize,
    /// How many Endpoints the mirroring controller syncs at once.
    pub mirroring_workers: usize,
    /// How long syncs of slices that pods cause wait for more of the kind.
    pub endpoint_slice_batch_period: Duration,
    /// How long syncs of Endpoints that pods cause wait for more of the kind.
    pub endpoints_batch_period: Duration,
    /// How long syncs of mirrored slices that slices cause wait for more of the kind.
    pub mirroring_batch_period: Duration,
    /// With the gate `TopologyNodeTolerance`: share of the nodes, 0 to 1, that may lack a zone.
    pub topology_node_tolerance: f64,
    /// Seed of names and of jitter.
    pub seed: u64,
}

impl Default for Settings {
    /// Upstream's defaults, with every controller of this build, the gates as they are by default.
    fn default() -> Self {
        Self {
            kubeconfig: None,
            controllers: ControllerName::ALL.into_iter().filter(|name| name.is_built_in()).collect(),
            gates: Gates::default(),
            qps: 20.0,
            burst: 30,
            max_endpoints_per_slice: 100,
            mirroring_max_endpoints_per_subset: 1000,
            endpoint_slice_workers: 5,
            endpoints_workers: 5,
            mirroring_workers: 5,
            endpoint_slice_batch_period: Duration::ZERO,
            endpoints_batch_period: Duration::ZERO,
            mirroring_batch_period: Duration::ZERO,
            topology_node_tolerance: 0.1,
            seed: 0,
        }
    }
}

fn in_range<T: PartialOrd + std::fmt::Display + Copy>(
    option: &str,
    value: T,
    least: T,
    most: T,
) -> Result<T, InvalidOption> {
    if value >= least && value <= most {
        return Ok(value);
    }
    let why = format!("it must be between {least} and {most}");
    Err(InvalidOption { option: option.into(), value: value.to_string(), why })
}

impl TryFrom<&Options> for Settings {
    type Error = InvalidOption;

    fn try_from(options: &Options) -> Result<Self, InvalidOption> {
        let invalid = |option: &str, value: &str, why: &str| InvalidOption {
            option: option.into(),
            value: value.into(),
            why: why.into(),
        };
        if options.leader_elect {
            let why = "leader election is not there yet: run one replica, with --leader-elect=false";
            return Err(invalid("--leader-elect", "true", why));
        }
        if options.secure_port != 0 {
            let why = "serving metrics and health is not there yet: use --secure-port=0";
            return Err(invalid("--secure-port", &options.secure_port.to_string(), why));
        }
        let mut gates = match options.compatibility.as_deref() {
            None => Gates::default(),
            Some("upstream") => Gates::upstream(),
            Some(other) => return Err(invalid("--compatibility", other, "the only profile is `upstream`")),
        };
        gates.set(&options.feature_gates)?;
        if options.kube_api_qps == 0.0 || options.kube_api_qps.is_nan() {
            let why = "it must be above zero, or negative for no limit";
            return Err(invalid("--kube-api-qps", &options.kube_api_qps.to_string(), why));
        }
        let workers = |option: &str, value: usize| in_range(option, value, 1, 1000);
        Ok(Self {
            kubeconfig: options.kubeconfig.clone(),
            controllers: ControllerName::select(&options.controllers)?,
            topology_node_tolerance: in_range(
                "--topology-node-tolerance",
                options.topology_node_tolerance,
                0.0,
                1.0,
            )?,
            gates,
            qps: options.kube_api_qps,
            burst: in_range("--kube-api-burst", options.kube_api_burst, 1, 1_000_000)?,
            max_endpoints_per_slice: in_range(
                "--max-endpoints-per-slice",
                options.max_endpoints_per_slice,
                1,
                1000,
            )?,
            mirroring_max_endpoints_per_subset: in_range(
                "--mirroring-max-endpoints-per-subset",
                options.mirroring_max_endpoints_per_subset,
                1,
                1000,
            )?,
            endpoint_slice_workers: workers(
                "--concurrent-service-endpoint-syncs",
                options.concurrent_service_endpoint_syncs,
            )?,
            endpoints_workers: workers("--concurrent-endpoint-syncs", options.concurrent_endpoint_syncs)?,
            mirroring_workers: workers(
                "--mirroring-concurrent-service-endpoint-syncs",
                options.mirroring_concurrent_service_endpoint_syncs,
            )?,
            endpoint_slice_batch_period: options.endpointslice_updates_batch_period,
            endpoints_batch_period: options.endpoint_updates_batch_period,
            mirroring_batch_period: options.mirroring_endpointslice_updates_batch_period,
            seed: options.seed.unwrap_or_else(seed_of_this_process),
        })
    }
}

/// A seed that differs from process to process: the time and the process id, which need not be secret.
fn seed_of_this_process() -> u64 {
    let now = jiff::Timestamp::now().as_nanosecond();
    (now as u64).rotate_left(17) ^ u64::from(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::Gate;
    use clap::Parser;

    fn settings(words: &[&str]) -> Result<Settings, String> {
        let words = ["kube-endpoint-manager"].iter().chain(words);
        let options = Options::try_parse_from(words).map_err(|error| error.to_string())?;
        Settings::try_from(&options).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_upstreams() {
        let got = Settings { seed: 0, ..settings(&["--leader-elect=false", "--secure-port=0"]).unwrap() };
        assert_eq!(format!("{got:?}"), format!("{:?}", Settings::default()));
    }

    #[test]
    fn what_cannot_be_taken_is_told_what_would_be_right() {
        let errors = [
            &["--max-endpoints-per-slice=0"][..],
            &["--max-endpoints-per-slice=1001"],
            &["--kube-api-qps=0"],
            &["--kube-api-burst=0"],
            &["--controllers=deployment"],
            &["--compatibility=1.20"],
            &["--feature-gates=Nope=true"],
            &["--leader-elect=true"],
            &["--secure-port=10257"],
            &["--topology-node-tolerance=2"],
            &["--concurrent-service-endpoint-syncs=0"],
        ]
        .map(|words| settings(words).unwrap_err());
        insta::assert_snapshot!(errors.join("\n"));
    }

    #[test]
    fn the_upstream_profile_turns_all_gates_off_and_single_gates_can_be_turned_on_again() {
        assert_eq!(settings(&["--compatibility=upstream"]).unwrap().gates, Gates::upstream());
        let one = settings(&["--compatibility=upstream", "--feature-gates=NodeZoneResync=true"]).unwrap();
        assert_eq!(one.gates, Gates::upstream().with(Gate::NodeZoneResync, true));
    }
}
