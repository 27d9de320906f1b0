//! Views of pods, Services, nodes and slices, and the rules that tell what they mean for endpoints,
//! for controllers, tools and tests: with no client, no runtime and no clock.
//!
//! ```
//! use kube_endpoint_core_model::{Pod, Service, port::slice_ports};
//! use serde_json::{from_value, json};
//!
//! let service: Service = from_value(json!({
//!     "metadata": {"name": "web", "namespace": "default"},
//!     "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http", "protocol": "TCP"}]},
//! }))?;
//! let pod: Pod = from_value(json!({
//!     "metadata": {"name": "web-1", "namespace": "default", "labels": {"app": "web"}},
//!     "spec": {"containers": [{"ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]}]},
//!     "status": {"phase": "Running", "podIP": "10.1.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
//! }))?;
//! assert!(service.selects_pods());
//! assert!(pod.is_ready());
//! assert_eq!(slice_ports(&pod, &service)[0].port, Some(8080));
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! A view holds the fields of an object that endpoint controllers read, and those by which an
//! explanation tells who receives traffic. It deserialises from the API's JSON and skips all other
//! fields while parsing; `null` and absent lists are empty.
//! The rules are plain functions over views. The feature `k8s-openapi` adds conversions from and to
//! that crate's types.
//!
//! A view gets a field when a controller begins to read one, without a new major version: construct
//! views with `..Default::default()`, or deserialise or convert them.

/// Returns the address of a page of the project's documentation, for messages: their readers have
/// no clone.
///
/// ```
/// let page = kube_endpoint_core_model::page_of_docs!("run.md#health-and-status");
/// assert!(page.starts_with("https://") && page.ends_with("/docs/run.md#health-and-status"));
/// ```
#[macro_export]
macro_rules! page_of_docs {
    ($page:literal) => {
        concat!("https://github.com/kube-endpoint-manager/kube-endpoint-manager/blob/main/docs/", $page)
    };
}

pub mod address;
mod backoff;
mod causes;
pub mod change;
pub mod display;
pub mod endpoint_selector;
pub mod endpoints;
pub mod event;
pub mod go_bool;
mod harmless;
pub mod intern;
#[cfg(feature = "k8s-openapi")]
pub mod k8s;
pub mod label_selector;
pub mod lease;
mod log_limit;
pub mod maker;
pub mod meta;
pub mod node;
mod partial;
pub mod pod;
pub mod port;
pub mod protobuf;
pub mod quantity;
pub mod readiness;
pub mod repack;
pub mod retirement;
pub mod service;
pub mod slice;
pub mod slice_labels;
pub mod string_map;
mod subsets;
mod text;
pub mod time;
mod traffic_policies;
pub mod verdict;
pub mod well_known;
mod writes;

pub use address::IpFamily;
pub use backoff::Backoff;
pub use causes::causes;
pub use endpoint_selector::EndpointSelector;
pub use endpoints::Endpoints;
pub use event::{EventType, PlannedEvent};
pub use harmless::{escaped, harmless, harmless_json, is_harmless};
pub use intern::{Intern, Interner};
pub use label_selector::{InvalidLabelSelector, LabelSelector};
pub use lease::Lease;
pub use log_limit::{Admission, LogLimit};
pub use meta::{ObjectKey, ObjectMeta, ObjectReference, OwnerReference, ResourceVersion};
pub use node::{Node, NodeLookup};
pub use partial::writes_without;
pub use pod::Pod;
pub use readiness::{Pick, Readiness, ReadyPods, Role};
pub use service::Service;
pub use slice::{AddressType, Endpoint, EndpointPort, EndpointSlice};
pub use string_map::StringMap;
pub use time::Timestamp;
pub use traffic_policies::TrafficPolicies;
pub use verdict::{LeftOut, PodVerdict, Verdict};
pub use writes::Writes;

/// A shared, immutable string. It takes one pointer, which cloning copies. Comparing two handles of
/// one string compares the pointers only.
pub type Text = arcstr::ArcStr;
