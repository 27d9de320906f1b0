//! An operator of three pods that elect a leader, and a Service that sends to the leader.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use anyhow::bail;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{ABRUPT, Bed, Command, ensure, print};
use crate::ask::now;
use crate::cluster::{Cluster, Events};
use crate::controllers::{Leader, Subject, start_addon, stop_addon, with_kubeconfig};
use crate::figures::Figures;
use crate::holders::{Holders, gap};
use crate::workloads::{Workload, service};

pub(super) const HEADING: &str = "\
| scenario | the leader is found by | requests | failed | longest gap s | answers of pods that are not in the Lease | answers of followers | rollout |
|---|---|---|---|---|---|---|---|";

/// The reason why only the leader is a ready endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Only its readiness probe succeeds.
    Probe,
    /// The same, and the strategy of the Deployment is `Recreate`.
    ProbeAndRecreate,
    /// An EndpointSelector names the Lease.
    Selector,
}

const PODS: u32 = 3;

impl Form {
    /// The name in tables.
    fn name(self) -> &'static str {
        match self {
            Self::Probe => "readiness probe",
            Self::ProbeAndRecreate => "readiness probe, Recreate",
            Self::Selector => "EndpointSelector",
        }
    }

    /// The pods that are ready when nothing changes.
    fn ready(self) -> u32 {
        if self == Self::Selector { PODS } else { 1 }
    }

    fn deployment(self) -> Value {
        let options: &[&str] = match self {
            Self::Selector => &["--elect", "web"],
            _ => &["--elect", "web", "--probe", "leads"],
        };
        let mut deployment = Workload { pods: PODS, options, ..ABRUPT }.deployment();
        let strategy = if self == Self::ProbeAndRecreate { "Recreate" } else { "RollingUpdate" };
        deployment["spec"]["strategy"] = json!({"type": strategy});
        deployment
    }
}

/// Waits until all pods are of the last template and `ready` of them are ready. Returns the time
/// that it took, or `None` if it takes longer than `limit`.
fn wait(cluster: &Cluster, ready: u32, limit: Duration) -> anyhow::Result<Option<Duration>> {
    let begin = Instant::now();
    while begin.elapsed() < limit {
        let object = cluster.get(&["deployment", "web"])?;
        let status = &object["status"];
        let all = ["replicas", "updatedReplicas"].iter().all(|it| status[it] == PODS);
        let is_current = status["observedGeneration"] == object["metadata"]["generation"];
        if is_current && all && status["readyReplicas"].as_u64() >= Some(ready.into()) {
            return Ok(Some(begin.elapsed()));
        }
        sleep(Duration::from_millis(200));
    }
    Ok(None)
}

