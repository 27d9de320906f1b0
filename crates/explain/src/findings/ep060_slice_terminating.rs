//! A slice of the Service is being deleted and still there.

use std::sync::Arc;

use kube_endpoint_core_model::EndpointSlice;
use serde_json::json;

use crate::findings::prelude::*;
use crate::findings::words::{capital, held};

about! {
    /// A slice with a deletion timestamp stays until somebody removes its finalizers. The
    /// controllers write other slices in its place; clients still see the old one.
    EP060 "slice-terminating" Warning
    "A slice of the Service is being deleted and still there."
}

/// A slice that finalizers hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceTerminating {
    pub slice: Text,
    pub finalizers: Vec<Text>,
}

impl Finding for SliceTerminating {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        if !inputs.options.known.slices {
            return Vec::new();
        }
        let is_ending = |slice: &&Arc<EndpointSlice>| slice.metadata.deletion_timestamp.is_some();
        let found = inputs.slices().iter().filter(is_ending).map(|slice| Self {
            slice: slice.metadata.name.clone(),
            finalizers: slice.metadata.finalizers.clone(),
        });
        found.collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![
            read.slice_deleted(&self.slice),
            read.of("EndpointSlice", &self.slice, ".metadata.finalizers", json!(self.finalizers)),
        ]
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        Remedy::ask(EndpointsWriter, capital(&held(&self.finalizers))).shown_by([Step::finalizers(
            &service.namespace,
            "endpointslice",
            &self.slice,
        )])
    }
}

impl fmt::Display for SliceTerminating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slice {} is being deleted and held by {}", self.slice, names(&self.finalizers))
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_slice_that_nobody_deletes_may_have_finalizers() {
        let deleted = example("ep060-slice-terminating");
        assert!(deleted.finds(Code::SliceTerminating));
        let patch = json!({"metadata": {"deletionTimestamp": null}});
        let kept = deleted.with("EndpointSlice/web-old", patch);
        assert!(!kept.finds(Code::SliceTerminating));
    }
}
