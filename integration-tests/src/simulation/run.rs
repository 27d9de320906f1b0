//! Plays histories and checks what must hold during and after them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube_endpoint_embedded_apiserver::{Checkpoint, FaultId};
use kube_endpoint_manager_core::{ReflectorOptions, Settings};
use tokio::time::{Instant, sleep, sleep_until};

use super::cluster::{Cluster, text};
use super::history::{HISTORY, Happening, History, clock};
use super::operations::Op;

/// The time after the last outage within which everything is right again: ten minutes for the slow retry of a key, which
/// comes after six minutes at most, and for what its sync then finds, and three minutes, times the factor of the seed, until a
/// silent connection is given up and the watch is opened anew.
pub fn recovery(seed: u64) -> Duration {
    Duration::from_secs(10 * 60) + Duration::from_secs(3 * 60) * slowness(seed)
}

/// Bookmarks, and checks of watches, take most of the time of a simulated idle hour. Of twenty seeds, one uses the default
/// times and the others times that are longer by this factor.
const SLOWNESS: u32 = 10;
/// How often the server sends bookmarks by default.
const BOOKMARKS: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
/// Requests in an hour without changes and outages: five watches, each opened anew every five to ten minutes.
const MOST_REQUESTS_WHEN_IDLE: usize = 100;
/// Requests in any hour. An outage of all requests causes up to four attempts of each of five watches each minute.
const MOST_REQUESTS: usize = 5000;

/// What the histories of some seeds had to go through.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// For each kind of outage, the requests and watches that it concerned.
    pub hits: BTreeMap<&'static str, usize>,
    /// Restores of an older state.
    pub restores: usize,
    /// The most requests in one hour, and in an hour without changes and outages.
    pub most_requests: [usize; 2],
}

impl Statistics {
    /// Adds those of other histories.
    pub fn add(&mut self, other: &Self) {
        for (kind, hits) in &other.hits {
            *self.hits.entry(kind).or_default() += hits;
        }
        self.restores += other.restores;
        for (most, other) in self.most_requests.iter_mut().zip(other.most_requests) {
            *most = (*most).max(other);
        }
    }

    fn requests(&mut self, what: &str, number: usize, is_idle: bool) -> Result<(), String> {
        let most = &mut self.most_requests[usize::from(is_idle)];
        *most = (*most).max(number);
        let limit = if is_idle { MOST_REQUESTS_WHEN_IDLE } else { MOST_REQUESTS };
        if number <= limit {
            return Ok(());
        }
        Err(format!("{number} requests {what}, more than {limit}"))
    }
}

/// Settings with small slices. The seed chooses options that affect concurrency and timing.
fn settings(seed: u64) -> Settings {
    let mut settings = Settings::default();
    settings.reflectors = reflectors(seed);
    settings.watch_list_client = !seed.is_multiple_of(5);
    // Without a resync, nothing but retries mends what an outage left.
    if !seed.is_multiple_of(4) {
        settings.min_resync_period = Duration::ZERO;
    }
    settings.max_endpoints_per_slice = 5;
    settings.qps = if seed.is_multiple_of(2) { 20.0 } else { -1.0 };
    settings.endpoint_slice_batch_period =
        Duration::from_millis(if seed.is_multiple_of(3) { 500 } else { 0 });
    settings
}

/// How much longer the times of watches are than the defaults.
fn slowness(seed: u64) -> u32 {
    if seed.is_multiple_of(20) { 1 } else { SLOWNESS }
}

fn reflectors(seed: u64) -> ReflectorOptions {
    let slowness = slowness(seed);
    let default = ReflectorOptions::new(0);
    default
        .page_size(if seed.is_multiple_of(3) { 500 } else { 7 })
        .watch_timeout(default.watch_timeout * slowness)
        .idle_timeout(default.idle_timeout * slowness)
        .silence(default.silence * slowness)
}

