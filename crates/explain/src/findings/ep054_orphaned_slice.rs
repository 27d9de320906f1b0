//! The Service of a slice does not exist.

use kube_endpoint_core_model::well_known::LABEL_SERVICE_NAME;

use super::words::create_or_clean_up;
use crate::findings::prelude::*;

about! {
    /// One of the controllers manages the slice. Usually the garbage collector deletes it with its
    /// Service, but not if somebody has removed the owner reference.
    EP054 "orphaned-slice" Warning
    "The Service of a slice does not exist."
}

/// A slice whose Service does not exist. `lint` finds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrphanedSlice {
    pub slice: Text,
    /// The Service that the slice names.
    pub service: Text,
}

impl Finding for OrphanedSlice {
    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.label_of_slice(&self.slice, LABEL_SERVICE_NAME), read.absent()]
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        create_or_clean_up(service)
    }
}

impl fmt::Display for OrphanedSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slice {} is for the Service {}, which does not exist", self.slice, self.service)
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_slice_that_no_controller_manages_may_be_there_before_its_service() {
        let left = example("ep054-orphaned-slice");
        assert!(left.finds(Code::OrphanedSlice));
        let labels = json!({"endpointslice.kubernetes.io/managed-by": "example.com-team"});
        let written = left.with("EndpointSlice/web-abcde", json!({"metadata": {"labels": labels}}));
        assert!(!written.finds(Code::OrphanedSlice));
    }
}
