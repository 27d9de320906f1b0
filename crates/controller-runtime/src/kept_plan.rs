//! Plans from the pods that have changed since the last sync of a key.
//!
//! A plan leaves a state for the next one, with the place in the log of pods up to which it has
//! planned. A sync takes both out and puts them back when all its writes have succeeded, so the
//! sync after a failure plans from all pods. The plan compares the cached outputs with those that
//! it expects.

use std::fmt;

use kube_endpoint_core_model::Timestamp;
use kube_endpoint_informer::PodCursor;

/// The state that the plan of a sync left for the next sync of its key.
pub struct KeptPlan<P> {
    pub(crate) cursor: PodCursor,
    /// The state is boxed, because most keys have none.
    pub state: Box<P>,
}

/// Two kept plans are never equal. `KeyState` needs the comparison only to find states that hold
/// nothing.
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

/// A plan, and the state that it leaves.
#[derive(Debug)]
pub struct Planned<T, P> {
    pub plan: T,
    /// The trigger time of the plan's writes.
    pub trigger_time: Option<Timestamp>,
    /// The caller keeps this if all writes succeed.
    pub kept: Option<KeptPlan<P>>,
}
