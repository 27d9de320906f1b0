//! A Service among a thousand.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{bail, ensure};
use serde_json::{Value, json};

use super::{Bed, POLITE};
use crate::cluster::Cluster;
use crate::controllers::Subject;
use crate::workloads::{Workload, service};

/// The real pods.
const REAL: Workload<'_> = Workload { pods: 100, ..POLITE };
const REPLACED: usize = 30;
const OTHER_SERVICES: usize = 980;
/// Each has five pods without a process, which ten Services share.
const GROUPS: usize = 98;

impl Bed<'_> {
    /// The others have 4,900 endpoints, which nobody asks.
    pub(super) fn many(&self) -> anyhow::Result<()> {
        self.cluster.kubectl(&["delete", "namespace", "others", "--ignore-not-found"])?;
        self.cluster
            .apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "others"}}))?;
        let group = |at: usize| format!("g{}", at % GROUPS);
        let services = (0..OTHER_SERVICES).map(|at| {
            let mut service = service(&format!("s{at}"), Some(&group(at)), None);
            service["spec"]["type"] = json!("ClusterIP");
            service
        });
        let pods = (0..GROUPS * 5).map(|at| pod(at, &group(at)));
        self.make(&[], services.chain(pods.clone()).collect())?;
        self.make(&["--subresource=status"], pods.collect())?;
        Subject::Ours.start(self.cluster)?;
        self.wait_for_slices()?;
        self.compare("1,000 Services", &REAL, replace)?;
        self.cluster.kubectl(&["delete", "namespace", "others"]).map(drop)
    }

    fn wait_for_slices(&self) -> anyhow::Result<()> {
        for _ in 0..120 {
            let slices = ["get", "endpointslices", "--namespace=others", "--output=name"];
            if self.cluster.kubectl(&slices)?.lines().count() == OTHER_SERVICES {
                return Ok(());
            }
            sleep(Duration::from_secs(1));
        }
        bail!("the Services of the namespace others do not have {OTHER_SERVICES} slices after 120 s")
    }

    fn make(&self, options: &[&str], mut items: Vec<Value>) -> anyhow::Result<()> {
        items.iter_mut().for_each(|it| it["metadata"]["namespace"] = json!("others"));
        let options = [&["--server-side", "--field-manager=nodes"], options].concat();
        self.cluster.apply_with(&options, &json!({"apiVersion": "v1", "kind": "List", "items": items}))
    }
}

/// A pod that no scheduler takes and that looks ready.
fn pod(at: usize, group: &str) -> Value {
    let ip = format!("10.250.{}.{}", at / 250, at % 250 + 1);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("p{at}"), "labels": {"app": group}},
        "spec": {
            "schedulerName": "nobody", "automountServiceAccountToken": false,
            "containers": [{"name": "none", "image": "localhost/nodes:1"}],
        },
        "status": {
            "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

/// Deletes pods of the Service, one a second.
fn replace(cluster: &Cluster) -> anyhow::Result<()> {
    let pods = cluster.kubectl(&["get", "pods", "--selector=app=web", "--output=name"])?;
    let pods: Vec<&str> = pods.lines().take(REPLACED).collect();
    ensure!(pods.len() == REPLACED, "there are {} pods", pods.len());
    for pod in pods {
        cluster.kubectl(&["delete", "--wait=false", pod])?;
        sleep(Duration::from_secs(1));
    }
    REAL.wait(cluster)
}
