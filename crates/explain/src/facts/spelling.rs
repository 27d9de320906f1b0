//! How near two texts are, and which annotation of Services a key is nearly.

use kube_endpoint_core_model::well_known::{
    ANNOTATION_ENDPOINT_SELECTOR, ANNOTATION_ENDPOINTS, ANNOTATION_TOPOLOGY_AWARE_HINTS,
    ANNOTATION_TOPOLOGY_MODE, SELECTOR_GROUP,
};

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
    let is_ours = prefix.contains("endpointmanager") || edits(&prefix, &ours) <= SLIPS;
    let is_selector = name == "endpointselector" || is_ours && name.contains("selector");
    let is_endpoints = is_ours && (edits(&name, "endpoints") <= 2 || name.starts_with("retire"));
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
    let nearly = |annotation: &&&str| (1..=SLIPS).contains(&edits(&key.to_lowercase(), annotation));
    known.iter().find(nearly).copied().filter(|_| !known.contains(&key))
}

/// Returns the number of single-character edits between two texts (Levenshtein distance).
pub(crate) fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, from) in one.chars().enumerate() {
        let mut diagonal = at;
        let mut left = at + 1;
        for (to, above) in other.iter().zip(row.iter_mut().skip(1)) {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = *above;
            left = substituted.min(left + 1).min(*above + 1);
            *above = left;
        }
        if let Some(first) = row.first_mut() {
            *first = at + 1;
        }
    }
    row.last().copied().unwrap_or_default()
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

    #[test]
    fn edits_are_counted() {
        for (one, other, want) in [
            ("", "", 0),
            ("a", "", 1),
            ("kitten", "sitting", 3),
            ("web", "web", 0),
            ("htpp", "http", 1),
            ("frontned", "frontend", 2),
        ] {
            assert_eq!(edits(one, other), want, "{one} {other}");
            assert_eq!(edits(other, one), want, "{other} {one}");
        }
    }
}
