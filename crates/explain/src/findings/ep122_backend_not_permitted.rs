//! A route names the Service from another namespace, and no ReferenceGrant permits that.

use serde_json::Value;

use crate::facts::references::Reference;
use crate::findings::prelude::*;

about! {
    /// The Gateway API lets a route send clients to a Service of another namespace only if a
    /// ReferenceGrant in the namespace of the Service permits it. Other clients of the Service are
    /// served.
    EP122 "backend-not-permitted" Error
    "A route names the Service from another namespace, and no ReferenceGrant permits that."
}

/// A reference that no ReferenceGrant permits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendNotPermitted {
    #[serde(flatten)]
    pub reference: Reference,
}

impl Finding for BackendNotPermitted {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let objects = inputs.objects;
        if objects.grants_unread {
            return Vec::new();
        }
        let of = objects.references_to(&inputs.service.key).filter(|it| it.needs_grant());
        let forbidden = of.filter(|it| !objects.grants.iter().any(|grant| grant.permits(it)));
        forbidden.map(|reference| Self { reference: reference.clone() }).collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.of("ReferenceGrant", &"".into(), ".spec.to", Value::Null)]
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let Reference { from, .. } = &self.reference;
        let show = Step::kubectl_in(&service.namespace, ["get", "referencegrants", "-o", "yaml"]);
        let sentence = format!(
            "Create a ReferenceGrant in {} from {} of {} to the Service {}, or move the route",
            service.namespace, from.kind, from.object.namespace, service.name
        );
        Remedy::ask(ServiceOwner, sentence).shown_by([show])
    }

    fn traffic_lost(&self) -> TrafficLost {
        TrafficLost::Some
    }
}

impl fmt::Display for BackendNotPermitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reference { from, service, .. } = &self.reference;
        write!(
            f,
            "{from} names the Service from another namespace, and no ReferenceGrant in {} permits that",
            service.namespace
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_grant_for_the_kind_and_the_namespace_permits_it() {
        let forbidden = example("ep122-backend-not-permitted");
        assert!(forbidden.finds(Code::BackendNotPermitted));
        let grant = json!({"kind": "ReferenceGrant", "metadata": {"name": "g", "namespace": "default"}, "spec": {
            "from": [{"kind": "HTTPRoute", "namespace": "edge"}], "to": [{"kind": "Service"}]}});
        assert!(!forbidden.and(grant).finds(Code::BackendNotPermitted));
    }
}
