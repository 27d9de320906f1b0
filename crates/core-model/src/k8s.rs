//! Conversions between the views and `k8s-openapi`'s types (feature `k8s-openapi`).
//!
//! | from | to | |
//! |---|---|---|
//! | `&Pod`, `&Service`, `&Node`, `&EndpointSlice`, `&Endpoints` | the view of that name | `TryFrom` |
//! | the views `&EndpointSlice` and `&Endpoints` | the object, as a client sends it | `From` |
//!
//! A conversion gives the same view as deserialising the object's JSON. The version of Kubernetes
//! is a feature of `k8s-openapi`, which the user of this crate chooses.
//!
//! ```
//! use k8s_openapi::api::core::v1 as corev1;
//! use kube_endpoint_core_model::Node;
//!
//! let mut node = corev1::Node::default();
//! node.metadata.name = Some("worker-1".to_owned());
//! node.metadata.labels = Some([("topology.kubernetes.io/zone".to_owned(), "a".to_owned())].into());
//! assert_eq!(Node::try_from(&node)?.zone.as_deref(), Some("a"));
//! # Ok::<(), kube_endpoint_core_model::k8s::ConversionError>(())
//! ```

mod read;
mod write;

/// Why an object has no view.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConversionError {
    /// A pod, Service or node without `metadata.name`.
    #[error("the {kind} has no metadata.name")]
    NoName { kind: &'static str },
    /// `metadata.resourceVersion` is not a number, as the API server writes it.
    #[error("{kind} {name:?}: metadata.resourceVersion {value:?} is not a decimal number")]
    ResourceVersion {
        kind: &'static str,
        name: String,
        /// The value that was found.
        value: String,
    },
    /// A field has a value that the API does not define.
    #[error("{kind} {name:?}: {field} is {value:?}; expected one of {expected}")]
    UnknownValue {
        kind: &'static str,
        name: String,
        field: &'static str,
        /// The value that was found.
        value: String,
        /// The values that the API defines, separated by commas.
        expected: &'static str,
    },
}
