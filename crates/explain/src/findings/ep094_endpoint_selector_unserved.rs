//! No running controller maintains the slices of a Service that names an EndpointSelector.

use super::words::start_selector_controller;
use crate::findings::inputs::Behind;
use crate::findings::prelude::*;

about! {
    /// The slices are late (EP050), and the status of the EndpointSelector shows that no controller
    /// has seen it, or not its last change (`status.observedGeneration`). If the status is up to
    /// date, nothing tells whether the controller still runs, and the finding is EP050.
    EP094 "endpoint-selector-unserved" Error may_be_under_way
    "No running controller maintains the slices of a Service that names an EndpointSelector."
}

/// An EndpointSelector that no controller has seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSelectorUnserved {
    pub endpoint_selector: Text,
    /// True if a controller has seen an older version of it.
    pub is_old: bool,
    #[serde(flatten)]
    pub behind: Behind,
}

impl Finding for EndpointSelectorUnserved {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let unseen = inputs.slices_behind().and_then(|behind| {
            let (name, is_old) = inputs.unseen_selector(&behind)?;
            Some(Self { endpoint_selector: name.clone(), is_old, behind })
        });
        unseen.into_iter().collect()
    }

    fn since(&self) -> Option<Timestamp> {
        self.behind.since
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        std::iter::once(read.names_selector(&self.endpoint_selector)).chain(read.slices()).collect()
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        start_selector_controller()
    }

    fn traffic_lost(&self) -> TrafficLost {
        TrafficLost::Some
    }
}

impl fmt::Display for EndpointSelectorUnserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = if self.is_old { "the last change of " } else { "" };
        let name = &self.endpoint_selector;
        self.behind.fmt(f, &format!("no controller has seen {change}EndpointSelector {name}"))
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_controller_that_has_seen_the_endpoint_selector_may_run() {
        let unseen = example("ep094-endpoint-selector-unserved");
        assert!(unseen.finds(Code::EndpointSelectorUnserved) && !unseen.finds(Code::SlicesBehind));
        let status = json!({"status": {"observedGeneration": 1}});
        let seen = unseen.with("EndpointSelector/web-stable", status);
        assert!(seen.finds(Code::SlicesBehind) && !seen.finds(Code::EndpointSelectorUnserved));
    }
}
