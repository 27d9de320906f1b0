//! The pods that should receive traffic, with what their containers declare.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_endpoint_core_model::{Pod, Text};

use super::FaultInputs;
use crate::facts::raw::Serving;
use crate::findings::pod::Publication;

/// A pod that should receive traffic, and its ports.
pub(crate) type ReadyPod<'a> = (&'a Arc<Pod>, &'a Serving);

impl FaultInputs<'_> {
    /// Returns the pods that should receive traffic with their ports, or `None` if those of some
    /// are not known.
    pub(crate) fn ready_pods(&self) -> Option<Vec<ReadyPod<'_>>> {
        let ready = self.explained.iter().filter(|pod| pod.publication == Publication::Ready);
        let ready: BTreeSet<&Text> = ready.map(|pod| &pod.name).collect();
        let pods = self.pods.iter().filter(|pod| ready.contains(&pod.key.name));
        pods.map(|pod| Some((pod, self.objects.raw.serving(&pod.key)?))).collect()
    }
}
