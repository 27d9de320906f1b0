//! The client that an explanation is about.

use std::collections::BTreeSet;

use kube_endpoint_core_model::{Pod, Text};

use super::FaultInputs;
use crate::findings::pod::Publication;
use crate::models::client::Connections;

impl FaultInputs<'_> {
    /// Returns the connections of the client to the pods that are ready, or to all if none is.
    /// Returns `None` if the explanation is about no client.
    pub(crate) fn connections(&self) -> Option<Connections> {
        let ready = self.explained.iter().filter(|pod| pod.publication == Publication::Ready);
        let ready: BTreeSet<&Text> = ready.map(|pod| &pod.name).collect();
        let alive = self.pods.iter().map(|pod| &**pod).filter(|pod| !pod.is_terminal());
        let serves = |pod: &&Pod| ready.is_empty() || ready.contains(&pod.key.name);
        let pods: Vec<&Pod> = alive.filter(serves).collect();
        Connections::of(self.objects, self.service, &pods, self.options.from.as_ref()?)
    }
}
