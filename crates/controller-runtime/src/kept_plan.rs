//! Planning from the pods that have changed since the last sync of a key.
//!
//! What a plan leaves for the next one is kept with the place in the log of pods up to which it was
//! planned. It is taken out for a sync and put back when all writes of the sync have succeeded, so
//! a sync that fails in any way is followed by one that plans from all pods. The plan compares the
//! cached outputs with what it expects.

use std::fmt;

use kube_endpoint_core_model::Timestamp;
use kube_endpoint_informer::PodCursor;

/// What the plan of a sync left for the next sync of its key.
pub struct KeptPlan<P> {
    pub(crate) cursor: PodCursor,
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
