//! An Ingress, a route, an APIService or a webhook sends clients to a Service that does not exist.

use crate::facts::references::Reference;
use crate::findings::prelude::*;

about! {
    /// Clients get an error of the proxy (Ingress, Gateway) or of the API server (APIService,
    /// webhook). The finding names Services of the namespace whose names are similar, and other
    /// namespaces that have one of this name: an Ingress sends clients to Services of its own
    /// namespace only.
    EP120 "backend-not-found" Error
    "An Ingress, a route, an APIService or a webhook names a Service that does not exist."
}

/// A reference to a Service that does not exist. `lint` finds it, and `explain` of the object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendNotFound {
    #[serde(flatten)]
    pub reference: Reference,
    /// Services of the namespace with similar names.
    pub similar: Vec<Text>,
    /// Other namespaces with a Service of this name.
    pub elsewhere: Vec<Text>,
}

impl Finding for BackendNotFound {
    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.absent()]
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        let Reference { from, service, .. } = &self.reference;
        let show = Step::kubectl_in(&service.namespace, ["get", "services"]);
        let sentence = match (&*self.similar, &*self.elsewhere) {
            ([one], _) => format!("Name the Service {one} in {from}, if that is meant"),
            (_, [namespace, ..]) => format!(
                "Put {from} and the Service into one namespace: {namespace} has a Service {}",
                service.name
            ),
            _ => format!("Create the Service {service}, or name the right one in {from}"),
        };
        Remedy::ask(ServiceOwner, sentence).shown_by([show])
    }
}

impl fmt::Display for BackendNotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reference { route, service, .. } = &self.reference;
        let of = if route.is_empty() { String::new() } else { format!("of {route} ") };
        write!(f, "clients {of}are sent to the Service {service}, which does not exist")?;
        match &*self.similar {
            [] => {}
            [one] => write!(f, "; a similar name is {one}")?,
            all => write!(f, "; similar names are {}", super::words::names(all))?,
        }
        match &*self.elsewhere {
            [] => Ok(()),
            [one] => write!(f, "; the namespace {one} has one"),
            all => write!(f, "; the namespaces {} have one", super::words::names(all)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn an_ingress_to_an_existing_service_is_no_finding() {
        let missing = example("ep120-backend-not-found");
        assert!(missing.finds(Code::BackendNotFound));
        let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
        let rules = json!([{"http": {"paths": [{"path": "/", "backend": backend}]}}]);
        let right = missing.with("Ingress/front", json!({"spec": {"rules": rules}}));
        assert!(!right.finds(Code::BackendNotFound));
    }
}
