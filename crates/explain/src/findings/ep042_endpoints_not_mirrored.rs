//! The Service's Endpoints are not mirrored to slices.

use kube_endpoint_core_model::well_known::LABEL_SKIP_MIRROR;

use crate::findings::prelude::*;

about! {
    /// The mirroring controller copies Endpoints that another client wrote, unless a label or an
    /// annotation of the Endpoints prevents it. Most clients read slices only.
    EP042 "endpoints-not-mirrored" Error
    "The Service's Endpoints are not mirrored to slices."
}

/// Endpoints that others wrote, and that reach no client that reads slices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointsNotMirrored {
    pub cause: String,
    pub endpoints: Text,
    /// The label or annotation that prevents mirroring.
    pub key: Text,
}

impl Finding for EndpointsNotMirrored {
    /// Whoever prevents mirroring may write slices instead.
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let is_seen = inputs.is_written_by_others() && inputs.options.known.slices;
        if !is_seen || inputs.shows_what_others_wrote() {
            return Vec::new();
        }
        let found = inputs.prevented_mirroring().map(|(cause, key)| Self {
            cause: cause.to_string(),
            endpoints: inputs.service.key.name.clone(),
            key: key.into(),
        });
        found.into_iter().collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.selector(), read.endpoints()]
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let Self { endpoints, key, .. } = self;
        if **key == *LABEL_SKIP_MIRROR {
            let remove = ["label", "endpoints", endpoints, &format!("{key}-")];
            return Remedy::new("Remove the label, unless you will write EndpointSlices yourself")
                .then([Step::kubectl_in(&service.namespace, remove)]);
        }
        // A program elects its leader with this annotation.
        let sentence =
            format!("Write EndpointSlices, or other Endpoints than those with the annotation {key}");
        Remedy::ask(EndpointsWriter, sentence)
    }
}

impl fmt::Display for EndpointsNotMirrored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the Endpoints are not mirrored: {}", self.cause)
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn whoever_prevents_mirroring_may_write_slices() {
        let prevented = example("ep042-endpoints-not-mirrored");
        assert!(prevented.finds(Code::EndpointsNotMirrored));
        assert!(!prevented.finds(Code::NoAddressesWritten), "the cause tells enough");
        let labels = json!({"metadata": {"labels": null}});
        let mirrored = prevented.clone().with("Endpoints/web", labels);
        assert!(!mirrored.finds(Code::EndpointsNotMirrored));
        let written = prevented.and(json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "web-by-hand", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.9.0.1"]}],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        }));
        assert!(!written.finds(Code::EndpointsNotMirrored));
    }
}
