//! The EndpointSelector has a readiness, and the Service publishes all pods.

use crate::findings::prelude::*;
use crate::models::selection::Selection;

about! {
    /// `publishNotReadyAddresses` makes all endpoints ready, as the Service API says, so clients
    /// are sent to all pods.
    EP098 "readiness-without-effect" Warning
    "The EndpointSelector has a readiness, and the Service publishes all pods."
}

/// A readiness of an EndpointSelector that chooses nothing, because the Service publishes all pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadinessWithoutEffect {
    pub endpoint_selector: Text,
}

impl Finding for ReadinessWithoutEffect {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let Selection::Attached { name, .. } = inputs.selection else { return Vec::new() };
        let has_readiness = inputs.selected_by.is_some_and(|by| by.leads.is_some());
        if !has_readiness || !inputs.service.publish_not_ready_addresses {
            return Vec::new();
        }
        vec![Self { endpoint_selector: name.clone() }]
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![
            read.names_selector(&self.endpoint_selector),
            read.service(".spec.publishNotReadyAddresses", true),
        ]
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        Remedy::ask(
            ServiceOwner,
            format!(
                "Unset publishNotReadyAddresses of the Service, or remove spec.readiness from EndpointSelector {}",
                self.endpoint_selector
            ),
        )
    }
}

impl fmt::Display for ReadinessWithoutEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "publishNotReadyAddresses publishes all pods, so spec.readiness of EndpointSelector {} has no effect",
            self.endpoint_selector
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_readiness_chooses_or_all_pods_are_published() {
        let both = example("ep098-readiness-without-effect");
        assert!(both.finds(Code::ReadinessWithoutEffect));
        let chosen = json!({"spec": {"publishNotReadyAddresses": false}});
        assert!(!both.clone().with("Service/web", chosen).finds(Code::ReadinessWithoutEffect));
        let published = json!({"spec": {"readiness": null}});
        let published = both.with("EndpointSelector/web-leader", published);
        assert!(!published.finds(Code::ReadinessWithoutEffect));
    }
}
