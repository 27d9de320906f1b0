//! Measures one round of one controller: cold start, and then the work.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use indicatif::ProgressBar;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::child::{Child, words};
use crate::fill::{Filled, remove_outputs};
use crate::progress;
use crate::report::Figures;
use crate::server::Server;
use crate::statistics::percentile;
use crate::watch::{Place, Watches};
use crate::workload::{LONG_AGO, Workload};

/// How many changes are under way at a time.
const FLIPS_UNDER_WAY: usize = 32;

/// How long slices may take to show a change.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The time between two looks at the state of a measurement.
const POLL: Duration = Duration::from_millis(50);

/// The parameters of a measurement.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The number of changes of readiness after the cold start.
    pub(crate) flips: usize,
    /// The number of changes a second.
    pub(crate) rate: f64,
    /// The time without a write after which a cold start counts as finished.
    pub(crate) settle: Duration,
    /// How long a cold start may take.
    pub(crate) patience: Duration,
    /// The seed of the choice of pods.
    pub(crate) seed: u64,
}

/// A running controller on a filled server.
struct Round<'a> {
    server: &'a Server,
    filled: &'a Filled,
    plan: &'a Plan,
    watches: Watches,
    child: Child,
    figures: Figures,
    name: &'a str,
}

/// CPU seconds of the controller and of the server at one time.
#[derive(Clone, Copy)]
struct Cpu {
    controller: f64,
    server: Option<f64>,
}

/// Measures one controller once, starting without Endpoints and slices.
pub(crate) async fn round(
    server: &Server,
    filled: &Filled,
    plan: &Plan,
    (name, command): (&str, &str),
) -> anyhow::Result<Figures> {
    let command = words(command, &server.kubeconfig)?;
    remove_outputs(&server.api, filled).await?;
    let watches = Watches::start(&server.api, &filled.workload, &filled.names).await?;
    let server_before = server.cpu_seconds()?;
    let start = Instant::now();
    let child = Child::start(&command)?;
    let mut round = Round { server, filled, plan, watches, child, figures: Figures::new(), name };
    round.cold_start(start, server_before).await?;
    if plan.flips > 0 {
        round.churn().await?;
    }
    let memory = round.child.process.memory()?;
    round.note("peak_mb", megabytes(memory.peak));
    round.note("rss_end_mb", megabytes(memory.resident));
    round.child.stop().await?;
    Ok(round.figures)
}

