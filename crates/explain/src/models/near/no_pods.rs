//! The likely reasons why no pod has the labels of a selector.

use kube_endpoint_core_model::Text;
use serde::Serialize;

use crate::models::selection::NotSelected;

/// The label of Argo Rollouts, which sets it in selectors, too.
pub(crate) const ROLLOUTS_HASH: &str = "rollouts-pod-template-hash";

/// The likely reason why no pod has the labels of a selector. Serialises with the tag `cause`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "cause", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum NoPods {
    NotKnown,
    /// The selector asks for a label whose value changes with each rollout.
    LabelOfRollout {
        label: Text,
    },
    /// A program sets this label on the pod that has a role, and pods with the other labels exist.
    NoPodHasRole {
        label: Text,
        wanted: Text,
        /// Some of the pods with the other labels.
        pods: Vec<Text>,
        count: usize,
        /// True if there may be more.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        at_least: bool,
        /// True if none of them is ready.
        none_is_ready: bool,
    },
    /// Pods have the role under another value of the label.
    RoleRenamed {
        label: Text,
        wanted: Text,
        found: Text,
        pods: Vec<Text>,
    },
    /// The selector asks for one pod of a StatefulSet.
    PodOfStatefulSet {
        set: Text,
        ordinal: u32,
        /// A pod of the set with a higher ordinal.
        #[serde(skip)]
        later: Option<Text>,
    },
    /// Pods meet all requirements of an EndpointSelector but one.
    AllBut(NotSelected),
    /// A program scales the pods to zero while no client needs them.
    ScaledToZero {
        by: &'static str,
    },
    /// Pods of other clusters serve the Service, too.
    InOtherClusters {
        by: &'static str,
    },
    /// The only pods near the selector are those of one workload, and lack one label.
    PodsLackLabel {
        workload: Text,
        label: Text,
        wanted: Text,
        count: usize,
        /// True if there may be more.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        at_least: bool,
        pods: Vec<Text>,
    },
    /// The pods of a workload with the name of the Service have other labels.
    PodsOfTheName {
        pods: Vec<Text>,
        /// Their labels in place of those of the selector, such as
        /// `app=web (asked: webapp)`.
        differ: Vec<String>,
    },
}
