//! Starts, ends and restarts the manager processes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use jiff::SignedDuration;
use kube_endpoint_controllers::{ApiClient, ContentType, Manager as Process, ManagerError, ManagerHandle};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_leader_election::{Machine, Record};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use super::connection::{Connection, KillAt, Link};
use super::request_faults::RequestFaults;
use super::servers::Servers;
use crate::history::{Manager, Setup};
use crate::random::Random;
use crate::watcher::{Recorder, SharedWatcher};

/// The time after which a process restarts that has ended by itself.
const RESTART: Duration = Duration::from_secs(2);

/// A process that runs.
struct Running {
    handle: ManagerHandle,
    link: Arc<Link>,
    stop: Option<oneshot::Sender<()>>,
    generation: u64,
}

#[derive(Default)]
struct Slot {
    running: Option<Running>,
    generation: u64,
    /// The number of seconds by which the clock of its host is ahead.
    clock: i64,
    /// True if it restarts when it ends.
    is_kept: bool,
    /// The content of the identity file of its processes, which run one at a time. There is none at
    /// first, as in a new pod.
    identity_file: Option<Record>,
}

/// All processes.
pub(crate) struct Managers {
    server: EmbeddedApiServer,
    setup: Setup,
    began: Instant,
    watcher: SharedWatcher,
    pub(crate) servers: Arc<Servers>,
    pub(crate) request_faults: Arc<RequestFaults>,
    slots: Mutex<BTreeMap<Manager, Slot>>,
    killed_at_writes: Arc<[AtomicUsize; 2]>,
}

impl Managers {
    pub(super) fn new(server: EmbeddedApiServer, setup: Setup, watcher: SharedWatcher) -> Arc<Self> {
        let servers = Arc::new(Servers::new(&server, setup.servers, setup.beside));
        Arc::new(Self {
            server,
            setup,
            began: Instant::now(),
            watcher,
            servers,
            request_faults: Arc::default(),
            slots: Mutex::default(),
            killed_at_writes: Arc::default(),
        })
    }

    /// Starts a process, and restarts it when it ends by itself. Does nothing if it runs.
    pub(crate) fn start(self: &Arc<Self>, manager: Manager) {
        let (generation, clock) = {
            let mut slots = self.slots.lock();
            let slot = slots.entry(manager).or_default();
            slot.is_kept = true;
            if slot.running.is_some() {
                return;
            }
            slot.generation += 1;
            (slot.generation, slot.clock)
        };
        match self.run(manager, generation, clock) {
            Ok((running, ended)) => {
                self.watch(manager, &running);
                if let Some(slot) = self.slots.lock().get_mut(&manager) {
                    slot.running = Some(running);
                }
                let this = Arc::clone(self);
                tokio::spawn(async move { this.ended(manager, generation, ended.await).await });
            }
            Err(error) => self.watcher.lock().fails("a manager cannot be built", "", error.to_string()),
        }
    }

    fn run(
        &self,
        manager: Manager,
        generation: u64,
        clock: i64,
    ) -> Result<(Running, JoinHandle<Result<(), ManagerError>>), ManagerError> {
        let name = format!("{}{generation}", manager.word());
        let seed = self.setup.seed.wrapping_mul(31) ^ (generation << 8) ^ manager as u64;
        let latency = Duration::from_millis(self.setup.latency.into());
        let killed = Arc::clone(&self.killed_at_writes);
        let link = Arc::new(Link::new(manager, name.clone(), Random::new(seed), latency, killed));
        let connection = Connection {
            server: self.server.clone(),
            servers: Arc::clone(&self.servers),
            request_faults: Arc::clone(&self.request_faults),
            link: Arc::clone(&link),
            watcher: self.watcher.clone(),
        };
        let mut settings = self.setup.settings_of(manager, name.clone());
        if let Some(election) = settings.leader_election.as_mut().filter(|_| self.setup.takes_back) {
            election.former = self.succeed(manager, &name);
        }
        let now = self.server.now();
        let now = now.saturating_add(SignedDuration::from_secs(clock)).unwrap_or(now);
        let encoding = if self.setup.json { ContentType::Json } else { ContentType::Protobuf };
        let client = ApiClient::for_tests(connection).with_content_type(encoding);
        let process = Process::new(client, &settings, now, seed)?;
        let handle = process.handle();
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(process.run(async move {
            let _ = stopped.await;
        }));
        link.set_task(ended.abort_handle());
        Ok((Running { handle, link, stop: Some(stop), generation }, ended))
    }

    /// Leaves the identity of a process in its file. Returns that of its former process, if that
    /// was killed.
    fn succeed(&self, manager: Manager, name: &str) -> Option<String> {
        let machine = Machine { boot_id: "simulated".to_owned(), uptime: self.began.elapsed() };
        let mut slots = self.slots.lock();
        let file = &mut slots.entry(manager).or_default().identity_file;
        let text = file.as_ref().map(Record::text).unwrap_or_default();
        let (record, former) = Record::succeed(&text, name, &machine);
        *file = Some(record);
        former.ok()
    }

