//! Decides if a Service publishes pods that are not ready.

use std::fmt;

use serde::Serialize;

use crate::well_known::ANNOTATION_TOLERATE_UNREADY;
use crate::{Service, Text, go_bool};

/// An annotation that has no effect because its value is not a boolean. Prints as a sentence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct UnreadableAnnotation {
    pub annotation: &'static str,
    /// Its value.
    pub value: Text,
}

impl fmt::Display for UnreadableAnnotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "annotation {} is ignored: {:?} is neither true nor false", self.annotation, self.value)
    }
}

/// Returns true if the Service publishes pods as ready that are not ready, or that are being
/// deleted. This is the one rule for Endpoints and for EndpointSlices.
///
/// Without `tolerate_annotation` the answer is `spec.publishNotReadyAddresses`, as upstream's
/// `syncService` (endpoints) and `podToEndpoint` (slices) read it. This does not read the
/// annotation, not even to warn about it.
///
/// With `tolerate_annotation` the annotation that the field replaced,
/// [`ANNOTATION_TOLERATE_UNREADY`], overrides the field in both directions, as upstream's
/// controllers did until they dropped the annotation. If its value is not a boolean by the rules of
/// Go's `strconv.ParseBool`, the field counts, and this returns the annotation as a warning.
pub fn publish_not_ready(
    service: &Service,
    tolerate_annotation: bool,
) -> (bool, Option<UnreadableAnnotation>) {
    let field = service.publish_not_ready_addresses;
    let annotation = service.annotations.get(ANNOTATION_TOLERATE_UNREADY).filter(|_| tolerate_annotation);
    let Some(value) = annotation else { return (field, None) };
    match go_bool::parse(value) {
        Some(annotated) => (annotated, None),
        None => {
            let warning =
                UnreadableAnnotation { annotation: ANNOTATION_TOLERATE_UNREADY, value: value.clone() };
            (field, Some(warning))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(field: bool, annotation: Option<&str>) -> Service {
        Service {
            publish_not_ready_addresses: field,
            annotations: annotation.map(|value| (ANNOTATION_TOLERATE_UNREADY, value)).into_iter().collect(),
            ..Service::default()
        }
    }

    #[test]
    fn the_annotation_overrides_the_field_only_if_enabled_and_readable() {
        let check = |field: bool, annotation: Option<&str>, enabled: bool, want: bool, warns: bool| {
            let (publish, warning) = publish_not_ready(&service(field, annotation), enabled);
            assert_eq!((publish, warning.is_some()), (want, warns), "{field} {annotation:?} {enabled}");
        };
        for field in [false, true] {
            check(field, None, true, field, false);
            check(field, Some("true"), false, field, false);
            check(field, Some("nonsense"), false, field, false);
            check(field, Some("nonsense"), true, field, true);
            check(field, Some(""), true, field, true);
            check(field, Some("tRUE"), true, field, true);
            check(field, Some(" true"), true, field, true);
            for yes in ["1", "t", "T", "TRUE", "true", "True"] {
                check(field, Some(yes), true, true, false);
            }
            for no in ["0", "f", "F", "FALSE", "false", "False"] {
                check(field, Some(no), true, false, false);
            }
        }
    }

    #[test]
    fn the_warning_names_annotation_and_value() {
        let (_, warning) = publish_not_ready(&service(false, Some("yes")), true);
        insta::assert_snapshot!(
            warning.unwrap(),
            @r#"annotation service.alpha.kubernetes.io/tolerate-unready-endpoints is ignored: "yes" is neither true nor false"#
        );
    }
}
