//! The scenarios, and the program that plays them.

mod headless;
mod leader;
mod many;
mod near;
mod switch;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::ask::Request;
use crate::cluster::{Cluster, Watch};
use crate::controllers::{Leader, Replicas, Subject, process, start_others, stop};
use crate::explained::Explaining;
use crate::figures::Figures;
use crate::traffic::Traffic;
use crate::workloads::{Workload, service};

/// A course of events while clients ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// Rollouts of ten pods that the kubelet ends four seconds after they leave.
    Rollout,
    /// Rollouts of ten pods that end at once.
    Abrupt,
    /// 120 seconds without a change.
    Quiet,
    /// From one pod to twenty and back.
    Scale,
    /// Ten pods that are not ready for three seconds of ten.
    Unready,
    /// The kubelet of a node hangs for 60 s and longer, until its pods have left.
    Kubelet,
    /// The processes of ten pods are killed, one every three seconds.
    Killed,
    /// A node is drained, and takes pods again.
    Drain,
    /// Rollouts of a Service that prefers, or insists on, pods near the client.
    Near,
    /// Rollouts of a StatefulSet, whose pods clients ask by name.
    Headless,
    /// 30 of 100 pods are replaced, one a second, in a cluster with 5,000 endpoints.
    Many,
    /// The selector of a Service changes: blue/green by one patch, and a canary.
    Switch,
    /// The leader of two replicas crashes.
    Crash,
    /// The leader of two replicas of the add-on crashes.
    CrashOfAddon,
    /// A Service is attached to an EndpointSelector, and gets its selector back.
    Attach,
    /// From kube-controller-manager to two replicas, and back.
    HandOver,
    /// Rollouts of an operator whose Service sends to the leader: by its readiness, with either
    /// strategy of the Deployment, and by an EndpointSelector.
    LeaderRollout,
    /// The leader of such an operator is killed.
    LeaderKilled,
    /// The leader's node has no network for 60 s.
    LeaderNode,
}

/// Options of a measurement.
#[derive(Args)]
pub(crate) struct Options {
    /// The scenarios to play.
    #[arg(required = true)]
    scenarios: Vec<Scenario>,
    /// The script `cluster`.
    #[arg(long)]
    cluster: PathBuf,
    /// The folder for what clients write.
    #[arg(long)]
    folder: PathBuf,
    /// Rounds of each scenario, and of each set of controllers that is compared.
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// Requests a second.
    #[arg(long, default_value_t = 150)]
    rate: u32,
    /// Ask the node port of the other node in place of the cluster IP.
    #[arg(long)]
    node_port: bool,
    /// The signal of a crash.
    #[arg(long, default_value = "KILL")]
    signal: String,
    /// Let replicas forget who they are when they crash.
    #[arg(long)]
    no_identity_file: bool,
    /// kubectl-diagnose_svc: what it says of the Service each second, beside what clients see.
    #[arg(long)]
    explain: Option<PathBuf>,
}

/// Plays the scenarios, and prints a row for each.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let cluster = Cluster { script: options.cluster.clone() };
    start_others(&cluster)?;
    let mut heading = "";
    for scenario in &options.scenarios {
        let of_leader =
            matches!(scenario, Scenario::LeaderRollout | Scenario::LeaderKilled | Scenario::LeaderNode);
        let before =
            std::mem::replace(&mut heading, if of_leader { leader::HEADING } else { Figures::HEADING });
        if heading != before {
            print(heading);
        }
        let bed = Bed { cluster: &cluster, options };
        bed.play(*scenario).with_context(|| format!("scenario {scenario:?}"))?;
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a program for people")]
fn print(line: &str) {
    println!("{line}");
}

/// The clients of a scenario.
struct Clients {
    traffic: Traffic,
    explaining: Option<Explaining>,
}

impl Clients {
    /// Ends them, and prints what the explanations were.
    fn finish(self) -> anyhow::Result<Vec<Request>> {
        let requests = self.traffic.finish()?;
        let rows = self.explaining.map(|it| it.finish(&requests));
        rows.into_iter().flatten().for_each(|row| print(&row));
        Ok(requests)
    }
}

struct Bed<'a> {
    cluster: &'a Cluster,
    options: &'a Options,
}

