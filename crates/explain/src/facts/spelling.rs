//! Which annotation of Services a key is nearly.

use kube_endpoint_core_model::well_known::{
    ANNOTATION_ENDPOINT_SELECTOR, ANNOTATION_ENDPOINTS, ANNOTATION_TOPOLOGY_AWARE_HINTS,
    ANNOTATION_TOPOLOGY_MODE, SELECTOR_GROUP,
};
use strsim::levenshtein;

/// The most letters in which the prefix of a key may differ from ours.
const SLIPS: usize = 3;

/// Returns the annotation that a key nearly is. The letters count, and not what separates them.
pub(crate) fn meant(key: &str) -> Option<&'static str> {
    if let Some(annotation) = of_kubernetes(key) {
        return Some(annotation);
    }
    let (prefix, name) = key.rsplit_once('/').unwrap_or(("", key));
    let letters =
        |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
    let [prefix, ours, name] = [prefix, SELECTOR_GROUP, name].map(letters);
    let is_ours = prefix.contains("endpointmanager") || levenshtein(&prefix, &ours) <= SLIPS;
    let is_selector = name == "endpointselector" || is_ours && name.contains("selector");
    let is_endpoints = is_ours && (levenshtein(&name, "endpoints") <= 2 || name.starts_with("retire"));
    let wanted = match (is_selector && (is_ours || prefix.is_empty()), is_endpoints) {
        (true, _) => ANNOTATION_ENDPOINT_SELECTOR,
        (false, true) => ANNOTATION_ENDPOINTS,
        (false, false) => return None,
    };
    (key != wanted).then_some(wanted)
}

/// Returns the annotation of Kubernetes for Services that a key nearly is.
fn of_kubernetes(key: &str) -> Option<&'static str> {
    let known = [ANNOTATION_TOPOLOGY_MODE, ANNOTATION_TOPOLOGY_AWARE_HINTS];
    let nearly = |annotation: &&&str| (1..=SLIPS).contains(&levenshtein(&key.to_lowercase(), annotation));
    known.iter().find(nearly).copied().filter(|_| !known.contains(&key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_nearly_ours_are_known() {
        let selector = Some(ANNOTATION_ENDPOINT_SELECTOR);
        let endpoints = Some(ANNOTATION_ENDPOINTS);
        for (key, want) in [
            ("kube-endpoint-manager.github.io/endpointselector", selector),
            ("kube-endpoint-manager.github.io/endpoint-selectors", selector),
            ("kube-endpoint-manager.github.io/selector", selector),
            ("kube-endpoint-manager.io/endpoint-selector", selector),
            ("kube-endpoint-manger.github.io/endpoint-selector", selector),
            ("kube-endpoint-manager/Endpoint_Selector", selector),
            ("endpoint-selector", selector),
            ("kube-endpoint-manager.github.io/endpoint", endpoints),
            ("kube-endpoint-manager.github.io/retired-until", endpoints),
            ("service.kubernetes.io/topology-mod", Some(ANNOTATION_TOPOLOGY_MODE)),
            ("service.kubernetes.io/topologymode", Some(ANNOTATION_TOPOLOGY_MODE)),
            (ANNOTATION_TOPOLOGY_MODE, None),
            ("service.kubernetes.io/headless", None),
            (ANNOTATION_ENDPOINT_SELECTOR, None),
            (ANNOTATION_ENDPOINTS, None),
            ("endpoints", None),
            ("selector", None),
            ("example.com/endpoint-selector", None),
            ("discovery.k8s.io/endpoint-selector", None),
            ("endpoints.kubernetes.io/last-change-trigger-time", None),
            ("kubectl.kubernetes.io/last-applied-configuration", None),
            ("", None),
        ] {
            assert_eq!(meant(key), want, "{key}");
        }
    }
}
