//! An annotation of the Service has no effect.

use kube_endpoint_core_model::maker::{CONTROLLERS, KUBE_ENDPOINT_MANAGER};
use kube_endpoint_core_model::retirement::InvalidEndpointsSetting;
use kube_endpoint_core_model::well_known::{
    ANNOTATION_ENDPOINTS, ANNOTATION_TOLERATE_UNREADY, ANNOTATION_TOPOLOGY_AWARE_HINTS,
    ANNOTATION_TOPOLOGY_MODE,
};
use kube_endpoint_core_model::{Service, go_bool};

use crate::findings::evidence;
use crate::findings::prelude::*;

about! {
    /// Kubernetes reads `service.alpha.kubernetes.io/tolerate-unready-endpoints` no longer since
    /// 1.24. If `spec.publishNotReadyAddresses` says the same as the annotation, nothing is missed,
    /// and this is no finding.
    ///
    /// The annotation `service.kubernetes.io/topology-mode` has an effect if its value is `Auto` or
    /// `auto`; `Disabled` says that none is wanted, and a value with a domain is for others.
    ///
    /// The annotation `kube-endpoint-manager.github.io/endpoints` has no effect if its value is
    /// none of its forms, or if kube-controller-manager writes the Endpoints of the Service ([Leave
    /// v1 Endpoints behind](leaving-endpoints.md)).
    EP040 "annotation-ignored" Warning
    "An annotation of the Service has no effect."
}

/// An annotation that a field has replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AnnotationIgnored {
    pub annotation: Text,
    /// Its value.
    pub value: Text,
}

impl Finding for AnnotationIgnored {
    /// Many Services have the annotation besides the field, for old versions.
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let service = inputs.service;
        let is_missed =
            |value: &&Text| go_bool::parse(value).is_some_and(|it| it != service.publish_not_ready_addresses);
        let value = service.annotations.get(ANNOTATION_TOLERATE_UNREADY).filter(is_missed);
        let ignored =
            |value: &Text| Self { annotation: ANNOTATION_TOLERATE_UNREADY.into(), value: value.clone() };
        value.into_iter().map(ignored).chain(unknown_mode(service)).collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.service(evidence::key(".metadata.annotations", &self.annotation), &*self.value)]
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        if *self.annotation != *ANNOTATION_TOLERATE_UNREADY {
            return Remedy::ask(
                ServiceOwner,
                "Remove the annotation, and set spec.trafficDistribution to PreferSameZone if clients should stay in their zone; or write Auto",
            );
        }
        Remedy::ask(
            ServiceOwner,
            "Remove the annotation, and set spec.publishNotReadyAddresses if clients should reach pods that are not ready",
        )
        .then([remove(service, &self.annotation)])
    }
}

impl fmt::Display for AnnotationIgnored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the annotation {}: {:?} has no effect", self.annotation, self.value)
    }
}

/// Returns the annotation that asks for topology in a way that no controller knows. A value with a
/// domain is for another implementation.
fn unknown_mode(service: &Service) -> Option<AnnotationIgnored> {
    let of = |annotation: &'static str| Some((annotation, service.annotations.get(annotation)?));
    let (annotation, value) = of(ANNOTATION_TOPOLOGY_AWARE_HINTS).or_else(|| of(ANNOTATION_TOPOLOGY_MODE))?;
    let is_known =
        matches!(&**value, "Auto" | "auto" | "Disabled" | "disabled" | "") || value.contains(['/', '.']);
    (!is_known).then(|| AnnotationIgnored { annotation: annotation.into(), value: value.clone() })
}

/// An annotation that retires the Endpoints of the Service in vain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RetirementIgnored {
    /// The value of the annotation.
    pub value: Text,
    /// The writer of the Endpoints, which does not know the annotation, or `None` if the value is
    /// invalid.
    pub by: Option<Text>,
}

