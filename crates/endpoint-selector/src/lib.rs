//! The endpoint selector controller, for programs that run beside kube-controller-manager: it
//! writes the EndpointSlices of Services that have no selector and name an EndpointSelector.
//!
//! ```
//! use kube_endpoint_core_model::{EndpointSelector, Service, StringMap};
//! use serde_json::{from_value, json};
//!
//! let selector: EndpointSelector = from_value(json!({
//!     "metadata": {"name": "web-stable", "namespace": "shop"},
//!     "spec": {"selector": {
//!         "matchLabels": {"app": "web"},
//!         "matchExpressions": [{"key": "track", "operator": "NotIn", "values": ["canary"]}],
//!     }},
//! }))?;
//! // A Service without a selector: kube-controller-manager leaves it alone.
//! let service: Service = from_value(json!({
//!     "metadata": {"name": "web", "namespace": "shop", "annotations": {
//!         "kube-endpoint-manager.github.io/endpoint-selector": "web-stable",
//!     }},
//!     "spec": {"ports": [{"port": 80, "targetPort": "http"}]},
//! }))?;
//! assert_eq!(service.endpoint_selector(), Some(&selector.key.name));
//! let labels = |track: &str| -> StringMap { [("app", "web"), ("track", track)].into_iter().collect() };
//! assert!(selector.selects(&labels("stable")));
//! assert!(!selector.selects(&labels("canary")));
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! | Service | the controller |
//! |---|---|
//! | names an EndpointSelector | writes its slices, with the plan of the endpointslice controller. When one of its endpoints is ready, it deletes the slices that kube-controller-manager left, and the Endpoints if a controller made them |
//! | names one that does not exist or is invalid | removes endpoints whose pod is gone, and adds none |
//! | names one and has a selector | writes nothing, and asks the API server if it could take the Service over |
//! | has a selector again | deletes its own slices when kube-controller-manager's have their ready endpoints |
//! | names none | deletes its own slices |
//!
//! [`hand_over`] decides which slices a hand-over deletes, and [`caretaker`] keeps what nobody
//! maintains free of dead addresses, both without clock, log and client. The feature `controller`,
//! on by default, adds [`SelectorController`].

pub mod caretaker;
#[cfg(feature = "controller")]
pub mod controller;
pub mod hand_over;

#[cfg(test)]
mod fixtures;

#[cfg(feature = "controller")]
pub use controller::{ControllerOptions, SelectorController, buckets};
