//! Slices or Endpoints made from pods remain, although the Service selects no pods.

use std::sync::Arc;

use kube_endpoint_core_model::EndpointSlice;
use kube_endpoint_core_model::well_known::{
    ANNOTATION_ENDPOINT_SELECTOR, ENDPOINTSLICE_CONTROLLER, SELECTOR_CONTROLLER,
};

use super::words::each;
use crate::findings::prelude::*;
use crate::models::hand_over::made_by_controller;
use crate::models::leftovers::Remains;
use crate::models::selection::Selection;

about! {
    /// Clients use these slices, and no controller updates them any more. If there are mirrored
    /// Endpoints of the same name, clients see both. The Endpoints that the endpoints controller
    /// made stay, too, when a Service loses its selector, and the mirroring controller, upstream's
    /// or ours, mirrors them to slices from then on: a frozen copy of all pods, which goes with the
    /// Endpoints. `kubectl diagnose-svc cleanup --yes` deletes these Endpoints, unless clients
    /// would lose the last endpoint of a port with them.
    EP059 "slices-left-behind" Warning
    "Slices or Endpoints made from pods remain, although the Service selects no pods."
}

/// Slices that were made from pods when the Service selected pods, and Endpoints of this time, from
/// which slices are mirrored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SlicesLeftBehind {
    pub slices: Vec<Text>,
    /// The Endpoints that a controller made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Text>,
    /// The slices that are mirrored from these Endpoints, and go with them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mirrored: Vec<Text>,
    /// True if clients get something from them that no other slice has.
    pub is_needed: bool,
    /// True if some of the slices are those of an EndpointSelector.
    pub was_attached: bool,
    /// True if the Service is an alias, so that no client uses the slices.
    pub is_alias: bool,
}

impl Finding for SlicesLeftBehind {
    /// An alias selects no pods, either.
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        if !matches!(inputs.selection, Selection::None) {
            return Vec::new();
        }
        let is_of_pods = |slice: &&Arc<EndpointSlice>| {
            [ENDPOINTSLICE_CONTROLLER, SELECTOR_CONTROLLER].iter().any(|it| slice.is_managed_by(it))
        };
        let key = &inputs.service.key;
        let of_pods: Vec<_> = inputs.slices().iter().filter(is_of_pods).collect();
        // If an alias has a selector, the endpoints controller goes on with its Endpoints.
        let is_left = inputs.service.selector.is_none() && inputs.options.known.endpoints;
        let endpoints = inputs.objects.endpoints_of(key);
        let endpoints = endpoints.filter(|_| is_left && made_by_controller(inputs.objects, key));
        if of_pods.is_empty() && endpoints.is_none() {
            return Vec::new();
        }
        let remains = Remains::of(inputs.service, endpoints, inputs.slices());
        let was_attached = of_pods.iter().any(|slice| slice.is_managed_by(SELECTOR_CONTROLLER));
        vec![Self {
            slices: of_pods.into_iter().map(|slice| slice.metadata.name.clone()).collect(),
            endpoints: endpoints.map(|_| key.name.clone()),
            mirrored: if endpoints.is_some() { remains.mirrored } else { Vec::new() },
            is_needed: !remains.missed.is_empty(),
            was_attached,
            is_alias: inputs.is_alias(),
        }]
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        read.slices_named(&self.slices)
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let Self { slices, endpoints, is_needed, was_attached, .. } = self;
        let namespace = &*service.namespace;
        let what = self.what();
        if self.is_alias {
            let delete =
                |kind: &str, names: &[&str]| Step::kubectl_in(namespace, [&["delete", kind], names].concat());
            let of_slices = each(slices, |names| delete("endpointslice", names));
            // The slices that are mirrored from the Endpoints go with these.
            let with_them = endpoints.iter().map(|name| delete("endpoints", &[name]));
            return Remedy::new(format!("Delete {what}, which no client of an alias uses"))
                .then(of_slices.chain(with_them));
        }
        let restore = match was_attached {
            true => format!("Restore the annotation {ANNOTATION_ENDPOINT_SELECTOR}"),
            false => "Restore the selector".to_owned(),
        };
        let sentence = match is_needed {
            true => format!("{restore}, or delete {what} once other endpoints are written for the Service"),
            false => format!("{restore}, or delete {what}: no client needs them any more"),
        };
        // It tells who made the Endpoints, and deletes them with --yes if they can go.
        let cleanup = endpoints.iter().map(|_| Step::kubectl(["diagnose-svc", "cleanup", "-n", namespace]));
        let who = if slices.is_empty() { EndpointsWriter } else { ServiceOwner };
        Remedy::ask(who, sentence).shown_by(cleanup)
    }
}

impl fmt::Display for SlicesLeftBehind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slices, endpoints, mirrored, .. } = self;
        let slices = (!slices.is_empty()).then(|| format!("slices made from pods remain: {}", names(slices)));
        let mirrored = if mirrored.is_empty() { "" } else { ", which are mirrored to slices" };
        f.write_str("the Service selects no pods, and ")?;
        match (slices, endpoints) {
            (Some(slices), Some(name)) => write!(f, "{slices}; so do the Endpoints {name}{mirrored}"),
            (Some(slices), None) => f.write_str(&slices),
            (None, Some(name)) => write!(f, "Endpoints made from pods remain{mirrored}: {name}"),
            (None, None) => Ok(()),
        }
    }
}

impl SlicesLeftBehind {
    /// Names what controllers left.
    fn what(&self) -> String {
        match (self.slices.as_slice(), &self.endpoints) {
            (_, None) => "the slices".to_owned(),
            ([], Some(name)) => format!("the Endpoints {name}"),
            (_, Some(name)) => format!("the slices and the Endpoints {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn slices_that_a_user_writes_are_not_left_behind() {
        let left = example("ep059-slices-left-behind");
        assert!(left.finds(Code::SlicesLeftBehind));
        let labels = json!({"endpointslice.kubernetes.io/managed-by": "example.com-team"});
        let written = left.with("EndpointSlice/web-abcde", json!({"metadata": {"labels": labels}}));
        assert!(!written.finds(Code::SlicesLeftBehind));
    }

    #[test]
    fn endpoints_that_a_user_writes_are_meant_to_be_mirrored() {
        let left = example("ep059-with-mirrored-endpoints");
        assert!(left.finds(Code::SlicesLeftBehind));
        let written = json!({
            "metadata": {"labels": null, "managedFields": null},
            "subsets": [{"addresses": [{"ip": "10.9.0.1"}], "ports": [{"name": "http", "port": 8080}]}],
        });
        assert!(!left.with("Endpoints/web", written).finds(Code::SlicesLeftBehind));
    }
}
