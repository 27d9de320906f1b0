//! A Service whose clients should get answers from pods nearby.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use super::{Bed, POLITE, print};
use crate::cluster::Events;
use crate::controllers::Subject;
use crate::figures::Figures;

const POLICIES: [&str; 3] = [
    "trafficDistribution: PreferSameNode",
    "trafficDistribution: PreferSameZone",
    "internalTrafficPolicy: Local",
];
const PODS: &str = "/api/v1/namespaces/default/pods?labelSelector=app=web";

impl Bed<'_> {
    /// Counts the answers from another node than the client's. Each node is a zone.
    pub(super) fn near(&self) -> anyhow::Result<()> {
        let cluster = self.cluster;
        for node in ["1", "2"] {
            let zone = format!("topology.kubernetes.io/zone=zone-{node}");
            cluster.kubectl(&["label", "--overwrite", "node", &format!("node-{node}"), &zone])?;
        }
        for policy in POLICIES {
            for subject in [Subject::Upstream, Subject::Ours] {
                subject.start(cluster)?;
                cluster.kubectl(&["delete", "service", "web", "--ignore-not-found"])?;
                POLITE.start(cluster)?;
                let patch = format!("--patch=spec: {{{policy}}}");
                cluster.kubectl(&["patch", "service", "web", &patch])?;
                self.near_with(&format!("{policy}, {}", subject.name()))?;
            }
        }
        Ok(())
    }

    fn near_with(&self, name: &str) -> anyhow::Result<()> {
        let nodes = Arc::new(Mutex::new(BTreeMap::new()));
        let of_watch = Arc::clone(&nodes);
        let _events = Events::new(self.cluster, PODS, move |event| {
            let text = |path| event["object"].pointer(path).and_then(|it| it.as_str()).map(str::to_owned);
            if let (Some(pod), Some(node)) = (text("/metadata/name"), text("/spec/nodeName")) {
                of_watch.lock().unwrap_or_else(PoisonError::into_inner).insert(pod, node);
            }
        })?;
        sleep(Duration::from_secs(8));
        let clients = self.clients(&["1"])?;
        for _ in 0..self.options.rounds {
            self.cluster.kubectl(&["rollout", "restart", "deployment/web"])?;
            self.cluster.wait_for("deployment/web")?;
            sleep(Duration::from_secs(6));
        }
        let requests = clients.finish()?;
        let nodes = nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let answers = requests.iter().filter_map(|it| it.answer.as_ref().ok());
        let far = answers.filter(|(pod, _)| nodes.get(pod).is_none_or(|it| it != "node-1")).count();
        let failed = Figures::new(1, &requests, Vec::new()).failed();
        print(&format!(
            "{name}: {} requests, {failed} failed, {far} answers from another node",
            requests.len()
        ));
        Ok(())
    }
}
