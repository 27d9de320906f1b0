//! Flags of the controllers.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::values::whole;
use crate::gates::Gates;
use crate::go_duration;

/// The value of `--endpoints-default`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EndpointsDefault {
    /// The endpoints controller writes Endpoints.
    Published,
    /// No Service has Endpoints of a controller.
    Retired,
}

/// Flags of the controllers, as in kube-controller-manager.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Controllers")]
pub struct ControllerOptions {
    /// Controllers to run: `*` enables those of kube-controller-manager, `name` enables one,
    /// `-name` disables one
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true,
        long_help = "Controllers to run: `*` enables those that are on by default, `name` enables one, `-name` disables one, `-*` disables all.\nAll: endpoints-controller, endpointslice-controller, endpointslice-mirroring-controller, endpoint-selector-controller\nOff by default: endpoint-selector-controller"
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

    /// Number of Services that the endpoint selector controller syncs concurrently (1 to 50)
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole::<usize>)]
    pub concurrent_endpoint_selector_syncs: usize,

    /// How long a sync of slices waits after a change of a pod, to batch further changes, such as
    /// 500ms
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = go_duration::parse)]
    pub endpointslice_updates_batch_period: Duration,

    /// How long a sync of Endpoints waits after a change of a pod, to batch further changes, such
    /// as 500ms
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = go_duration::parse)]
    pub endpoint_updates_batch_period: Duration,

    /// `retired` deletes all v1 Endpoints that controllers made, and does not run the endpoints
    /// controller
    #[arg(long, value_name = "DEFAULT", value_enum, default_value_t = EndpointsDefault::Published)]
    pub endpoints_default: EndpointsDefault,

    /// Namespaces whose Services have no v1 Endpoints, unless their annotation
    /// kube-endpoint-manager.github.io/endpoints is `published`
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub endpoints_retired_namespaces: Vec<String>,

    /// Why nothing needs the Endpoints that are retired, although the API server reads Endpoints
    /// itself: up to 1.33 for aggregated APIs and webhooks, up to 1.36 for services/NAME/proxy
    #[arg(long, value_name = "REASON")]
    pub endpoints_retired_accept: Option<String>,

    /// Field managers under which kube-controller-manager writes in this cluster, besides its own
    /// name, k3s, kubelite and microshift; the name is that of the program that it runs in
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub controller_field_managers: Vec<String>,

    /// How long a sync of mirrored slices waits after a change of a slice, to batch further
    /// changes, such as 500ms
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = go_duration::parse)]
    pub mirroring_endpointslice_updates_batch_period: Duration,

    /// Shortest time between two resyncs of all Services and Endpoints; the longest is twice that;
    /// at least 1s; 0 turns resyncs off
    #[arg(long, value_name = "DURATION", default_value = "12h0m0s", value_parser = go_duration::parse)]
    pub min_resync_period: Duration,

    /// How long the program syncs queued keys after SIGTERM, without leader election
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration::parse)]
    pub controller_shutdown_timeout: Duration,

    /// Feature gates, as Name=true|false,…: behaviour that differs from kube-controller-manager's
    #[arg(
        long, value_name = "LIST", value_delimiter = ',',
        long_help = format!("Feature gates, as Name=true|false,…: behaviour that differs from kube-controller-manager's.\nThe gates of kube-controller-manager are accepted too, so that its command line can be copied.\n{}", Gates::help())
    )]
    pub feature_gates: Vec<String>,

    /// `upstream` turns all feature gates off, for the behaviour of kube-controller-manager
    #[arg(long, value_name = "PROFILE")]
    pub compatibility: Option<String>,

    /// Seed for the names of new slices and for jitter, to repeat a run; random by default
    #[arg(long, value_name = "N", value_parser = whole::<u64>)]
    pub seed: Option<u64>,
}
