//! The Service is an alias of a DNS name and has no endpoints.

use crate::facts::external_name::service_of;
use crate::findings::prelude::*;

about! {
    /// DNS answers with the name in `spec.externalName`. No controller makes endpoints for it, even
    /// if the Service has a selector.
    EP033 "external-name" Info
    "The Service is an alias of a DNS name and has no endpoints."
}

/// A Service of type ExternalName.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalName {
    /// The Service that the alias means, if it means one.
    #[serde(skip)]
    pub service: Option<ObjectKey>,
}

impl Finding for ExternalName {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let name = inputs.objects.raw.external_names.get(&inputs.service.key);
        let service = name.and_then(|name| service_of(name));
        inputs.is_alias().then_some(Self { service }).into_iter().collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.service(".spec.type", "ExternalName")]
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        if let Some(service) = &self.service {
            let sentence =
                format!("Look at the Service {service}, which the alias means: clients reach its endpoints");
            let show = Step::kubectl_in(&service.namespace, ["describe", "service", &service.name]);
            return Remedy::ask(ServiceOwner, sentence).shown_by([show]);
        }
        Remedy::ask(
            ServiceOwner,
            "Nothing, if clients should reach the DNS name; else set spec.type to ClusterIP and add a selector",
        )
    }
}

impl fmt::Display for ExternalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the Service is an alias of a DNS name (type ExternalName) and has no endpoints")
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn an_external_name_without_the_type_makes_no_alias() {
        let alias = example("ep033-external-name");
        assert!(alias.finds(Code::ExternalName));
        let left =
            alias.with("Service/web", json!({"spec": {"type": "ClusterIP", "clusterIP": "10.96.0.10"}}));
        assert!(!left.finds(Code::ExternalName));
    }
}
