//! The Service has no selector, and nobody has written endpoints for it.

use kube_endpoint_core_model::well_known::LABEL_SERVICE_NAME;

use super::words::each;
use crate::findings::prelude::*;
use crate::models::near::nearest_names;

about! {
    /// The controllers make no endpoints for a Service without a selector. Somebody else has to
    /// write EndpointSlices, or Endpoints, which the mirroring controller copies. If there are
    /// Endpoints with addresses and a similar name, and no Service has that name, the message has
    /// it.
    EP032 "no-selector" Error
    "The Service has no selector, and nobody has written endpoints for it."
}

/// A Service for which nobody selects pods or writes endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NoSelector {
    /// Slices whose names begin with that of the Service, and that name no Service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unlabelled: Vec<Text>,
    /// Endpoints with addresses and without a Service, whose names are similar.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub similar: Vec<Text>,
}

impl Finding for NoSelector {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let known = inputs.options.known;
        let key = &inputs.service.key;
        let nobody_writes = known.slices
            && known.endpoints
            && inputs.slices().is_empty()
            && inputs.objects.endpoints_of(key).is_none();
        if !inputs.is_written_by_others() || !nobody_writes || inputs.names_a_selector_wrongly() {
            return Vec::new();
        }
        let similar = nearest_names(&key.name, inputs.objects.lone_endpoints(&key.namespace));
        let similar = similar.into_iter().map(Text::from).collect();
        vec![Self { unlabelled: inputs.objects.raw.unlabelled_slices(key), similar }]
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.selector()]
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        if let ([], [first, ..]) = (&*self.unlabelled, &*self.similar) {
            let sentence = format!(
                "Look at whether Endpoints {first} are meant for this Service; if so, write them as {}, because Endpoints belong to the Service of their name",
                service.name
            );
            return Remedy::ask(EndpointsWriter, sentence).shown_by(each(&self.similar, |names| {
                let words = [&["get", "endpoints"], names].concat();
                Step::kubectl_in(&service.namespace, words)
            }));
        }
        if self.unlabelled.is_empty() {
            let sentence =
                format!("Set spec.selector, or write an EndpointSlice with the label {LABEL_SERVICE_NAME}");
            return Remedy::ask(ServiceOwner, sentence);
        }
        let sentence = format!(
            "Look at whether the addresses of {} are meant for this Service; if so, label them with {LABEL_SERVICE_NAME}={}",
            names(&self.unlabelled),
            service.name
        );
        Remedy::ask(EndpointsWriter, sentence).shown_by(each(&self.unlabelled, |names| {
            let words = [&["get", "endpointslice"], names, &["-o", "wide"]].concat();
            Step::kubectl_in(&service.namespace, words)
        }))
    }
}

impl fmt::Display for NoSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the Service has no selector, and there are no endpoints for it")?;
        match self.unlabelled.as_slice() {
            [] if self.similar.is_empty() => Ok(()),
            [] => write!(f, "; Endpoints {} have a similar name and no Service", names(&self.similar)),
            [one] => write!(f, "; slice {one} names no Service"),
            more => write!(f, "; slices {} name no Service", names(more)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_written_slice_that_names_the_service_is_enough() {
        assert!(example("ep032-no-selector").finds(Code::NoSelector));
        let unlabelled = example("ep032-slice-without-label");
        assert!(unlabelled.finds(Code::NoSelector));
        let labels = json!({"metadata": {"labels": {"kubernetes.io/service-name": "web"}}});
        assert!(!unlabelled.with("EndpointSlice/web-1", labels).finds(Code::NoSelector));
    }

    #[test]
    fn endpoints_of_a_similar_name_are_told_if_no_service_has_it() {
        let endpoints = |name: &str, subsets: serde_json::Value| json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name, "namespace": "default"}, "subsets": subsets});
        let addresses = || json!([{"addresses": [{"ip": "192.0.2.7"}], "ports": [{"port": 80}]}]);
        let says = |name: &str, subsets| {
            let with = example("ep032-no-selector").and(endpoints(name, subsets));
            with.says(&format!("Endpoints {name} have a similar name"))
        };
        assert!(says("web-db", addresses()) && says("wbe", addresses()));
        assert!(!says("web-config", json!([])) && !says("database", addresses()));
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web-db", "namespace": "default"}, "spec": {"ports": [{"port": 80}]}});
        let of_service = example("ep032-no-selector").and(endpoints("web-db", addresses())).and(service);
        assert!(!of_service.says("similar name"));
    }

    #[test]
    fn a_mistyped_annotation_is_the_cause_instead() {
        let mistyped = example("ep099-annotation-mistyped");
        assert!(mistyped.finds(Code::AnnotationMistyped));
        assert!(!mistyped.finds(Code::NoSelector));
    }
}