impl Bed<'_> {
    pub(super) fn leader_rollout(&self) -> anyhow::Result<()> {
        for round in 0..self.options.rounds {
            // It does not end, so once is enough.
            if round == 0 {
                self.rollout(Form::Probe)?;
            }
            self.rollout(Form::ProbeAndRecreate)?;
            self.rollout(Form::Selector)?;
        }
        Ok(())
    }

    fn rollout(&self, form: Form) -> anyhow::Result<()> {
        self.start_operator(form)?;
        self.observe_leader("rollout", form, &["1", "2"], |cluster| {
            let rollout = |command: &str, seconds| {
                cluster.kubectl(&["rollout", command, "deployment/web"])?;
                let took = wait(cluster, form.ready(), Duration::from_secs(seconds))?;
                let text = |took: Duration| format!("{command} {:.1} s", took.as_secs_f64());
                anyhow::Ok(
                    took.map_or((format!("{command} not in {seconds} s"), false), |it| (text(it), true)),
                )
            };
            Ok(match rollout("restart", 60)? {
                (text, true) => text,
                (text, false) => format!("{text}, {}", rollout("undo", 20)?.0),
            })
        })
    }

    pub(super) fn leader_killed(&self) -> anyhow::Result<()> {
        for form in [Form::Probe, Form::Selector].iter().cycle().take(2 * self.options.rounds) {
            self.start_operator(*form)?;
            let leader = Leader::find(self.cluster, "web")?;
            self.observe_leader("leader killed", *form, &["1", "2"], |_| {
                let killed = Command::new("kill").args(["-s", "KILL", &leader.process]).status()?;
                ensure!(killed.success(), "the leader, process {}, has ended before", leader.process);
                sleep(Duration::from_secs(25));
                Ok("-".to_owned())
            })?;
        }
        Ok(())
    }

    pub(super) fn leader_node(&self) -> anyhow::Result<()> {
        for form in [Form::Probe, Form::Selector].iter().cycle().take(2 * self.options.rounds) {
            self.start_operator(*form)?;
            let leader = Leader::find(self.cluster, "web")?;
            let other = if leader.node == "1" { "2" } else { "1" };
            self.observe_leader("no network for 60 s", *form, &[other], |cluster| {
                let device = format!("kem{}", leader.node);
                let set = |state| cluster.output(&["run", "ip", "link", "set", &device, state]);
                set("down")?;
                sleep(Duration::from_secs(60));
                set("up")?;
                sleep(Duration::from_secs(20));
                Ok("-".to_owned())
            })?;
            self.cluster.kubectl(&["wait", "node", "--all", "--for=condition=Ready", "--timeout=60s"])?;
        }
        Ok(())
    }

    /// Makes the operator and its Service anew, and waits until a pod leads.
    fn start_operator(&self, form: Form) -> anyhow::Result<()> {
        let cluster = self.cluster;
        cluster.delete("deployment", "web")?;
        // Its slices go with it, so that those of the add-on do not stay.
        cluster.kubectl(&["delete", "service", "web", "--ignore-not-found", "--cascade=foreground"])?;
        Subject::Upstream.start(cluster)?;
        if form == Form::Selector {
            self.selector("web", json!({"lease": {"name": "web"}}))?;
            start_addon(cluster)?;
            cluster.apply(&service("web", None, Some("web")))?;
        } else {
            stop_addon(cluster)?;
            cluster.apply(&service("web", Some("web"), None))?;
        }
        cluster.apply(&with_kubeconfig(cluster, form.deployment())?)?;
        if wait(cluster, form.ready(), Duration::from_secs(60))?.is_none() {
            bail!("no pod of the operator is ready after 60 s");
        }
        // Until the slices say who leads, and kube-proxy has read them.
        sleep(Duration::from_secs(5));
        Ok(())
    }

    /// Lets clients on `nodes` ask while `action` runs, and prints a row. The action returns its
    /// last cell.
    fn observe_leader(
        &self,
        name: &str,
        form: Form,
        nodes: &[&str],
        action: impl FnOnce(&Cluster) -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        let holders = Arc::new(Mutex::new(Holders::default()));
        let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases?fieldSelector=metadata.name=web";
        let of_watch = Arc::clone(&holders);
        let _events = Events::new(self.cluster, lease, move |event| {
            of_watch.lock().unwrap_or_else(PoisonError::into_inner).event(now(), event);
        })?;
        let clients = self.clients(nodes)?;
        sleep(Duration::from_secs(2));
        let rollout = action(self.cluster);
        sleep(Duration::from_secs(5));
        let requests = clients.finish()?;
        let followers =
            requests.iter().filter(|it| it.answer.as_ref().is_ok_and(|(_, role)| role == "follows"));
        print(&format!(
            "| {name} | {} | {} | {} | {:.1} | {} | {} | {} |",
            form.name(),
            requests.len(),
            Figures::new(1, &requests, Vec::new()).failed(),
            gap(&requests),
            holders.lock().unwrap_or_else(PoisonError::into_inner).answers_of_others(&requests),
            followers.count(),
            rollout?,
        ));
        Ok(())
    }
}
