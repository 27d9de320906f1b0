//! `scale soak`: runs two replicas of a controller for a long time, with changes of the cluster,
//! restarts of both sides and faults of the network. See docs/performance.md.

mod churn;
mod curves;
mod ending;
mod faults;
mod lives;
mod objects;
mod options;
mod proxy;
mod published;
mod record;
mod replica;
mod summary;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use parking_lot::Mutex;
use rustix::process::Signal;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::child::{Child, words};
use crate::fill::{clean, fill};
use crate::options::PlotOptions;
use crate::progress::Progress;
use crate::run::{command_with, write};
use crate::server::{Server, Transport};
use crate::workload::Names;
use crate::{clock, plot::svg, print, procfs};

use churn::Churn;
use ending::{Check, quiet};
use faults::{Fault, Faults, Kind};
pub(crate) use options::SoakOptions;
use proxy::Rule;
use published::Watching;
use record::{End, Happened, Line, Recorder, Sample, Start};
use replica::Replica;
use summary::Summary;

/// The flags of a replica: those of a cluster, without a port.
const FLAGS: &str = "--kubeconfig={kubeconfig} --secure-port=0";

const REPLICAS: usize = 2;

/// The time between two looks at the replicas, and at what they published.
const POLL: Duration = Duration::from_millis(200);

/// How long a restart of the API server may take.
const RESTART_TIMEOUT: Duration = Duration::from_secs(180);

/// A soak under way.
struct Soak<'a> {
    options: &'a SoakOptions,
    server: &'a Server,
    watching: Arc<Watching>,
    churn: Arc<Churn>,
    replicas: Vec<Mutex<Replica>>,
    recorder: Recorder,
    fault: Mutex<Option<Kind>>,
}

/// Runs a soak, and prints its summary. Fails if the summary has a problem.
pub(crate) async fn run(options: &SoakOptions) -> anyhow::Result<()> {
    let workload = options.workload().map_err(anyhow::Error::msg)?;
    let command = options.command.clone().map_or_else(|| command_with(FLAGS), Ok)?;
    let output = &options.output;
    std::fs::create_dir_all(output)
        .with_context(|| format!("cannot make the folder {}", output.display()))?;
    let file = output.join("soak.jsonl");
    let server = match &options.kubeconfig {
        Some(file) => Server::of_kubeconfig(file, None).await?,
        None => Server::embedded(Transport::Tls).await?,
    };
    let names = Names { prefix: options.prefix.clone() };
    clean(&server.api, &names).await?;
    fill(&server.api, &workload, &names).await?;
    let watching = Arc::new(Watching::start(&server.api, &options.prefix).await?);
    let folder = tempfile::tempdir().context("cannot make a folder for kubeconfigs")?;
    let mut replicas = Vec::new();
    for number in 0..REPLICAS {
        let log = output.join(format!("replica-{number}.log"));
        let replica = Replica::start(number, &command, &server.kubeconfig, folder.path(), &log).await?;
        replicas.push(Mutex::new(replica));
    }
    let churn =
        Churn::new(server.api.with_own_connections().await?, workload.clone(), names, watching.clone());
    let soak = Soak {
        recorder: Recorder::create(&file)?,
        options,
        server: &server,
        watching,
        churn,
        replicas,
        fault: Mutex::new(None),
    };
    soak.recorder.write(&Line::Start(Start {
        time: clock::now_in_seconds(),
        command: command.clone(),
        server: server.description.clone(),
        work: format!("{}; {} changes a second", workload.describe(), options.rate),
        seed: options.seed,
        cpus: std::thread::available_parallelism().map_or(0, usize::from),
    }))?;
    let quiet_after = soak.until_quiet().await?;
    soak.end(quiet_after, &command).await?;
    let lines = record::read(&file)?;
    let summary = Summary::of(&lines);
    draw(&lines, output)?;
    print(&summary.text())?;
    let problems = summary.problems();
    anyhow::ensure!(problems.is_empty(), "{}", problems.join("; "));
    Ok(())
}

/// Makes plots again if the file is one of a soak, and returns its summary. Otherwise returns
/// `None`.
pub(crate) fn plot(options: &PlotOptions) -> anyhow::Result<Option<String>> {
    let Ok(lines) = record::read(&options.file) else { return Ok(None) };
    draw(&lines, &options.output)?;
    Ok(Some(Summary::of(&lines).text()))
}

fn draw(lines: &[Line], folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let charts = curves::of(lines);
    charts.iter().try_for_each(|chart| write(&folder.join(format!("{}.svg", chart.name)), &svg(chart)?))
}