impl Finding for RetirementIgnored {
    /// Where kube-endpoint-manager writes the Endpoints, it deletes them.
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let service = inputs.service;
        let Some(value) = service.annotations.get(ANNOTATION_ENDPOINTS).cloned() else { return Vec::new() };
        if service.endpoints_setting().is_err() {
            return vec![Self { value, by: None }];
        }
        if !service.selects_pods() || !inputs.options.retires(service, inputs.now) {
            return Vec::new();
        }
        let written = inputs.objects.endpoints_of(&service.key);
        let by = written.and_then(|_| inputs.objects.endpoints_writes.get(&service.key));
        let by = by.map(|write| &write.by).filter(|by| is_upstreams(by)).cloned();
        by.into_iter().map(|by| Self { value: value.clone(), by: Some(by) }).collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.service(evidence::key(".metadata.annotations", ANNOTATION_ENDPOINTS), &*self.value)]
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        if self.by.is_none() {
            return Remedy::ask(ServiceOwner, "Correct the value of the annotation, or remove it");
        }
        Remedy::ask(
            ServiceOwner,
            "Remove the annotation: a Service can live without Endpoints where kube-endpoint-manager runs the endpoints controller, or if an EndpointSelector selects its pods",
        )
        .then([remove(service, ANNOTATION_ENDPOINTS)])
    }
}

impl fmt::Display for RetirementIgnored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, by } = self;
        match by {
            Some(by) => write!(
                f,
                "the annotation {ANNOTATION_ENDPOINTS}, {value:?}, has no effect: {by}, which writes the Endpoints, does not know it"
            ),
            None => write!(
                f,
                "the annotation {ANNOTATION_ENDPOINTS} has no effect, since its value is {value:?}: {InvalidEndpointsSetting}"
            ),
        }
    }
}

fn is_upstreams(writer: &str) -> bool {
    writer != KUBE_ENDPOINT_MANAGER && CONTROLLERS.contains(&writer)
}

fn remove(service: &ObjectKey, annotation: &str) -> Step {
    let remove = ["annotate", "service", &service.name, &format!("{annotation}-")];
    Step::kubectl_in(&service.namespace, remove)
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn nothing_is_missed_if_the_field_says_the_same() {
        let alone = example("ep040-annotation-ignored");
        assert!(alone.finds(Code::AnnotationIgnored));
        let with_field = alone.with("Service/web", json!({"spec": {"publishNotReadyAddresses": true}}));
        assert!(!with_field.finds(Code::AnnotationIgnored));
    }

    #[test]
    fn a_topology_mode_that_nobody_knows_has_no_effect() {
        let alone = example("ep040-annotation-ignored");
        let mode = |mode: &str| {
            let annotations = json!({
                "service.alpha.kubernetes.io/tolerate-unready-endpoints": null,
                "service.kubernetes.io/topology-mode": mode,
            });
            alone.clone().with("Service/web", json!({"metadata": {"annotations": annotations}}))
        };
        assert!(mode("Automatic").finds(Code::AnnotationIgnored));
        for known in ["Auto", "auto", "Disabled", "example.com/nearest"] {
            assert!(!mode(known).finds(Code::AnnotationIgnored), "{known}");
        }
    }

    #[test]
    fn a_writer_that_knows_the_annotation_deletes_the_endpoints() {
        let upstreams = example("ep040-retired-in-vain");
        assert!(upstreams.finds(Code::AnnotationIgnored));
        let label = json!({"f:endpoints.kubernetes.io/managed-by": {}});
        let fields = json!({"f:metadata": {"f:labels": label}, "f:subsets": {}});
        let ours = json!({"metadata": {"managedFields": [{
            "manager": "kube-endpoint-manager",
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-01-01T00:00:06Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }]}});
        assert!(!upstreams.clone().with("Endpoints/web", ours.clone()).finds(Code::AnnotationIgnored));
        let annotations = json!({"kube-endpoint-manager.github.io/endpoints": "retired-until=tomorrow"});
        let invalid = upstreams.with("Service/web", json!({"metadata": {"annotations": annotations}}));
        assert!(invalid.with("Endpoints/web", ours).finds(Code::AnnotationIgnored));
    }
}
