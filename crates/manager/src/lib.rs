//! Runs Kubernetes' endpoints, EndpointSlice and EndpointSlice-mirroring controllers in one
//! process, for programs that take their place in kube-controller-manager or bring them to a
//! control plane of their own.
//!
//! ```
//! use std::time::Duration;
//!
//! use kube_endpoint_controllers::{ApiClient, Manager, Settings};
//! use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
//! use serde_json::json;
//!
//! #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
//!         "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
//!     let server = EmbeddedApiServer::builder().build()?;
//!     server.create(service).await.map_err(|status| status.message)?;
//!     let client = ApiClient::for_tests(server.service());
//!     let manager = Manager::new(client, &Settings::default(), server.now(), 42)?;
//!     manager.run(tokio::time::sleep(Duration::from_secs(10))).await?;
//!     assert_eq!(server.count("endpointslices"), 1);
//!     Ok(())
//! }
//! ```
//!
//! This program runs all controllers for ten seconds. The embedded API server takes the place of a
//! cluster; for a real one, make the client with [`connect`] and pass a future that completes on a
//! signal to [`Manager::run`]. Besides the two crates, it needs `k8s-openapi` with the feature of a
//! version of Kubernetes, such as `v1_36`, because libraries leave that choice to the binary; tokio
//! with `macros`, `rt` and `test-util`, which pauses the clock; and serde_json.
//!
//! A [`Manager`] runs the controllers over one informer layer until its shutdown. [`Settings`]
//! configure it. [`Options`] are the command line of the `kube-endpoint-manager` binary;
//! [`Settings::try_from`] validates them.
//!
//! # Features
//!
//! - `endpoints`, `endpointslice`, `mirroring` and `selectors`, on by default, select the
//!   controllers of the build. The endpoint selector controller of `selectors` runs only where
//!   [`Settings::controllers`] names it. Each of them turns `_controllers` on, which is private.
//! - `embedded` adds the `embedded` module: the API server of `--embedded`.
//! - `ui` adds the status page `/ui`.
//! - `otlp` adds the export of traces.

mod certificates;
pub mod command_line;
mod configz;
mod connect;
mod controller_name;
mod discovery;
#[cfg(feature = "embedded")]
pub mod embedded;
mod flag_values;
mod gates;
mod go_duration;
mod leader;
mod line_printer;
mod manager;
mod memory_limit;
mod metrics;
mod open_files;
pub mod options;
mod own_process;
mod own_thread;
#[cfg(any(feature = "_controllers", feature = "ui"))]
mod plan_options;
mod process_metrics;
mod retirement;
mod serve;
mod settings;
mod similar;
mod slis;
mod status;
mod telemetry;
mod traces;
#[cfg(feature = "ui")]
mod ui;
mod write_log;

pub use command_line::{CommandLine, CommandLineError, ConfigFileError};
pub use connect::{ConnectError, connect};
pub use controller_name::ControllerName;
pub use flag_values::flag_values;
pub use gates::{Gate, Gates};
pub use kube_endpoint_api_client::{ApiClient, ClientError, ContentType, client_from_config};
pub use kube_endpoint_api_writer::Clock;
pub use kube_endpoint_core_model::harmless;
pub use kube_endpoint_informer::{PodLogOptions, ReflectorOptions};
pub use kube_endpoint_leader_election::IdentityFile;
pub use leader::connect_for_lease;
pub use line_printer::LinePrinter;
pub use manager::{Manager, ManagerError, ManagerHandle, RunningControllers};
pub use memory_limit::warn_of_memory_limit;
pub use metrics::metrics_recorder;
pub use open_files::{TooFewOpenFiles, raise_open_files_limit};
pub use options::Options;
pub use process_metrics::with_cpu_time;
pub use retirement::{RetirementRefused, check_retirement};
pub use serve::{PageSources, ServeError, Serving};
pub use settings::{
    CipherSuites, InvalidOption, LeaderElectionSettings, LoggingFormat, OpenPaths, RetirementSettings,
    ServingSettings, Settings, TlsVersion, TracingSettings,
};
pub use slis::Slis;
pub use status::{
    CertificateStatus, ControllerStatus, ForeignWriteStatus, LongSyncStatus, ManagerStatus, SlowRetryStatus,
    UnlistedKind,
};
pub use telemetry::log_to_stderr;
pub use traces::{Traces, TracingError};
pub use write_log::print_writes;
