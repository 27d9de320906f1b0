//! Labels and name prefixes of slices that the EndpointSlice controller writes.

use crate::well_known::{LABEL_ENDPOINT_SELECTOR, LABEL_HEADLESS, LABEL_MANAGED_BY, LABEL_SERVICE_NAME};
use crate::{EndpointSlice, Service, StringMap, Text};

/// Returns true if the controller sets this label itself instead of copying the Service's value
/// (upstream `isReservedLabelKey`).
pub fn is_reserved(label: &str) -> bool {
    matches!(label, LABEL_SERVICE_NAME | LABEL_MANAGED_BY | LABEL_HEADLESS)
}

/// Returns the labels of a slice of a Service (upstream `setEndpointSliceLabels`): the Service's
/// labels, with the controller's values of the reserved ones, and the EndpointSelector that the
/// Service names.
pub fn for_service(service: &Service, manager: &str) -> StringMap {
    let copied = service.labels.iter().filter(|(key, _)| !is_reserved(key));
    let headless = service.headless_label().map(|value| (Text::from(LABEL_HEADLESS), Text::from(value)));
    let selector =
        service.endpoint_selector().map(|name| (Text::from(LABEL_ENDPOINT_SELECTOR), name.clone()));
    copied
        .map(|(key, value)| (key.clone(), value.clone()))
        .chain(selector)
        .chain(headless)
        .chain([
            (Text::from(LABEL_SERVICE_NAME), service.key.name.clone()),
            (Text::from(LABEL_MANAGED_BY), Text::from(manager)),
        ])
        .collect()
}

/// Returns true if slices or Endpoints carry the label `service.kubernetes.io/headless` exactly as
/// their Service is headless.
pub fn headless_label_is_right(labels: &StringMap, service: &Service) -> bool {
    labels.get(LABEL_HEADLESS).map(|value| &**value) == service.headless_label()
}

/// Returns true if the labels that a slice copies from the Service are outdated, so that the
/// controller must update the slice. As upstream, this ignores reserved labels;
/// [`headless_label_is_right`] compares the headless one.
pub fn differ_from_service(slice_labels: &StringMap, service: &Service) -> bool {
    let own = slice_labels.iter().filter(|(key, _)| !is_reserved(key));
    let wanted = service.labels.iter().filter(|(key, _)| !is_reserved(key));
    let Some(selector) = service.endpoint_selector() else { return !own.eq(wanted) };
    let named = [(Text::from(LABEL_ENDPOINT_SELECTOR), selector.clone())];
    let wanted: StringMap = wanted.map(|(key, value)| (key.clone(), value.clone())).chain(named).collect();
    !own.eq(wanted.iter())
}

/// Returns a filter of the slices that a controller plans over: those whose label names it as the
/// manager, and that are not being deleted. Most slices of a Service share their labels with the
/// slice before: the filter then need not look the label up again.
pub fn planned_by(manager: &str) -> impl FnMut(&EndpointSlice) -> bool {
    let mut last: Option<(StringMap, bool)> = None;
    move |slice| {
        let labels = &slice.metadata.labels;
        let is_managed = match &last {
            Some((before, is_managed)) if before.is_shared_with(labels) => *is_managed,
            _ => {
                let is_managed = slice.is_managed_by(manager);
                last = Some((labels.clone(), is_managed));
                is_managed
            }
        };
        is_managed && slice.metadata.deletion_timestamp.is_none()
    }
}

