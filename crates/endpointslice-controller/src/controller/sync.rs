//! One sync of one Service.

use std::sync::Arc;

use kube_endpoint_api_writer::{EventSubject, FailedWrite};
use kube_endpoint_controller_runtime::{
    Completion, Outcome, Progress, Reconciler, Runtime, SyncError, first_ten,
};
use kube_endpoint_core_model::publish::UnreadableAnnotation;
use kube_endpoint_core_model::{ObjectKey, PlannedEvent, Service, Text, Timestamp};

use super::EndpointSliceReconciler;
use crate::plan::{Plan, PlanError, PlanInputs, plan};

type Cx = Runtime<EndpointSliceReconciler>;

impl EndpointSliceReconciler {
    pub(super) async fn sync_key(&self, runtime: &Cx, key: &ObjectKey) -> Result<Outcome, SyncError> {
        let cluster = runtime.cluster();
        let Some(service) = cluster.service(key) else {
            self.metrics.replace(runtime.forget(key).share, None);
            return Ok(Outcome::Done);
        };
        // An ExternalName gets no endpoints, and without a selector another client makes them.
        if !service.selects_pods() {
            return Ok(Outcome::Done);
        }
        let mut existing = match runtime.read_outputs(key) {
            Ok(slices) => slices,
            Err(outcome) => return Ok(outcome),
        };
        existing.retain(|slice| self.manages(slice) && slice.metadata.deletion_timestamp.is_none());
        let pods = cluster.pods_of(key);
        let trigger_time = runtime.trigger_time(&service, &pods);
        if service.topology_hints_enabled() {
            self.refresh_topology(runtime);
        }
        let topology = Arc::clone(&self.topology.read());
        let hinted = runtime.with_state(key, |state| state.hinted.clone());
        let mut plan = plan(
            &PlanInputs::new(&service, &pods, cluster)
                .with_existing_slices(&existing)
                .with_trigger_time(trigger_time)
                .with_options(&self.options.plan)
                .with_topology(&topology)
                .with_hinted(hinted),
        );
        if let Some(warning) = &plan.warning {
            warn_once(runtime, &service, warning);
        }
        let writes = !plan.is_empty();
        let without_family = plan.sub_plans.iter().filter(|sub_plan| sub_plan.stats.is_none());
        let obsolete: Vec<Text> = without_family
            .flat_map(|sub_plan| &sub_plan.writes.delete)
            .map(|slice| slice.metadata.name.clone())
            .collect();
        let failed = self.carry_out(runtime, key, &mut plan, trigger_time).await;
        self.keep_hints(runtime, key, plan.hinted, &topology);
        runtime.record_events(key, &*service, plan.events, writes, false);
        if failed.is_empty() && plan.errors.is_empty() {
            return Ok(Outcome::Done);
        }
        Err(sync_error(&service, &plan.errors, failed, &obsolete))
    }

    /// Carries a plan out, and returns the writes that failed.
    async fn carry_out(
        &self,
        runtime: &Cx,
        key: &ObjectKey,
        plan: &mut Plan,
        trigger_time: Option<Timestamp>,
    ) -> Vec<FailedWrite> {
        let share = self.metrics.planned(plan, self.options.plan.max_endpoints_per_slice);
        let before = runtime.with_state(key, |state| state.share.replace(share.clone()));
        self.metrics.replace(before, Some(share));
        let wants_writes = !plan.is_empty();
        let (writes, stats): (Vec<_>, Vec<_>) =
            std::mem::take(&mut plan.sub_plans).into_iter().map(|one| (one.writes, one.stats)).unzip();
        let plan_stats = &plan.stats;
        let progress = |progress| match progress {
            Progress::Wrote(operation) => self.metrics.wrote(operation),
            Progress::SubPlan(index) => {
                if let Some(Some(stats)) = stats.get(index) {
                    self.metrics.carried_out(plan_stats, stats);
                }
            }
        };
        match runtime.carry_out(key, trigger_time, writes, progress).await {
            Ok(Completion::Complete) => {
                if wants_writes && let Some(trigger_time) = trigger_time {
                    let elapsed = runtime.clock().now().as_millisecond() - trigger_time.as_millisecond();
                    self.metrics.trigger_to_write(elapsed.max(0) as f64 / 1000.0);
                }
                Vec::new()
            }
            Ok(Completion::NamespaceTerminating) => Vec::new(),
            Err(failed) => failed,
        }
    }
}

/// Logs a warning about a Service, once for each of its versions.
fn warn_once(runtime: &Cx, service: &Service, warning: &UnreadableAnnotation) {
    let version = Some(service.resource_version);
    if runtime.with_state(&service.key, |state| std::mem::replace(&mut state.warned, version)) != version {
        tracing::warn!(service = %service.key, "{warning}");
    }
}

/// The error of a sync and its event. The message is formatted as upstream's aggregate: several errors are in brackets. It
/// names at most ten pods and ten writes.
fn sync_error(
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