impl Round<'_> {
    /// Notes a figure.
    fn note(&mut self, key: &str, value: f64) {
        self.figures.insert(key.to_owned(), value);
    }

    fn cpu(&self) -> anyhow::Result<Cpu> {
        let controller = self.child.process.cpu_time()?.as_secs_f64();
        Ok(Cpu { controller, server: self.server.cpu_seconds()? })
    }

    async fn cold_start(&mut self, start: Instant, server_before: Option<f64>) -> anyhow::Result<()> {
        let wanted = self.filled.workload.endpoints_in_slices();
        let progress = progress::steps(format!("{}: cold start", self.name), wanted);
        let end = self.settled(start, &progress).await.context("cold start")?;
        let memory = self.child.process.memory()?;
        let Cpu { controller, server } = self.cpu()?;
        let (slices, slice_writes, endpoints_writes) =
            self.watches.seen(|seen| (seen.slice_count(), seen.slices.writes, seen.endpoints.writes))?;
        self.note("cold_s", end.duration_since(start).as_secs_f64());
        self.note("cold_cpu_s", controller);
        self.note("cold_peak_mb", megabytes(memory.peak));
        self.note("cold_rss_mb", megabytes(memory.resident));
        self.note("cold_slice_writes", slice_writes as f64);
        self.note("cold_endpoints_writes", endpoints_writes as f64);
        self.note("slices", slices as f64);
        if let (Some(before), Some(after)) = (server_before, server) {
            self.note("cold_server_cpu_s", after - before);
        }
        Ok(())
    }

    /// Waits until the controller has published everything and has not written for a while. Returns
    /// the time of the last write.
    async fn settled(&mut self, start: Instant, progress: &ProgressBar) -> anyhow::Result<Instant> {
        let patience = self.plan.patience;
        let workload = &self.filled.workload;
        let (endpoints, addresses) = (workload.endpoints_in_slices(), workload.addresses_in_endpoints());
        loop {
            tokio::time::sleep(POLL).await;
            self.child.check()?;
            let (slices, in_endpoints, last) = self
                .watches
                .seen(|seen| (seen.slices.total, seen.endpoints.total, seen.last_event.unwrap_or(start)))?;
            progress.set_position(slices.min(endpoints) as u64);
            let last = last.max(start);
            // A controller of slices alone is fine, too.
            let complete = slices == endpoints && (in_endpoints == addresses || in_endpoints == 0);
            if complete && last.elapsed() >= self.plan.settle {
                return Ok(last);
            }
            if start.elapsed() > patience {
                bail!(
                    "after {} s, slices hold {slices} of {endpoints} endpoints, and Endpoints {in_endpoints} of {addresses} addresses; \
                     give it more time with --patience, or look for the reason in its log",
                    patience.as_secs()
                );
            }
        }
    }

    async fn churn(&mut self) -> anyhow::Result<()> {
        let before = self.begin()?;
        let flips = Flips {
            pods: self.filled.workload.pods,
            count: self.plan.flips,
            rate: self.plan.rate,
            seed: self.plan.seed,
        };
        let progress = progress::steps(format!("{}: changing readiness", self.name), flips.count);
        let start = Instant::now();
        let unready = flips.run(self.server, self.filled, &self.watches, &progress).await?;
        let took = start.elapsed();
        self.answers().await?;
        // Late writes belong to the work.
        tokio::time::sleep(Duration::from_secs(2).min(self.plan.settle)).await;
        self.child.check()?;
        let cpu = self.end(before)?;
        self.note("flips", flips.count as f64);
        self.note("flip_rate", flips.count as f64 / took.as_secs_f64());
        self.note("churn_cpu_ms_per_flip", 1_000.0 * cpu / flips.count as f64);
        let latencies = self.watches.seen(|seen| std::mem::take(&mut seen.latencies))?;
        for (key, part) in [("lat_p50_ms", 0.5), ("lat_p90_ms", 0.9), ("lat_p99_ms", 0.99)] {
            if let Some(value) = percentile(&latencies, part) {
                self.note(key, value);
            }
        }
        self.note("lat_n", latencies.len() as f64);
        let unanswered = self.watches.seen(|seen| seen.waiting.len())?;
        self.note("unanswered", unanswered as f64);
        self.make_ready(unready).await
    }

    /// Begins to count. Returns the present counters.
    fn begin(&mut self) -> anyhow::Result<Before> {
        let cpu = self.cpu()?;
        let writes = self.watches.seen(|seen| {
            seen.latencies.clear();
            (seen.slices.writes, seen.endpoints.writes)
        })?;
        Ok(Before { cpu, writes, traffic: self.watches.traffic() })
    }

    /// Notes the differences of the counters since `before`. Returns the CPU seconds of the
    /// controller.
    fn end(&mut self, before: Before) -> anyhow::Result<f64> {
        let after = self.cpu()?;
        let writes = self.watches.seen(|seen| (seen.slices.writes, seen.endpoints.writes))?;
        let cpu = after.controller - before.cpu.controller;
        self.note("churn_cpu_s", cpu);
        if let (Some(before), Some(after)) = (before.cpu.server, after.server) {
            self.note("churn_server_cpu_s", after - before);
        }
        self.note("slice_writes", (writes.0 - before.writes.0) as f64);
        self.note("endpoints_writes", (writes.1 - before.writes.1) as f64);
        let traffic = self.watches.traffic().since(before.traffic);
        self.note("watch_events", traffic.events as f64);
        self.note("watch_bytes", traffic.bytes as f64);
        Ok(cpu)
    }

    /// Waits until slices show all changes, for a limited time.
    async fn answers(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        while start.elapsed() < ANSWER_TIMEOUT && self.watches.seen(|seen| !seen.waiting.is_empty())? {
            self.child.check()?;
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Makes pods ready again for the next round.
    async fn make_ready(&self, pods: BTreeSet<usize>) -> anyhow::Result<()> {
        let filled = self.filled;
        crate::api::for_each(pods, |pod| filled.set_ready(&self.server.api, pod, true, LONG_AGO)).await
    }
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

/// The counters at the begin of the work.
#[derive(Clone, Copy)]
struct Before {
    cpu: Cpu,
    writes: (usize, usize),
    traffic: crate::watch::Traffic,
}

/// Changes of readiness.
struct Flips {
    /// The number of pods to choose from.
    pods: usize,
    count: usize,
    /// How many a second.
    rate: f64,
    seed: u64,
}

impl Flips {
    /// Returns the pod of each change, and true if it becomes ready.
    fn choices(&self) -> impl Iterator<Item = (usize, bool)> + '_ {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let mut unready = BTreeSet::new();
        (0..self.count).map(move |_| {
            let pod = (random.next_u64() % self.pods as u64) as usize;
            let ready = unready.remove(&pod);
            if !ready {
                unready.insert(pod);
            }
            (pod, ready)
        })
    }

    /// Makes the changes, each at its time. Returns the pods that are unready at the end.
    async fn run(
        &self,
        server: &Server,
        filled: &Filled,
        watches: &Watches,
        progress: &ProgressBar,
    ) -> anyhow::Result<BTreeSet<usize>> {
        let under_way = Arc::new(Semaphore::new(FLIPS_UNDER_WAY));
        let filled = Arc::new(filled.clone());
        let mut tasks = JoinSet::new();
        let start = Instant::now();
        let mut unready = BTreeSet::new();
        for (number, (pod, ready)) in self.choices().enumerate() {
            tokio::time::sleep_until(start + Duration::from_secs_f64(number as f64 / self.rate)).await;
            if ready {
                unready.remove(&pod)
            } else {
                unready.insert(pod)
            };
            let permit = under_way.clone().acquire_owned().await?;
            watches.seen(|seen| {
                let changed = (ready, Instant::now());
                seen.waiting.extend(places(&filled.workload, pod).map(|place| (place, changed)));
            })?;
            let (api, filled) = (server.api.clone(), filled.clone());
            tasks.spawn(async move {
                let _permit = permit;
                filled.set_ready(&api, pod, ready, &crate::clock::now_in_seconds()).await
            });
            while let Some(done) = tasks.try_join_next() {
                done??;
            }
            progress.inc(1);
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(unready)
    }
}

/// Returns the places that publish a pod.
fn places(workload: &Workload, pod: usize) -> impl Iterator<Item = Place> {
    std::iter::once((false, pod)).chain((pod < workload.big).then_some((true, pod)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_repeat_and_alternate_for_each_pod() {
        let flips = Flips { pods: 5, count: 200, rate: 1.0, seed: 7 };
        let choices: Vec<(usize, bool)> = flips.choices().collect();
        assert_eq!(choices, flips.choices().collect::<Vec<_>>());
        for pod in 0..5 {
            let of_pod: Vec<bool> =
                choices.iter().filter(|(it, _)| *it == pod).map(|(_, ready)| *ready).collect();
            assert!(of_pod.len() > 10, "{of_pod:?}");
            let alternating: Vec<bool> = (0..of_pod.len()).map(|at| at % 2 == 1).collect();
            assert_eq!(of_pod, alternating, "pod {pod}");
        }
    }
}
