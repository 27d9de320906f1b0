//! An annotation of the Service overrides its trafficDistribution.

use crate::findings::prelude::*;

about! {
    /// With `service.kubernetes.io/topology-mode: Auto`, or the older
    /// `service.kubernetes.io/topology-aware-hints`, the controllers do not look at
    /// `spec.trafficDistribution`. The severity is warning if topology mode has no effect either
    /// ([EP039](#ep039-topology-hints-withheld)): without the annotation the field would have one.
    EP074 "distribution-overridden" Info
    "An annotation of the Service overrides its trafficDistribution."
}

/// A traffic distribution that the annotation of topology mode overrides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DistributionOverridden {
    pub annotation: Text,
    /// The value of `spec.trafficDistribution`.
    pub value: Text,
    /// True if the annotation has no effect, either.
    pub withheld: bool,
}

impl Finding for DistributionOverridden {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let plan = inputs.hinted_plan().filter(|plan| plan.stats.topology_auto);
        let value = plan.and(inputs.service.traffic_distribution.as_ref());
        let overridden = |(value, annotation): (&Text, &'static str)| Self {
            annotation: annotation.into(),
            value: value.clone(),
            withheld: inputs.withheld_hints().is_some(),
        };
        value.zip(inputs.topology_annotation()).map(overridden).into_iter().collect()
    }

    fn severity(&self) -> Option<Severity> {
        self.withheld.then_some(Severity::Warning)
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.annotation(&self.annotation), read.service(".spec.trafficDistribution", &*self.value)]
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        let sentence = format!(
            "Remove the annotation {} if the field is meant, else unset the field trafficDistribution",
            self.annotation
        );
        Remedy::ask(ServiceOwner, sentence)
    }
}

impl fmt::Display for DistributionOverridden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the annotation {} overrides trafficDistribution: {}", self.annotation, self.value)
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn an_annotation_that_switches_topology_mode_off_overrides_nothing() {
        let auto = example("ep074-distribution-overridden");
        assert!(auto.finds(Code::DistributionOverridden));
        let annotations = json!({"service.kubernetes.io/topology-mode": "Disabled"});
        let off = auto.with("Service/web", json!({"metadata": {"annotations": annotations}}));
        assert!(!off.finds(Code::DistributionOverridden));
    }
}