/// Returns the prefix of the names of slices (upstream `getEndpointSlicePrefix`): the owner's name
/// and a dash, or without the dash if that would be too long or not a valid prefix of a DNS
/// subdomain.
pub fn name_prefix(owner: &str) -> String {
    const LONGEST_SUBDOMAIN: usize = 253;
    let is_subdomain = |name: &str| {
        name.len() <= LONGEST_SUBDOMAIN
            && name.split('.').all(|part| {
                part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
                    && part.bytes().next().is_some_and(|byte| byte != b'-')
                    && part.bytes().last().is_some_and(|byte| byte != b'-')
            })
    };
    // The suffix follows, so a trailing dash is valid in a prefix.
    let dashed = format!("{owner}-");
    if is_subdomain(&format!("{owner}a")) { dashed } else { owner.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::well_known::ANNOTATION_ENDPOINT_SELECTOR;
    use crate::{ObjectKey, Timestamp};

    fn service(labels: &[(&str, &str)], cluster_ip: &str) -> Service {
        Service {
            key: ObjectKey::new("n", "web"),
            labels: labels.iter().copied().collect(),
            cluster_ip: cluster_ip.into(),
            ..Service::default()
        }
    }

    #[test]
    fn labels_are_copied_but_the_reserved_ones_are_our_own() {
        let check = |labels: &[(&str, &str)], cluster_ip: &str, want: &[(&str, &str)]| {
            assert_eq!(for_service(&service(labels, cluster_ip), "me"), want.iter().copied().collect());
        };
        let own = [(LABEL_SERVICE_NAME, "web"), (LABEL_MANAGED_BY, "me")];
        check(&[], "10.0.0.1", &own);
        check(&[("a", "b")], "10.0.0.1", &[own[0], own[1], ("a", "b")]);
        check(&[], "None", &[own[0], own[1], (LABEL_HEADLESS, "")]);
        check(&[], "", &[own[0], own[1], (LABEL_HEADLESS, "")]);
        check(&[(LABEL_SERVICE_NAME, "x"), (LABEL_MANAGED_BY, "x"), (LABEL_HEADLESS, "x")], "10.0.0.1", &own);
    }

    #[test]
    fn only_labels_that_are_copied_count_as_a_difference() {
        let check = |on_slice: &[(&str, &str)], on_service: &[(&str, &str)], want: bool| {
            let slice = on_slice.iter().copied().collect();
            assert_eq!(
                differ_from_service(&slice, &service(on_service, "None")),
                want,
                "{on_slice:?} {on_service:?}"
            );
        };
        check(&[(LABEL_SERVICE_NAME, "web")], &[], false);
        check(&[("a", "b")], &[("a", "b")], false);
        check(&[("a", "b")], &[("a", "c")], true);
        check(&[], &[("a", "b")], true);
        check(&[("a", "b")], &[], true);
        check(&[], &[(LABEL_MANAGED_BY, "x")], false);
        check(&[(LABEL_HEADLESS, "")], &[], false);
    }

    #[test]
    fn a_slice_names_the_endpoint_selector_of_its_service() {
        let mut attached = service(&[(LABEL_ENDPOINT_SELECTOR, "a copy of a user"), ("a", "b")], "10.0.0.1");
        let name = |name: &str| [(ANNOTATION_ENDPOINT_SELECTOR, name)].into_iter().collect();
        assert_eq!(for_service(&attached, "me").get(LABEL_ENDPOINT_SELECTOR).unwrap(), "a copy of a user");
        attached.annotations = name("web-stable");
        let labels = for_service(&attached, "me");
        assert_eq!(labels.get(LABEL_ENDPOINT_SELECTOR).unwrap(), "web-stable");
        assert!(!differ_from_service(&labels, &attached));
        attached.annotations = name("web");
        assert!(differ_from_service(&labels, &attached));
        // A Service with a selector of its own names none.
        attached.selector = Some([("app", "web")].into_iter().collect());
        assert!(differ_from_service(&labels, &attached));
    }

    #[test]
    fn the_headless_label_is_right_if_it_says_whether_the_service_is_headless() {
        let check = |labels: &[(&str, &str)], cluster_ip: &str, want: bool| {
            let labels = labels.iter().copied().collect();
            let is_right = headless_label_is_right(&labels, &service(&[(LABEL_HEADLESS, "x")], cluster_ip));
            assert_eq!(is_right, want, "{labels:?} {cluster_ip:?}");
        };
        check(&[], "10.0.0.1", true);
        check(&[(LABEL_HEADLESS, "")], "10.0.0.1", false);
        check(&[(LABEL_HEADLESS, "false")], "10.0.0.1", false);
        check(&[(LABEL_HEADLESS, "")], "None", true);
        check(&[(LABEL_HEADLESS, "")], "", true);
        check(&[(LABEL_HEADLESS, "true")], "None", false);
        check(&[], "None", false);
    }

    #[test]
    fn a_controller_plans_over_its_own_slices_that_are_not_being_deleted() {
        let slice = |labels: &StringMap, is_being_deleted: bool| {
            let mut slice = EndpointSlice::default();
            slice.metadata.labels = labels.clone();
            slice.metadata.deletion_timestamp = is_being_deleted.then(Timestamp::default);
            slice
        };
        let own: StringMap = [(LABEL_MANAGED_BY, "me")].into_iter().collect();
        let same: StringMap = [(LABEL_MANAGED_BY, "me")].into_iter().collect();
        let other: StringMap = [(LABEL_MANAGED_BY, "you")].into_iter().collect();
        let mut is_planned = planned_by("me");
        let mut check = |labels, is_being_deleted, want| {
            assert_eq!(is_planned(&slice(labels, is_being_deleted)), want, "{labels:?}, {is_being_deleted}");
        };
        check(&own, false, true);
        check(&own, false, true);
        check(&own, true, false);
        check(&same, false, true);
        check(&other, false, false);
        check(&other, false, false);
        check(&own, false, true);
        check(&StringMap::default(), false, false);
    }

    #[test]
    fn names_start_with_the_owner() {
        let check = |owner: &str, want: &str| assert_eq!(name_prefix(owner), want);
        check("web", "web-");
        check("a.b", "a.b-");
        check(&"x".repeat(252), &format!("{}-", "x".repeat(252)));
        check(&"x".repeat(253), &"x".repeat(253));
        check("Web", "Web");
    }
}