    async fn ended(
        self: Arc<Self>,
        manager: Manager,
        generation: u64,
        ended: Result<Result<(), ManagerError>, JoinError>,
    ) {
        let why = match &ended {
            Ok(Ok(())) => "stopped".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(error) if error.is_cancelled() => "killed".to_owned(),
            Err(error) => error.to_string(),
        };
        let has_stopped = matches!(ended, Ok(Ok(())));
        {
            let mut watcher = self.watcher.lock();
            watcher.ended(manager, &why);
            if matches!(ended, Ok(Err(ManagerError::LeaderElectionLost(_)))) {
                watcher.loses_lease();
            }
            let is_expected = match ended {
                Ok(Ok(()) | Err(ManagerError::LeaderElectionLost(_))) => true,
                Ok(Err(_)) => false,
                Err(error) => error.is_cancelled(),
            };
            if !is_expected {
                watcher.fails(
                    "a manager ends only when it is told to or loses the lease",
                    manager.word(),
                    why,
                );
            }
        }
        let is_kept = {
            let mut slots = self.slots.lock();
            let Some(slot) = slots.get_mut(&manager) else { return };
            if let Some(record) = slot.identity_file.as_mut().filter(|_| has_stopped) {
                record.end_in_order();
            }
            slot.running.take_if(|running| running.generation == generation);
            slot.is_kept
        };
        if is_kept {
            tokio::time::sleep(RESTART).await;
            self.start_if(manager, generation);
        }
    }

    /// Records what the process reads, and when its controllers start again.
    fn watch(&self, manager: Manager, running: &Running) {
        let positions = self.watcher.lock().started(manager, &running.link.name);
        let watcher = self.watcher.clone();
        let is_first = AtomicBool::new(true);
        let is_addon = self.setup.beside && manager != Manager::K;
        running.handle.add_handler(move |cluster| {
            if !is_first.swap(false, Ordering::Relaxed) {
                watcher.lock().starts_again(manager);
            }
            let (cluster, positions) = (cluster.clone(), Arc::clone(&positions));
            Arc::new(Recorder::new(cluster, manager, watcher.clone(), positions, is_addon))
        });
    }

    /// Starts a process unless it was started or stopped meanwhile.
    fn start_if(self: &Arc<Self>, manager: Manager, generation: u64) {
        let slots = self.slots.lock();
        let is_next = slots.get(&manager).is_some_and(|slot| slot.is_kept && slot.generation == generation);
        drop(slots);
        if is_next {
            self.start(manager);
        }
    }

    /// Ends a process as SIGKILL does, and restarts it after a time. Returns true if it ran.
    pub(crate) fn kill(self: &Arc<Self>, manager: Manager, away: Option<Duration>) -> bool {
        self.leave(manager, away, |running| running.link.kill())
    }

    /// Ends a process as SIGTERM does, and restarts it after a time. Returns true if it ran.
    pub(crate) fn stop(self: &Arc<Self>, manager: Manager, away: Option<Duration>) -> bool {
        self.leave(manager, away, |running| {
            if let Some(stop) = running.stop.take() {
                // It may have ended already.
                let _ = stop.send(());
            }
        })
    }

    fn leave(
        self: &Arc<Self>,
        manager: Manager,
        away: Option<Duration>,
        end: impl FnOnce(&mut Running),
    ) -> bool {
        let mut slots = self.slots.lock();
        let Some(slot) = slots.get_mut(&manager) else { return false };
        slot.is_kept = false;
        let has_run = slot.running.is_some();
        if let Some(running) = &mut slot.running {
            end(running);
        }
        drop(slots);
        let Some(away) = away else { return has_run };
        let this = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(away).await;
            // It may still be shutting down.
            while this.slots.lock().get(&manager).is_some_and(|slot| slot.running.is_some()) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            this.start(manager);
        });
        has_run
    }

    /// Ends a process at one of its next writes of outputs, or of the Lease. It restarts two
    /// seconds later.
    pub(crate) fn kill_at_write(&self, manager: Manager, lease: bool, writes: u8, applied: bool) {
        if let Some(Some(running)) = self.slots.lock().get(&manager).map(|slot| &slot.running) {
            running.link.kill_at(KillAt { lease, writes, applied });
        }
    }

    /// Sets the clock of a host. A process reads it when it starts.
    pub(crate) fn jump_clock(&self, manager: Manager, seconds: i64) {
        self.slots.lock().entry(manager).or_default().clock += seconds;
    }

    /// Returns the processes that run.
    pub(crate) fn running(&self) -> Vec<(Manager, ManagerHandle)> {
        let slots = self.slots.lock();
        let running = slots.iter().filter_map(|(manager, slot)| Some((*manager, slot.running.as_ref()?)));
        running.map(|(manager, running)| (manager, running.handle.clone())).collect()
    }

    /// Returns how many processes have ended at a write of an output, and of the Lease.
    pub(crate) fn killed_at_writes(&self) -> [usize; 2] {
        [0, 1].map(|of: usize| self.killed_at_writes[of].load(Ordering::Relaxed))
    }

    /// Ends all processes.
    pub(crate) fn abort(&self) {
        for slot in self.slots.lock().values_mut() {
            slot.is_kept = false;
            if let Some(running) = &slot.running {
                running.link.kill();
            }
        }
    }
}
