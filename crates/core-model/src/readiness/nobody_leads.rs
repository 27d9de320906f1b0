//! Why no pod leads, for events and for explanations.

use serde::Serialize;

use crate::{Pod, Text};

/// The reason why no pod leads by a Lease or by a condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum NobodyLeads {
    /// The Lease does not exist.
    NotFound,
    /// Nobody holds the Lease.
    NotHeld,
    /// The holder has not renewed the Lease for longer than it counts.
    NotRenewed { seconds: i64 },
    /// The identity of the holder names none of the selected pods.
    NotRecognised,
    /// The identity names several of them.
    Ambiguous,
    /// No pod that is ready has the condition.
    NoCondition,
    /// The pod that leads is not ready.
    NotReady { pod: Text },
    /// The pod that leads is being deleted.
    Ending { pod: Text },
    /// The pod of this name, or one of its containers, has started after the last renewal.
    Restarted { pod: Text },
}

impl NobodyLeads {
    /// Returns why a pod that should lead does not. Returns `None` if it is ready.
    pub fn although_chosen(pod: &Pod) -> Option<Self> {
        let name = || pod.key.name.clone();
        if pod.is_terminating() {
            return Some(Self::Ending { pod: name() });
        }
        (!pod.is_ready() || pod.is_terminal()).then(|| Self::NotReady { pod: name() })
    }

    /// Returns the reason as a sentence. `name` is that of the Lease or of the condition. How long
    /// the Lease was not renewed depends on the clock, so the caller adds it.
    pub fn sentence(&self, name: &str, holder: &str) -> String {
        match self {
            Self::NotFound => format!("Lease {name} does not exist"),
            Self::NotHeld => format!("nobody holds Lease {name}"),
            Self::NotRenewed { .. } => format!("\"{holder}\" has not renewed Lease {name}"),
            Self::NotRecognised => {
                format!("\"{holder}\", the holder of Lease {name}, names none of the selected pods")
            }
            Self::Ambiguous => {
                format!("\"{holder}\", the holder of Lease {name}, names several of the selected pods")
            }
            Self::NoCondition => format!("the condition {name} is True of no ready pod"),
            Self::NotReady { pod } => format!("Pod {pod}, which should, is not ready"),
            Self::Ending { pod } => format!("Pod {pod}, which did, is being deleted"),
            Self::Restarted { pod } => {
                format!("Pod {pod} has started since the last renewal of Lease {name}")
            }
        }
    }
}
