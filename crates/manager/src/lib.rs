//! Composition: options, wiring of the controllers over one informer layer, lifecycle.
//!
//! [`Options`] are the command line; [`Settings`] what they mean once they are checked; a [`Manager`] runs the chosen
//! controllers over one set of stores until it is told to stop. Which controllers can be chosen is a matter of Cargo
//! features: `endpoints`, `endpointslice`, `mirroring`; `embedded` adds an API server of its own.

mod connect;
mod controller_name;
#[cfg(feature = "embedded")]
pub mod embedded;
mod gates;
mod go_duration;
mod manager;
mod metrics;
pub mod narrate;
mod options;
mod settings;
mod telemetry;

pub use connect::{ConnectError, connect};
pub use controller_name::ControllerName;
pub use gates::{Gate, Gates};
pub use kube_endpoint_informer::{ApiClient, client_from_config};
pub use manager::{Manager, ManagerError, RunningControllers};
pub use metrics::metrics_recorder;
pub use options::Options;
pub use settings::{InvalidOption, Settings};
pub use telemetry::log_to_stderr;
