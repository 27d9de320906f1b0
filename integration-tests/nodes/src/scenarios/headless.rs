//! A StatefulSet behind a headless Service, which clients find by DNS.

use anyhow::Context;

use super::{Bed, POLITE};
use crate::workloads::Workload;

const STATEFUL: Workload<'_> = Workload { pods: 5, is_stateful: true, ..POLITE };

impl Bed<'_> {
    /// Each answer has to come from the pod with the name that was asked.
    pub(super) fn headless(&self) -> anyhow::Result<()> {
        let cluster = self.cluster;
        cluster
            .output(&["process", "dns"])
            .context("the DNS server does not run: coredns has to be in PATH")?;
        // The pods of both have the same label.
        cluster.delete("deployment,statefulset,service", "web")?;
        self.compare("StatefulSet by DNS", &STATEFUL, |cluster| {
            cluster.kubectl(&["rollout", "restart", "statefulset/web"])?;
            STATEFUL.wait(cluster)
        })?;
        cluster.delete("statefulset,service", "web")
    }
}
