//! The Service's trafficDistribution has an unknown value.

use crate::findings::prelude::*;

about! {
    /// The controllers know `PreferSameZone`, `PreferClose` (its older name) and `PreferSameNode`.
    /// They leave other values to other implementations.
    EP038 "unknown-traffic-distribution" Warning
    "The Service's trafficDistribution has an unknown value."
}

/// A traffic distribution that the controllers do not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnknownTrafficDistribution {
    pub value: Text,
}

impl Finding for UnknownTrafficDistribution {
    /// With topology mode, the controllers do not read the field.
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let plan = inputs.hinted_plan();
        let plan = plan.filter(|it| !it.stats.topology_auto && it.stats.traffic_distribution.is_none());
        let value = plan.and(inputs.service.traffic_distribution.clone());
        value.into_iter().map(|value| Self { value }).collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.service(".spec.trafficDistribution", &*self.value)]
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        Remedy::ask(
            ServiceOwner,
            "Use PreferSameZone or PreferSameNode (before Kubernetes 1.34 PreferClose), or unset the field",
        )
    }
}

impl fmt::Display for UnknownTrafficDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the field trafficDistribution is {:?}, which has no effect", self.value)
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn the_older_name_of_a_value_is_known() {
        let unknown = example("ep038-unknown-traffic-distribution");
        assert!(unknown.finds(Code::UnknownTrafficDistribution));
        let close = json!({"spec": {"trafficDistribution": "PreferClose"}});
        assert!(!unknown.with("Service/web", close).finds(Code::UnknownTrafficDistribution));
    }
}
