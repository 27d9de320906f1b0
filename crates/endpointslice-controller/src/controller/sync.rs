//! One sync of one Service.

use std::sync::Arc;

use kube_endpoint_api_writer::FailedWrite;
use kube_endpoint_controller_runtime::{Completion, Outcome, Progress, Reconciler, Runtime, SyncError};
use kube_endpoint_core_model::{ObjectKey, Text, Timestamp};

use super::EndpointSliceReconciler;
use crate::plan::{Plan, PlanInputs, plan};
use crate::sync_error::sync_error;

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
            runtime.warn_once(&service, warning);
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
        let endpoints = plan.endpoints();
        runtime.note(|details| details.endpoints = Some(endpoints));
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
            Ok(Completion::NamespaceTerminating | Completion::Recorded) => Vec::new(),
            Err(failed) => failed,
        }
    }
}