const POLITE: Workload<'_> =
    Workload { name: "web", pods: 10, options: &[], pre_stop: Some(4), is_stateful: false };
const ABRUPT: Workload<'_> = Workload { pre_stop: None, ..POLITE };
const UNREADY: Workload<'_> = Workload { options: &["--probe", "pauses"], ..ABRUPT };
const FLAPPING: Workload<'_> = Workload { name: "flapping", options: &["--probe", "flaps"], ..ABRUPT };

impl Bed<'_> {
    fn play(&self, scenario: Scenario) -> anyhow::Result<()> {
        let restart = |cluster: &Cluster| {
            cluster.kubectl(&["rollout", "restart", "deployment/web"])?;
            cluster.wait_for("deployment/web")
        };
        let wait = |seconds| {
            move |_: &Cluster| -> anyhow::Result<()> {
                sleep(Duration::from_secs(seconds));
                Ok(())
            }
        };
        match scenario {
            Scenario::Rollout => self.compare("rollout", &POLITE, restart),
            Scenario::Abrupt => self.compare("abrupt rollout", &ABRUPT, restart),
            Scenario::Quiet => self.compare("no change", &POLITE, wait(120)),
            Scenario::Unready => self.compare("unready for 3 s of 10", &UNREADY, wait(10)),
            Scenario::Scale => self.compare("1 to 20 to 1 pods", &POLITE, |cluster| {
                for pods in ["20", "1"] {
                    cluster.kubectl(&["scale", "deployment/web", &format!("--replicas={pods}")])?;
                    cluster.wait_for("deployment/web")?;
                }
                Ok(())
            }),
            Scenario::Kubelet => self.compare("kubelet hangs", &POLITE, hang_kubelet),
            Scenario::Killed => self.compare("a process is killed", &POLITE, kill_each),
            Scenario::Drain => self.compare("a node is drained", &POLITE, |cluster| {
                let options = ["--ignore-daemonsets", "--delete-emptydir-data", "--force"];
                cluster.kubectl(&[&["drain", "node-2"], &options[..]].concat())?;
                cluster.wait_for("deployment/web")?;
                cluster.kubectl(&["uncordon", "node-2"])?;
                // So that pods are on both nodes in the next round.
                restart(cluster)
            }),
            Scenario::Near => self.near(),
            Scenario::Headless => self.headless(),
            Scenario::Many => self.many(),
            Scenario::Switch => self.switch(),
            Scenario::Crash => self.crash(false),
            Scenario::CrashOfAddon => self.crash(true),
            Scenario::Attach => self.attach(),
            Scenario::HandOver => self.hand_over(),
            Scenario::LeaderRollout => self.leader_rollout(),
            Scenario::LeaderKilled => self.leader_killed(),
            Scenario::LeaderNode => self.leader_node(),
        }
    }

    /// Plays a scenario in the order ABBA, so that what drifts concerns both alike.
    fn compare(
        &self,
        name: &str,
        workload: &Workload<'_>,
        action: impl Fn(&Cluster) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        use Subject::{Ours, Upstream};
        let mut figures = [(Upstream, Figures::default()), (Ours, Figures::default())];
        let half = self.options.rounds.div_ceil(2);
        for (at, subject) in [Upstream, Ours, Ours, Upstream].into_iter().enumerate() {
            let rounds = if at < 2 { half } else { self.options.rounds - half };
            if rounds == 0 {
                continue;
            }
            subject.start(self.cluster)?;
            workload.start(self.cluster)?;
            // Until the controllers have started, and pods of an earlier scenario have ended.
            sleep(Duration::from_secs(8));
            let found = self.observe("web", "web", rounds, |cluster| {
                (0..rounds).try_for_each(|_| {
                    action(cluster)?;
                    sleep(Duration::from_secs(1));
                    Ok(())
                })
            })?;
            figures.iter_mut().filter(|(it, _)| *it == subject).for_each(|(_, all)| all.add(found.clone()));
        }
        for (subject, figures) in figures {
            print(&figures.row(name, subject.name()));
        }
        Ok(())
    }

    /// Lets clients ask the Service `web`, while `action` runs and until pods that end have ended.
    /// Watches the pods and slices of `web`, and of another Service with pods of the label `app`.
    fn observe(
        &self,
        app: &str,
        service: &str,
        rounds: usize,
        action: impl FnOnce(&Cluster) -> anyhow::Result<()>,
    ) -> anyhow::Result<Figures> {
        let mut watches = vec![Watch::new(self.cluster, app, service)?];
        if app != "web" {
            watches.push(Watch::new(self.cluster, "web", "web")?);
        }
        let clients = self.clients(&["1", "2"])?;
        sleep(Duration::from_secs(2));
        watches.iter().for_each(Watch::reset);
        let done = action(self.cluster);
        sleep(Duration::from_secs(5));
        let ready = watches.iter().flat_map(Watch::ready).collect();
        let delays = watches.iter().flat_map(Watch::take).collect();
        let requests = clients.finish()?;
        done?;
        Ok(Figures::new(rounds, &requests, delays).with_first_answers(&requests, &ready))
    }

    /// Clients on `nodes` that ask the Service `web`, and with `--explain` for its explanation.
    fn clients(&self, nodes: &[&str]) -> anyhow::Result<Clients> {
        let traffic = Traffic::new(
            self.cluster,
            &self.options.folder,
            self.options.rate,
            nodes,
            self.options.node_port,
        )?;
        let program = self.options.explain.as_deref();
        Ok(Clients { traffic, explaining: program.map(|it| Explaining::new(self.cluster, it)) })
    }

    /// The changes are those of pods whose readiness flaps; the clients ask a Service in a rollout.
    fn crash(&self, addon: bool) -> anyhow::Result<()> {
        let replicas = Replicas { addon, identity_file: !self.options.no_identity_file };
        let cluster = self.cluster;
        stop(cluster)?;
        let service_name = if addon { "selected" } else { "flapping" };
        if addon {
            Subject::Upstream.start(cluster)?;
            self.selector("flapping", Value::Null)?;
            cluster.apply(&service(service_name, None, Some("flapping")))?;
        }
        replicas.start(cluster)?;
        POLITE.start(cluster)?;
        FLAPPING.start(cluster)?;
        let signal = &self.options.signal;
        for _ in 0..self.options.rounds {
            replicas.start(cluster)?;
            sleep(Duration::from_secs(10));
            let leader = Leader::find(cluster, replicas.name())?;
            let mut after = None;
            let figures = self.observe("flapping", service_name, 1, |cluster| {
                cluster.kubectl(&["rollout", "restart", "deployment/web"])?;
                sleep(Duration::from_secs(1));
                let killed = Command::new("kill").args(["-s", signal, &leader.process]).status()?;
                ensure!(killed.success(), "the leader, process {}, has ended before", leader.process);
                sleep(Duration::from_secs(20));
                after = Some(Leader::find(cluster, replicas.name())?.pod == leader.pod);
                cluster.wait_for("deployment/web")
            })?;
            let who = if after == Some(true) { "same pod leads" } else { "other pod leads" };
            let file = if self.options.no_identity_file { ", no identity file" } else { "" };
            print(
                &figures
                    .row(&format!("SIG{signal} to the leader{file}"), &format!("{}, {who}", replicas.name())),
            );
        }
        cluster.delete("deployment", replicas.name())
    }

    /// Makes an EndpointSelector of the pods with the label `app=APP`.
    fn selector(&self, app: &str, readiness: Value) -> anyhow::Result<()> {
        let crd = self.options.cluster.with_file_name("../../deploy/crds/endpointselectors.yaml");
        self.cluster.kubectl(&["apply", &format!("--filename={}", text(&crd)?)])?;
        self.cluster.kubectl(&[
            "wait",
            "--for=condition=Established",
            "--timeout=30s",
            "crd/endpointselectors.kube-endpoint-manager.github.io",
        ])?;
        self.cluster.apply(&json!({
            "apiVersion": "kube-endpoint-manager.github.io/v1alpha1", "kind": "EndpointSelector",
            "metadata": {"name": app},
            "spec": {"selector": {"matchLabels": {"app": app}}, "readiness": readiness},
        }))
    }

    fn attach(&self) -> anyhow::Result<()> {
        let replicas = Replicas { addon: true, identity_file: true };
        Subject::Upstream.start(self.cluster)?;
        self.selector("web", Value::Null)?;
        replicas.start(self.cluster)?;
        POLITE.start(self.cluster)?;
        self.cluster.apply(&service("web", Some("web"), Some("web")))?;
        sleep(Duration::from_secs(5));
        let rounds = self.options.rounds;
        let figures = self.observe("web", "web", rounds, |cluster| {
            for selector in ["null", r#"{"app":"web"}"#].iter().cycle().take(2 * rounds) {
                let patch = format!(r#"{{"spec":{{"selector":{selector}}}}}"#);
                cluster.kubectl(&["patch", "service", "web", "--type=merge", &format!("--patch={patch}")])?;
                sleep(Duration::from_secs(5));
                cluster.kubectl(&["rollout", "restart", "deployment/web"])?;
                cluster.wait_for("deployment/web")?;
            }
            Ok(())
        })?;
        print(&figures.row("attach and detach, with rollouts", replicas.name()));
        self.cluster.delete("deployment", replicas.name())
    }

    fn hand_over(&self) -> anyhow::Result<()> {
        let replicas = Replicas { addon: false, identity_file: true };
        for _ in 0..self.options.rounds {
            Subject::Upstream.start(self.cluster)?;
            POLITE.start(self.cluster)?;
            FLAPPING.start(self.cluster)?;
            sleep(Duration::from_secs(10));
            let there = self.observe("flapping", "flapping", 1, |cluster| {
                cluster.kubectl(&["rollout", "restart", "deployment/web"])?;
                stop(cluster)?;
                replicas.start(cluster)?;
                cluster.wait_for("deployment/web")
            })?;
            print(&there.row("hand-over, with the start of pods", "to kube-endpoint-manager"));
            let back = self.observe("flapping", "flapping", 1, |cluster| {
                cluster.kubectl(&["rollout", "restart", "deployment/web"])?;
                cluster.delete("deployment", replicas.name())?;
                Subject::Upstream.start(cluster)?;
                cluster.wait_for("deployment/web")
            })?;
            print(&back.row("hand-over, with the start of a process", "to kube-controller-manager"));
        }
        Ok(())
    }
}

/// Stops the kubelet of node 2 until its pods have left the slices. Without its Lease the node is
/// given up after 50 s.
fn hang_kubelet(cluster: &Cluster) -> anyhow::Result<()> {
    let process = cluster.output(&["process", "kubelet2"])?;
    let signal = |name| Command::new("kill").args(["-s", name, process.trim()]).status();
    signal("STOP")?;
    sleep(Duration::from_secs(60));
    signal("CONT")?;
    sleep(Duration::from_secs(15));
    Ok(())
}

/// Kills the process of each pod in turn. The pods are new: the kubelet restarts a container later
/// that has restarted before.
fn kill_each(cluster: &Cluster) -> anyhow::Result<()> {
    cluster.kubectl(&["rollout", "restart", "deployment/web"])?;
    cluster.wait_for("deployment/web")?;
    sleep(Duration::from_secs(10));
    let pods = cluster.get(&["pods", "--selector=app=web"])?;
    for pod in pods["items"].as_array().into_iter().flatten() {
        let process = process(cluster, pod)?;
        Command::new("kill").args(["-s", "KILL", &process]).status()?;
        sleep(Duration::from_secs(3));
    }
    cluster.wait_for("deployment/web")
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| format!("{} is no UTF-8", path.display()))
}
