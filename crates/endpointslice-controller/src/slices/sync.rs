//! One sync of one Service.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use kube_endpoint_api_writer::FailedWrite;
use kube_endpoint_controller_runtime::{Completion, Outcome, Planned, Progress, Runtime, SyncError};
use kube_endpoint_core_model::{EndpointSlice, ObjectKey, ReadyPods, Service, Text, Timestamp, slice_labels};
use kube_endpoint_slice_plan::{Plan, PlanInputs, TopologyState, plan, plan_and_keep};

use super::sync_error::sync_error;
use super::{KeptSlices, SliceReconciler, SliceSync};

/// The end of one plan.
enum Step {
    Ended(Outcome),
    /// Another plan; see [`Plan::again`].
    Again,
}

impl SliceSync {
    /// Syncs the slices of a Service with the pods that it selects. With `ready_pods`, only these
    /// pods may be ready endpoints.
    ///
    /// # Errors
    ///
    /// The writes that failed, and the pods whose node is unknown. See [`Reconciler::sync`].
    ///
    /// [`Reconciler::sync`]: kube_endpoint_controller_runtime::Reconciler::sync
    pub async fn sync<R: SliceReconciler>(
        &self,
        runtime: &Runtime<R>,
        service: &Arc<Service>,
        ready_pods: Option<&ReadyPods>,
    ) -> Result<Outcome, SyncError> {
        loop {
            match self.step(runtime, service, ready_pods).await? {
                Step::Ended(outcome) => return Ok(outcome),
                // The next step reads slices that show the writes of this one.
                Step::Again => {}
            }
        }
    }

    /// Carries out one plan.
    async fn step<R: SliceReconciler>(
        &self,
        runtime: &Runtime<R>,
        service: &Arc<Service>,
        ready_pods: Option<&ReadyPods>,
    ) -> Result<Step, SyncError> {
        let (cluster, key) = (runtime.cluster(), &service.key);
        let mut existing = match runtime.read_outputs(key) {
            Ok(slices) => slices,
            Err(outcome) => return Ok(Step::Ended(outcome)),
        };
        let mut is_planned = slice_labels::planned_by(&self.options.plan.manager);
        existing.retain(|slice| is_planned(slice));
        if service.topology_hints_enabled() {
            self.refresh_topology(runtime);
        }
        let topology = Arc::clone(&self.topology.read());
        let Some(planned) = self.planned(runtime, service, &existing, &topology, ready_pods) else {
            return Ok(Step::Ended(Outcome::Done));
        };
        let Planned { mut plan, trigger_time, kept } = planned;
        let writes = !plan.is_empty();
        let without_family = plan.sub_plans.iter().filter(|sub_plan| sub_plan.stats.is_none());
        let obsolete: Vec<Text> = without_family
            .flat_map(|sub_plan| &sub_plan.writes.delete)
            .map(|slice| slice.metadata.name.clone())
            .collect();
        let carried_out = self.carry_out(runtime, key, &mut plan, trigger_time).await;
        let is_complete = carried_out == Ok(Completion::Complete);
        if is_complete && let Some(mut kept) = kept {
            // The cache may show the writes already.
            let names = kept.state.plan.unsettled().cloned().collect::<Vec<_>>().into_iter();
            let keys = names.map(|name| ObjectKey { namespace: key.namespace.clone(), name });
            let written = keys.filter_map(|key| cluster.endpoint_slice(&key));
            written.for_each(|slice| kept.state.plan.settle(&slice));
            runtime.with_state(key, |state| R::slices_mut(state).kept = Some(kept));
        }
        let failed = carried_out.err().unwrap_or_default();
        self.keep_hints(runtime, key, plan.hinted, &topology);
        runtime.record_events(key, &**service, plan.events, writes, false);
        // The next plan has the same errors. Until then nobody leads.
        if plan.again && is_complete {
            return Ok(Step::Again);
        }
        if failed.is_empty() && plan.errors.is_empty() {
            return Ok(Step::Ended(Outcome::Done));
        }
        Err(sync_error(service, &plan.errors, failed, &obsolete))
    }

    /// Plans a sync, from the state of the last plan if possible. See [`Runtime::plan`].
    fn planned<R: SliceReconciler>(
        &self,
        runtime: &Runtime<R>,
        service: &Service,
        existing: &[Arc<EndpointSlice>],
        topology: &TopologyState,
        ready_pods: Option<&ReadyPods>,
    ) -> Option<Planned<Plan, KeptSlices>> {
        // The sync reads this before the nodes: a change during the plan counts as one after it.
        let zones_version = self.zones_version.load(Ordering::Acquire);
        let (hinted, kept) = runtime.with_state(&service.key, |state| {
            let state = R::slices_mut(state);
            (state.hinted.clone(), state.kept.take())
        });
        let kept = kept.filter(|kept| kept.state.zones_version == zones_version);
        let inputs = PlanInputs::new(service, &[], runtime.cluster())
            .with_existing_slices(existing)
            .with_options(&self.options.plan)
            .with_topology(topology)
            .with_ready_pods(ready_pods)
            .with_hinted(hinted);
        let keep = |plan| KeptSlices { plan, zones_version };
        runtime.plan(
            service,
            ready_pods.and_then(ReadyPods::condition),
            kept,
            |kept, changed, trigger_time| {
                let inputs = inputs.clone().with_trigger_time(trigger_time);
                let (plan, state) = kept.plan.plan(&inputs, changed)?;
                Some((plan, keep(state)))
            },
            |pods, trigger_time, is_kept| {
                let inputs = inputs.clone().with_pods(pods).with_trigger_time(trigger_time);
                if !is_kept {
                    return (plan(&inputs), None);
                }
                let (plan, state) = plan_and_keep(&inputs);
                (plan, state.map(keep))
            },
        )
    }

    /// Carries a plan out.
    ///
    /// # Errors
    ///
    /// The writes that failed.
    async fn carry_out<R: SliceReconciler>(
        &self,
        runtime: &Runtime<R>,
        key: &ObjectKey,
        plan: &mut Plan,
        trigger_time: Option<Timestamp>,
    ) -> Result<Completion, Vec<FailedWrite>> {
        let share = self.metrics.planned(plan, self.options.plan.max_endpoints_per_slice);
        let before = runtime.with_state(key, |state| R::slices_mut(state).share.replace(share.clone()));
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
        let completion = runtime.carry_out(key, trigger_time, writes, progress).await?;
        if completion == Completion::Complete
            && wants_writes
            && let Some(trigger_time) = trigger_time
        {
            let elapsed = runtime.clock().now().as_millisecond() - trigger_time.as_millisecond();
            self.metrics.trigger_to_write(elapsed.max(0) as f64 / 1000.0);
        }
        Ok(completion)
    }
}
