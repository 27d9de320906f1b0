//! The Service has a selector, and another client wrote its Endpoints.

use crate::findings::prelude::*;

about! {
    /// The endpoints controller writes the Endpoints of a Service with a selector. Another client
    /// writes them too: each overwrites the other. kube-proxy and DNS read the slices, which the
    /// controller makes from the pods. A program such as Patroni writes the address of its leader;
    /// to stop it harms the program. Since Kubernetes 1.33 the controller labels what it writes.
    /// Endpoints without the label count as those of another client only if their `managedFields`
    /// name one, or, without `managedFields`, if an address names no pod.
    EP061 "endpoints-written-by-others" Warning
    "The Service has a selector, and another client wrote its Endpoints."
}

/// Endpoints that another client wrote, with the effect: most clients read slices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointsWrittenByOthers {
    /// The client that wrote the Endpoints last, if that is known.
    pub by: Option<Text>,
    /// The number of ready addresses that the Endpoints hold.
    pub in_endpoints: usize,
    /// The number of ready endpoints that slices hold, if it is known.
    pub in_slices: Option<usize>,
}

impl Finding for EndpointsWrittenByOthers {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let found = inputs.endpoints_of_others().map(|(endpoints, by)| {
            let in_slices = inputs.slices().iter().flat_map(|slice| &slice.endpoints);
            let in_slices = in_slices.filter(|endpoint| endpoint.conditions.ready != Some(false)).count();
            Self {
                by: by.cloned(),
                in_endpoints: endpoints.subsets.counts().0,
                in_slices: inputs.options.known.slices.then_some(in_slices),
            }
        });
        found.into_iter().collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.endpoints()]
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        let by = self.by.as_deref().unwrap_or("the other client");
        let sentence = format!(
            "Decide which addresses are meant: if those of {by}, remove the selector from the Service and then the slices made from its pods; if the pods, let {by} write Endpoints of another name, and the endpoints controller corrects these"
        );
        Remedy::ask(EndpointsWriter, sentence)
    }
}

impl fmt::Display for EndpointsWrittenByOthers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the Endpoints are not those of the controller")?;
        if let Some(by) = &self.by {
            write!(f, ": {by} wrote them last")?;
        }
        write!(f, "; they hold {}", ready(self.in_endpoints))?;
        match self.in_slices {
            Some(count) => {
                write!(f, ", and the slices, which kube-proxy and DNS read, hold {}", ready(count))
            }
            None => Ok(()),
        }
    }
}

fn ready(count: usize) -> String {
    if count == 1 { "1 ready address".to_owned() } else { format!("{count} ready addresses") }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn endpoints_of_a_controller_may_be_late() {
        let written = example("ep061-endpoints-written-by-others");
        assert!(written.finds(Code::EndpointsWrittenByOthers) && !written.finds(Code::EndpointsBehind));
        let labels = json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"});
        let labelled = written.clone().with("Endpoints/web", json!({"metadata": {"labels": labels}}));
        // A controller before Kubernetes 1.33 writes no label.
        let target = json!({"kind": "Pod", "namespace": "default", "name": "web-0", "uid": "uid-pod-web-0"});
        let subset = json!({
            "addresses": [{"ip": "10.1.0.9", "targetRef": target}],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        });
        let older = written.with("Endpoints/web", json!({"subsets": [subset]}));
        for late in [labelled, older] {
            assert!(late.finds(Code::EndpointsBehind) && !late.finds(Code::EndpointsWrittenByOthers));
        }
    }
}
