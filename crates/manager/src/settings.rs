//! The validated form of the options.

use std::time::Duration;

use kube_endpoint_informer::ReflectorOptions;

use crate::controller_name::ControllerName;
use crate::gates::Gates;
use crate::options::Options;

/// client-go's `rest.DefaultQPS`.
const DEFAULT_QPS: f64 = 5.0;
/// client-go's `rest.DefaultBurst`.
const DEFAULT_BURST: u32 = 10;
/// The most workers of the endpointslice and of the mirroring controller (upstream
/// `maxConcurrentServiceEndpointSyncs`, `mirroringMaxConcurrentServiceEndpointSyncs`).
const MAX_WORKERS: usize = 50;
/// The most workers of the endpoints controller. Upstream has no bounds; without a worker it does nothing.
const MAX_ENDPOINTS_WORKERS: usize = 1000;

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
#[non_exhaustive]
pub struct Settings {
    /// The controllers to run.
    pub controllers: Vec<ControllerName>,
    /// The feature gates.
    pub gates: Gates,
    /// Requests per second to the API server, per controller. A negative value means no limit. Zero is invalid here; the
    /// option `--kube-api-qps=0` stands for client-go's default.
    pub qps: f64,
    /// Requests that a controller may send at once before `qps` applies; at least 1 if `qps` is positive.
    pub burst: u32,
    /// Whether informers ask for the first list as a stream (upstream's gate `WatchListClient`). They list in pages if not,
    /// or if the API server refuses.
    pub watch_list_client: bool,
    /// How kinds are listed and watched; no flag changes it. `watch_list_client` takes precedence over its `streaming_list`,
    /// and its seed is not used.
    pub reflectors: ReflectorOptions,
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
    /// Shortest time between two resyncs of all Services and Endpoints. Each resync waits up to twice as long. Zero turns
    /// them off.
    pub min_resync_period: Duration,
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
            watch_list_client: true,
            reflectors: ReflectorOptions::new(0),
            max_endpoints_per_slice: 100,
            mirroring_max_endpoints_per_subset: 1000,
            endpoint_slice_workers: 5,
            endpoints_workers: 5,
            mirroring_workers: 5,
            endpoint_slice_batch_period: Duration::ZERO,
            endpoints_batch_period: Duration::ZERO,
            mirroring_batch_period: Duration::ZERO,
            min_resync_period: Duration::from_secs(12 * 3600),
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

/// Resolves the client-side rate limit as client-go does (`NewForConfigAndClient` of the clientset, then `RESTClientFor`):
///
/// - A rate of zero means client-go's default. Its default burst applies only if the burst is zero too.
/// - A negative rate means no limit, whatever the burst.
/// - A positive rate needs a burst.
fn request_rate(qps: f64, burst: u32) -> Result<(f64, u32), InvalidOption> {
    if qps == 0.0 {
        return Ok((DEFAULT_QPS, if burst == 0 { DEFAULT_BURST } else { burst }));
    }
    if qps < 0.0 {
        return Ok((qps, burst));
    }
    Ok((qps, in_range("--kube-api-burst", burst, 1, 1_000_000)?))
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
        let upstream_gates = gates.set(&options.feature_gates)?;
        for name in &upstream_gates.ignored {
            tracing::warn!(gate = %name, "a feature gate of kube-controller-manager is ignored: it changes nothing here");
        }
        let (qps, burst) = request_rate(options.kube_api_qps, options.kube_api_burst)?;
        let workers = |option: &str, value: usize| in_range(option, value, 1, MAX_WORKERS);
        Ok(Self {
            controllers: ControllerName::select(&options.controllers)?,
            topology_node_tolerance: in_range(
                "--topology-node-tolerance",
                options.topology_node_tolerance,
                0.0,
                1.0,
            )?,
            gates,
            qps,
            burst,
            watch_list_client: upstream_gates.watch_list_client.unwrap_or(true),
            reflectors: ReflectorOptions::new(0),
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
            endpoints_workers: in_range(
                "--concurrent-endpoint-syncs",
                options.concurrent_endpoint_syncs,
                1,
                MAX_ENDPOINTS_WORKERS,
            )?,
            mirroring_workers: workers(
                "--mirroring-concurrent-service-endpoint-syncs",
                options.mirroring_concurrent_service_endpoint_syncs,
            )?,
            endpoint_slice_batch_period: options.endpointslice_updates_batch_period,
            endpoints_batch_period: options.endpoint_updates_batch_period,
            mirroring_batch_period: options.mirroring_endpointslice_updates_batch_period,
            min_resync_period: options.min_resync_period,
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
            &["--kube-api-qps=NaN"],
            &["--kube-api-burst=0"],
            &["--kube-api-burst=-1"],
            &["--controllers=deployment"],
            &["--compatibility=1.20"],
            &["--feature-gates=Nope=true"],
            &["--leader-elect=true"],
            &["--secure-port=10257"],
            &["--topology-node-tolerance=2"],
            &["--concurrent-service-endpoint-syncs=0"],
            &["--concurrent-service-endpoint-syncs=51"],
            &["--mirroring-concurrent-service-endpoint-syncs=0"],
            &["--mirroring-concurrent-service-endpoint-syncs=51"],
            &["--concurrent-endpoint-syncs=0"],
            &["--concurrent-endpoint-syncs=1001"],
            &["--feature-gates=InOrderInformers=false"],
        ]
        .map(|words| settings(words).unwrap_err());
        insta::assert_snapshot!(errors.join("\n"));
    }

    #[test]
    fn the_rate_limit_is_resolved_as_by_client_go() {
        let check = |qps: &str, burst: &str, want: (f64, u32)| {
            let got = settings(&[&format!("--kube-api-qps={qps}"), &format!("--kube-api-burst={burst}")]);
            let got = got.unwrap();
            assert_eq!((got.qps, got.burst), want, "{qps} {burst}");
        };
        check("0", "0", (5.0, 10));
        check("0", "30", (5.0, 30));
        check("0.5", "1", (0.5, 1));
        check("-1", "0", (-1.0, 0));
        check("-1", "7", (-1.0, 7));
    }

    #[test]
    fn upstreams_bounds_of_workers_are_inclusive() {
        for workers in [1, 50] {
            let got = settings(&[
                &format!("--concurrent-service-endpoint-syncs={workers}"),
                &format!("--mirroring-concurrent-service-endpoint-syncs={workers}"),
            ]);
            let got = got.unwrap();
            assert_eq!([got.endpoint_slice_workers, got.mirroring_workers], [workers; 2]);
        }
    }

    #[test]
    fn a_command_line_of_kube_controller_manager_can_be_copied() {
        let gates =
            "--feature-gates=AllBeta=true,WatchListClient=false,JobManagedBy=false,InOrderInformers=true";
        let got = settings(&[gates, "--feature-gates=kube:DRAAdminAccess=true"]).unwrap();
        assert!(!got.watch_list_client);
        assert_eq!(got.gates, Gates::default());
        assert!(settings(&["--feature-gates=WatchListClient=true"]).unwrap().watch_list_client);
    }

    #[test]
    fn the_upstream_profile_turns_all_gates_off_unless_they_are_set_explicitly() {
        assert_eq!(settings(&["--compatibility=upstream"]).unwrap().gates, Gates::upstream());
        let one = settings(&["--compatibility=upstream", "--feature-gates=NodeZoneResync=true"]).unwrap();
        assert_eq!(one.gates, Gates::upstream().with(Gate::NodeZoneResync, true));
    }
}