/// Plays the history of a seed on a runtime of its own, with a paused clock.
///
/// # Errors
///
/// What did not hold, with the history.
pub fn simulate(seed: u64) -> Result<Statistics, String> {
    let history = History::of(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let outcome = runtime.unwrap().block_on(async {
        let mut run = Run::start(seed);
        run.play(&history).await?;
        run.recover().await?;
        Ok(run.statistics)
    });
    outcome.map_err(|why: String| format!("seed {seed}:\n{history}{} {why}", clock(HISTORY + recovery(seed))))
}

struct Run {
    cluster: Cluster,
    statistics: Statistics,
    began: Instant,
    /// The outages that have not ended.
    outages: BTreeMap<usize, Vec<FaultId>>,
    saved: BTreeMap<usize, Checkpoint>,
    recovery: Duration,
    hits: BTreeMap<&'static str, Arc<AtomicUsize>>,
    counted_hours: u32,
    /// Whether anything happened since the hour before the current one began.
    is_quiet: [bool; 2],
}

impl Run {
    fn start(seed: u64) -> Self {
        Self {
            cluster: Cluster::start_with(seed, &settings(seed), BOOKMARKS * slowness(seed)),
            statistics: Statistics::default(),
            began: Instant::now(),
            outages: BTreeMap::new(),
            saved: BTreeMap::new(),
            recovery: recovery(seed),
            hits: BTreeMap::new(),
            counted_hours: 0,
            is_quiet: [false; 2],
        }
    }

    async fn play(&mut self, history: &History) -> Result<(), String> {
        for op in &history.initial {
            self.cluster.play(op).await;
        }
        for (at, what) in &history.events {
            self.pass_until(*at).await?;
            self.is_quiet = [false; 2];
            self.happen(what).await;
        }
        self.pass_until(HISTORY).await
    }

    async fn happen(&mut self, what: &Happening) {
        let server = &self.cluster.server;
        match what {
            Happening::Change(op) => {
                // A node exists before its pods, so that all syncs can succeed in the end.
                if let Op::Pod { node, .. } = op
                    && server.get("nodes", "", &format!("n{node}")).is_none()
                {
                    self.cluster.play(&Op::Node { name: *node, zone: 1 }).await;
                }
                self.cluster.play(op).await;
            }
            Happening::Begin(number, outage) => {
                let hits = self.hits.entry(outage.name()).or_default();
                self.outages.insert(*number, outage.begin(server, hits));
            }
            Happening::End(number) => {
                for fault in self.outages.remove(number).unwrap_or_default() {
                    server.remove_fault(fault);
                }
            }
            Happening::Save(number) => {
                self.saved.insert(*number, server.checkpoint());
            }
            Happening::Restore(number) => {
                self.statistics.restores += 1;
                server.restore(&self.saved[number]);
            }
        }
    }

    /// Waits until a time of the history. Counts the requests of each full hour.
    async fn pass_until(&mut self, time: Duration) -> Result<(), String> {
        while HOUR * (self.counted_hours + 1) <= time {
            self.counted_hours += 1;
            sleep_until(self.began + HOUR * self.counted_hours).await;
            let number = self.cluster.server.request_log().len();
            self.cluster.server.clear_request_log();
            let is_idle = self.is_quiet == [true; 2];
            let is_over = self.outages.is_empty();
            self.is_quiet = [is_over, self.is_quiet[0] && is_over];
            let hour = format!("in hour {}", self.counted_hours);
            self.statistics.requests(&hour, number, is_idle)?;
        }
        sleep_until(self.began + time).await;
        Ok(())
    }

    /// Ends all outages, waits, and checks what must hold then.
    async fn recover(&mut self) -> Result<(), String> {
        self.cluster.server.clear_faults();
        let services = self.cluster.server.list("services");
        sleep(self.recovery).await;
        self.cluster.equals_output_of_new_controllers().await?;
        self.cluster.writes_nothing().await?;
        self.cluster.waits_for_nothing()?;
        self.cluster.server.clear_request_log();
        sleep(HOUR).await;
        let number = self.cluster.server.request_log().len();
        self.statistics.requests("in an hour after the recovery", number, true)?;
        self.cluster.second_manager_writes_nothing().await?;
        if self.cluster.server.list("services") != services {
            return Err("a Service was changed".to_owned());
        }
        for (kind, hits) in &self.hits {
            self.statistics.hits.insert(kind, hits.load(Ordering::Relaxed));
        }
        self.delete_everything().await;
        self.cluster.remembers_nothing()
    }

    async fn delete_everything(&self) {
        for plural in ["services", "endpoints", "pods"] {
            for object in self.cluster.server.list(plural) {
                self.cluster.delete(plural, text(&object, "/metadata/name")).await;
            }
        }
        sleep(self.recovery).await;
    }
}
