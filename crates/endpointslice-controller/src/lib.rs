//! The endpointslice controller, for programs that write the EndpointSlices of each Service that
//! has a selector.
//!
//! ```
//! use kube_endpoint_api_client::ApiClient;
//! use kube_endpoint_api_writer::{ApiWriter, Clock, EventRecorder, RequestLimiter};
//! use kube_endpoint_controller_runtime::ControllerContext;
//! use kube_endpoint_endpointslice_controller::{ControllerOptions, EndpointSliceController};
//! use kube_endpoint_informer::Cluster;
//!
//! /// Returns the controller over caches that informers fill. `run()` of it runs until an error.
//! fn controller(client: ApiClient, cluster: Cluster, clock: Clock) -> EndpointSliceController {
//!     let writer = ApiWriter::new(client, RequestLimiter::unlimited(), "my-program/1.0");
//!     let (events, sending) = EventRecorder::new("my-program", writer.clone(), clock, 1);
//!     tokio::spawn(sending);
//!     let context = ControllerContext { cluster, writer, events, clock, seed: 1 };
//!     EndpointSliceController::new(context, ControllerOptions::default())
//! }
//! ```
//!
//! The controller queues Services when they or their pods, nodes or slices change. A sync reads
//! the caches, plans with [`kube_endpoint_slice_plan`] and carries the plan out. [`slices`] has
//! this sync for other controllers, which decide for themselves which Services they sync.

pub mod controller;
mod options;
pub mod slices;

pub use controller::{EndpointSliceController, buckets};
pub use kube_endpoint_controller_runtime::RuntimeOptions;
pub use kube_endpoint_slice_plan::PlanOptions;
pub use options::ControllerOptions;
