//! The validated form of the options.

use std::time::Duration;

use crate::controller_name::ControllerName;
use crate::gates::Gates;
use crate::options::Options;

/// An invalid option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid value {value:?} for {option}: {why}")]
pub struct InvalidOption {
    /// The option.
    pub option: String,
    /// The rejected value.
    pub value: String,
    /// Why it is invalid, and which values are valid.
    pub why: String,
}

/// The configuration of a [`Manager`](crate::Manager).
#[derive(Clone, Debug)]
pub struct Settings {
    /// The controllers to run.
    pub controllers: Vec<ControllerName>,
    /// The feature gates.
    pub gates: Gates,
    /// Requests per second to the API server, per controller. A negative value means no limit.
    pub qps: f64,
    /// Requests that a controller may send at once before `qps` applies.
    pub burst: u32,
    /// Maximum number of endpoints in a slice.
    pub max_endpoints_per_slice: usize,
    /// Maximum number of addresses that are mirrored from one subset.
    pub mirroring_max_endpoints_per_subset: usize,
    /// Number of Services that the endpointslice controller syncs concurrently.
    pub endpoint_slice_workers: usize,
    /// Number of Services that the endpoints controller syncs concurrently.
    pub endpoints_workers: usize,
    /// Number of Endpoints objects that the mirroring controller syncs concurrently.
    pub mirroring_workers: usize,
    /// Delay between a pod change and the sync of its slices, to batch further changes.
    pub endpoint_slice_batch_period: Duration,
    /// Delay between a pod change and the sync of its Endpoints, to batch further changes.
    pub endpoints_batch_period: Duration,
    /// Delay between a change of a mirrored slice and its sync, to batch further changes.
    pub mirroring_batch_period: Duration,
    /// With the gate `TopologyNodeTolerance`: the share of nodes, 0 to 1, that may lack a zone.
    pub topology_node_tolerance: f64,
}

impl Default for Settings {
    /// kube-controller-manager's defaults, all controllers of this build, and the default feature gates.
    fn default() -> Self {
        Self {
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
            let why = "leader election is not implemented yet; run one replica with --leader-elect=false";
            return Err(invalid("--leader-elect", "true", why));
        }
        if options.secure_port != 0 {
            let why = "serving metrics and health is not implemented yet; use --secure-port=0";
            return Err(invalid("--secure-port", &options.secure_port.to_string(), why));
        }
        let mut gates = match options.compatibility.as_deref() {
            None => Gates::default(),
            Some("upstream") => Gates::upstream(),
            Some(other) => return Err(invalid("--compatibility", other, "the only profile is `upstream`")),
        };
        gates.set(&options.feature_gates)?;
        if options.kube_api_qps == 0.0 || options.kube_api_qps.is_nan() {
            let why = "it must be greater than zero, or negative for no limit";
            return Err(invalid("--kube-api-qps", &options.kube_api_qps.to_string(), why));
        }
        let workers = |option: &str, value: usize| in_range(option, value, 1, 1000);
        Ok(Self {
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
        })
    }
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
        let got = settings(&["--leader-elect=false", "--secure-port=0"]).unwrap();
        assert_eq!(format!("{got:?}"), format!("{:?}", Settings::default()));
    }

    #[test]
    fn errors_name_the_valid_values() {
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
    fn the_upstream_profile_turns_all_gates_off_unless_they_are_set_explicitly() {
        assert_eq!(settings(&["--compatibility=upstream"]).unwrap().gates, Gates::upstream());
        let one = settings(&["--compatibility=upstream", "--feature-gates=NodeZoneResync=true"]).unwrap();
        assert_eq!(one.gates, Gates::upstream().with(Gate::NodeZoneResync, true));
    }
}
