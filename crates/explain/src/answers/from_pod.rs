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
        let open = match &**open {
            [] => None,
            open => Some(open.join(", and ")),
        };
        let (is_admitted, message) = match (kept.is_empty(), &open) {
            (false, None) => (Answer::No, format!("NetworkPolicies may keep pod {pod} from connecting")),
            (true, None) => {
                (Answer::Yes, format!("no NetworkPolicy keeps pod {pod} from connecting to the pods"))
            }
            (is_fine, Some(open)) => {
                let (is_admitted, other) =
                    if is_fine { (Answer::NotKnown, "") } else { (Answer::No, "other ") };
                let message = format!(
                    "it is not known if {other}NetworkPolicies keep pod {pod} from connecting: {open}"
                );
                (is_admitted, message)
            }
        };
        let is_told = is_admitted == Answer::No && open.is_none();
        Self { pod: pod.clone(), is_admitted, message, is_told }
    }
}
