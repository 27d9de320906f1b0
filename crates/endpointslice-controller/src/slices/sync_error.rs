//! The error of a sync, with upstream's texts.

use kube_endpoint_api_writer::{EventSubject, FailedWrite};
use kube_endpoint_controller_runtime::{SyncError, first_ten};
use kube_endpoint_core_model::{PlannedEvent, Service, Text};
use kube_endpoint_slice_plan::PlanError;

/// Returns the error of a sync and its event. The message has the form of upstream's aggregate,
/// with several errors in brackets. It names at most ten pods and ten writes.
pub(super) fn sync_error(
    service: &Service,
    pods_left_out: &[PlanError],
    failed: Vec<FailedWrite>,
    obsolete: &[Text],
) -> SyncError {
    let key = &service.key;
    let mut all = first_ten(pods_left_out.iter().map(ToString::to_string).collect(), "Pods");
    let failures = failed.iter().map(|FailedWrite { operation, object, error }| {
        let name = &object.name;
        if obsolete.contains(name) {
            // Upstream words this delete otherwise.
            return format!("error deleting {name} EndpointSlice for Service {key}: {error}");
        }
        format!("failed to {} {name} EndpointSlice for Service {key}: {error}", operation.as_str())
    });
    all.extend(first_ten(failures.collect(), "writes"));
    all.dedup();
    let message = match all.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    let event = PlannedEvent::warning(
        "FailedToUpdateEndpointSlices",
        format!("Error updating Endpoint Slices for Service {key}: {message}"),
    );
    SyncError::new(failed, message).with_event(Some((EventSubject::from(service), event)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_endpoint_api_writer::{Operation, WriteError};
    use kube_endpoint_core_model::ObjectKey;

    #[test]
    fn an_error_names_ten_pods_and_ten_writes_and_counts_the_rest() {
        let message = |pods: usize, writes: usize| {
            let service = Service { key: ObjectKey::new("n", "web"), ..Service::default() };
            let pod = |number: usize| PlanError::NodeNotFound {
                pod: format!("p{number}").into(),
                service: service.key.clone(),
                node: "x".into(),
            };
            let write = |number: usize| FailedWrite {
                operation: Operation::Delete,
                object: ObjectKey::new("n", format!("web-{number}")),
                error: WriteError::NotFound("no".into()),
            };
            let pods: Vec<PlanError> = (0..pods).map(pod).collect();
            sync_error(&service, &pods, (0..writes).map(write).collect(), &[]).to_string()
        };
        assert_eq!(message(1, 0), "skipping Pod p0 for Service n/web: Node x Not Found");
        assert_eq!(message(10, 0).matches("skipping Pod").count(), 10);
        assert!(!message(10, 0).contains("more"));
        let many = message(3000, 13);
        assert_eq!(many.matches("skipping Pod").count(), 10);
        assert!(many.contains("Not Found, and 2990 more Pods, failed to delete web-0 "), "{many}");
        assert!(many.ends_with(": no, and 3 more writes]"), "{many}");
        assert_eq!(many.matches("failed to delete").count(), 10);
    }

    #[test]
    fn a_failed_delete_of_a_slice_of_a_family_given_up_is_worded_as_upstream_does() {
        let service = Service { key: ObjectKey::new("n", "web"), ..Service::default() };
        let failed = |name: &str| FailedWrite {
            operation: Operation::Delete,
            object: ObjectKey::new("n", name),
            error: WriteError::NotFound("no".into()),
        };
        let error = sync_error(&service, &[], vec![failed("web-4"), failed("web-6")], &["web-6".into()]);
        let want = "[failed to delete web-4 EndpointSlice for Service n/web: no, \
                    error deleting web-6 EndpointSlice for Service n/web: no]";
        assert_eq!(error.to_string(), want);
    }
}
