//! The answer to the question if NetworkPolicies let a client connect to the pods of a Service.

use kube_endpoint_core_model::ObjectKey;
use serde::Serialize;

use crate::facts::answer::Answer;
use crate::models::client::Connections;

/// The client that an explanation is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FromPod {
    pub pod: ObjectKey,
    /// [`Answer::No`] if NetworkPolicies may keep it from the pods; findings say which ones.
    pub is_admitted: Answer,
    /// The answer as one sentence.
    pub message: String,
    /// True if the findings say all of it.
    #[serde(skip)]
    pub(crate) is_told: bool,
}

impl FromPod {
    pub(crate) fn new(pod: &ObjectKey, connections: &Connections) -> Self {
        let Connections { kept, open } = connections;
        let message = match (kept.is_empty(), open.is_empty()) {
            (false, true) => format!("NetworkPolicies may keep pod {pod} from connecting"),
            (true, true) => format!("no NetworkPolicy keeps pod {pod} from connecting to the pods"),
            (is_fine, false) => {
                let other = if is_fine { "" } else { "other " };
                format!(
                    "it is not known if {other}NetworkPolicies keep pod {pod} from connecting: {}",
                    open.join(", and ")
                )
            }
        };
        let is_admitted = match (kept.is_empty(), open.is_empty()) {
            (false, _) => Answer::No,
            (true, true) => Answer::Yes,
            (true, false) => Answer::NotKnown,
        };
        let is_told = is_admitted == Answer::No && open.is_empty();
        Self { pod: pod.clone(), is_admitted, message, is_told }
    }
}
