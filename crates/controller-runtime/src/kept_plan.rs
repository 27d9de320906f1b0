//! Planning from the pods that have changed since the last sync of a key.
//!
//! What a plan leaves for the next one is kept with the place in the log of pods up to which it was
//! planned. It is taken out for a sync and put back when all writes of the sync have succeeded, so
//! a sync that fails in any way is followed by one that plans from all pods. The plan compares the
//! cached outputs with what it expects.

use std::fmt;
use std::sync::Arc;

use kube_endpoint_core_model::change::ChangedPod;
use kube_endpoint_core_model::{Pod, Service, Timestamp};
use kube_endpoint_informer::{PodCursor, long_work};
use kube_endpoint_tracker::NeedsAllPods;

use crate::{Reconciler, Runtime};

/// A plan from this many pods or more takes milliseconds.
const MANY_PODS: usize = 1000;

/// What the plan of a sync left for the next sync of its key.
pub struct KeptPlan<P> {
    cursor: PodCursor,
    /// The state of the plan. Boxed, because most keys have none.
    pub state: Box<P>,
}

/// Two are never equal: the states of keys are compared only to find those that hold nothing.
impl<P> PartialEq for KeptPlan<P> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl<P> fmt::Debug for KeptPlan<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptPlan").finish_non_exhaustive()
    }
}

/// A plan, and what it leaves.
#[derive(Debug)]
pub struct Planned<T, P> {
    pub plan: T,
    /// The trigger time of what it writes.
    pub trigger_time: Option<Timestamp>,
    /// To be kept if all writes succeed.
    pub kept: Option<KeptPlan<P>>,
}

impl<R: Reconciler> Runtime<R> {
    /// Plans a sync that writes outputs of a Service: from the pods that have changed since the
    /// sync that left `kept`, or from all pods, if nothing is kept, it is not known which pods have
    /// changed, or `from_changed` returns none. `from_all` is told whether it is worth while to
    /// return a state; it is not if there are few pods.
    pub fn plan<T, P>(
        &self,
        service: &Service,
        kept: Option<KeptPlan<P>>,
        from_changed: impl FnOnce(P, &[ChangedPod], Option<Timestamp>) -> Option<(T, P)>,
        from_all: impl FnOnce(&[Arc<Pod>], Option<Timestamp>, bool) -> (T, Option<P>),
    ) -> Planned<T, P> {
        let key = &service.key;
        if let Some(KeptPlan { cursor, state }) = kept
            && let Some((changed, cursor)) = self.cluster().changed_pods(key, &cursor)
            && let Ok(trigger_time) = self.trigger_time_of_changed(service, &changed)
        {
            if let Some((plan, state)) = from_changed(*state, &changed, trigger_time) {
                let kept = Some(KeptPlan { cursor, state: Box::new(state) });
                return Planned { plan, trigger_time, kept };
            }
            // It is computed again from all pods.
            self.keys.with(key, |state| state.trigger_time.carry_over(trigger_time));
        }
        let (pods, cursor) = self.cluster().pods_and_cursor(key);
        let trigger_time = self.trigger_time(service, &pods);
        let make = || from_all(&pods, trigger_time, cursor.is_some());
        let (plan, state) = if pods.len() < MANY_PODS { make() } else { long_work(make) };
        let kept = cursor.zip(state).map(|(cursor, state)| KeptPlan { cursor, state: Box::new(state) });
        Planned { plan, trigger_time, kept }
    }

    /// As [`Self::trigger_time`], if only these pods have changed since the last call.
    fn trigger_time_of_changed(
        &self,
        service: &Service,
        changed: &[ChangedPod],
    ) -> Result<Option<Timestamp>, NeedsAllPods> {
        let mut state = self.keys.with(&service.key, |state| std::mem::take(&mut state.trigger_time));
        let trigger_time = state.compute_changed(service, changed);
        self.keys.with(&service.key, |kept| kept.trigger_time = state);
        self.note(|details| {
            details.pods = Some(self.cluster().pod_count_of(&service.key));
            details.trigger_time = trigger_time.unwrap_or(None);
        });
        trigger_time
    }
}