impl Soak<'_> {
    /// Lets changes and faults go on until their end, and waits until everything is published.
    /// Returns the seconds that this took.
    async fn until_quiet(&self) -> anyhow::Result<f64> {
        let work = async {
            quiet(&self.watching, self.options.settle).await.context("cold start")?;
            let start = Instant::now();
            let until = start + self.options.time;
            let changes = self.churn.run(self.options.seed, self.options.rate, until);
            tokio::try_join!(changes, self.faults(start), self.progress(start))?;
            let end = Instant::now();
            quiet(&self.watching, self.options.settle).await?;
            Ok(end.elapsed().as_secs_f64())
        };
        tokio::select! {
            biased;
            done = work => done,
            failed = self.tend() => failed.map(|()| 0.0),
            failed = self.sample() => failed.map(|()| 0.0),
        }
    }

    /// Shows how much time is left.
    async fn progress(&self, start: Instant) -> anyhow::Result<()> {
        let all = self.options.time.as_secs();
        let progress = Progress::steps("soak", usize::try_from(all)?);
        while start.elapsed() < self.options.time {
            progress.at(usize::try_from(start.elapsed().as_secs())?);
            sleep(POLL).await;
        }
        Ok(())
    }

    async fn tend(&self) -> anyhow::Result<()> {
        loop {
            sleep(POLL).await;
            self.replicas.iter().try_for_each(|replica| replica.lock().tend(&self.recorder))?;
        }
    }

    async fn sample(&self) -> anyhow::Result<()> {
        let every = Duration::from_secs_f64(self.options.sample);
        let mut ticks = tokio::time::interval_at(Instant::now() + every, every);
        let mut before = (0, 0, 0);
        loop {
            ticks.tick().await;
            let changes = self.churn.counts().values().sum();
            let sample = self.watching.seen(|seen| {
                let now = (seen.slice_writes, seen.endpoints_writes, changes);
                let sample = Sample {
                    at: self.recorder.now(),
                    slice_writes: now.0 - before.0,
                    endpoints_writes: now.1 - before.1,
                    changes: now.2 - before.2,
                    waiting: seen.waiting.len(),
                    fault: *self.fault.lock(),
                    calm_ms: std::mem::take(&mut seen.calm_ms),
                    disturbed_ms: std::mem::take(&mut seen.disturbed_ms),
                    replicas: Vec::new(),
                    load: procfs::load_average(),
                };
                before = now;
                sample
            });
            let replicas = self.replicas.iter().filter_map(|replica| replica.lock().process()).collect();
            self.recorder.write(&Line::Sample(Sample { replicas, ..sample }))?;
        }
    }

    /// Makes faults. In the middle half of the time they are those that a leader outlives, so that
    /// one process shows whether it grows.
    async fn faults(&self, start: Instant) -> anyhow::Result<()> {
        let (time, end) = (self.options.time, start + self.options.time);
        let every = Duration::from_secs_f64(self.options.fault_every);
        let mut faults = Faults::new(self.options.seed, every, self.options.restart_server.is_some());
        loop {
            let passed = start.elapsed();
            let fault = faults.next(passed > time / 4 && passed < time * 3 / 4);
            if Instant::now() + fault.pause + fault.lasts > end {
                sleep_until(end).await;
                return Ok(());
            }
            sleep(fault.pause).await;
            let at = self.recorder.now();
            *self.fault.lock() = Some(fault.kind);
            self.watching.seen(|seen| seen.set_faulty(true));
            self.make(fault).await.with_context(|| fault.kind.to_string())?;
            self.watching.seen(|seen| seen.set_faulty(false));
            *self.fault.lock() = None;
            let replicas =
                if fault.kind == Kind::RestartServer { Vec::new() } else { fault.targets.to_vec() };
            let until = self.recorder.now();
            self.recorder.write(&Line::Fault(Happened { at, until, kind: fault.kind, replicas }))?;
        }
    }

    async fn make(&self, fault: Fault) -> anyhow::Result<()> {
        let each = |act: &dyn Fn(&mut Replica)| {
            fault.targets.iter().for_each(|number| act(&mut self.replicas[*number].lock()));
        };
        let change = |change: &dyn Fn(&mut Rule)| each(&|replica| replica.proxy.set(|rule| change(rule)));
        match fault.kind {
            Kind::Cut => change(&|rule| rule.cuts += 1),
            Kind::Refuse => change(&|rule| rule.refuse = true),
            Kind::Stall => change(&|rule| rule.stall = true),
            Kind::Delay => change(&|rule| rule.delay = fault.delay),
            Kind::Terminate => each(&|replica| replica.signal(Signal::TERM)),
            Kind::Kill => each(&|replica| replica.signal(Signal::KILL)),
            Kind::RestartServer => self.restart_server().await?,
        }
        sleep(fault.lasts).await;
        change(&|rule| *rule = Rule { cuts: rule.cuts, ..Rule::default() });
        Ok(())
    }

    async fn restart_server(&self) -> anyhow::Result<()> {
        let Some(command) = &self.options.restart_server else { return Ok(()) };
        let mut child = Child::start(&words(command, &self.server.kubeconfig)?)?;
        let end = timeout(RESTART_TIMEOUT, async {
            loop {
                if let Some(status) = child.status()? {
                    return Ok::<_, anyhow::Error>(status);
                }
                sleep(POLL).await;
            }
        });
        let status = end.await.with_context(|| format!("it took over {} s", RESTART_TIMEOUT.as_secs()))??;
        if !status.success() {
            bail!("{:#}", child.check().err().context("it failed")?);
        }
        Ok(())
    }

    /// Stops the replicas, and counts what a new process and the upstream controllers write.
    async fn end(self, quiet_after: f64, command: &str) -> anyhow::Result<()> {
        for replica in self.replicas {
            replica.into_inner().stop().await?;
        }
        let check = Check {
            options: self.options,
            server: self.server,
            watching: &self.watching,
            churn: &self.churn,
        };
        let own_writes = check.writes_of(command, "a new process of the controller").await?;
        let upstream_writes = match &self.options.upstream {
            Some(command) => Some(check.writes_of(command, "the command of --upstream").await?),
            None => None,
        };
        self.recorder.write(&Line::End(End {
            at: self.recorder.now(),
            quiet_after: record::milli(quiet_after),
            changes: self.churn.counts(),
            own_writes,
            upstream_writes,
            checked_for: self.options.check,
        }))
    }
}
