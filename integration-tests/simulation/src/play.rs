//! Plays a history and checks the rules during it and after it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::checks;
use crate::cluster::Cluster;
use crate::history::{Action, History, Manager, Process, RequestClass, Step};
use crate::statistics::Statistics;
use crate::watcher::{Line, SharedWatcher, Violation};

const HOUR: Duration = Duration::from_secs(3600);
/// The words of steps that end a process at a write of an output, and of the Lease.
const KILLS: [&str; 2] = ["kill-at-write", "kill-at-lease-write"];
/// The maximum number of requests of a manager in an hour without changes and faults, not counting
/// those for Leases: five watches, each opened anew every five to ten minutes.
const MOST_REQUESTS_WHEN_IDLE: usize = 100;
/// The maximum number of requests of a manager in any hour. An outage of all requests causes up to
/// four attempts of each of five watches each minute.
const MOST_REQUESTS: usize = 5000;

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The first rule that did not hold.
    pub violation: Option<Violation>,
    pub statistics: Statistics,
    /// The steps that had no effect: changes that changed nothing, faults that concerned no
    /// request, processes that did not run.
    pub without_effect: Vec<String>,
    /// The lines of the transcript, if the caller wants them.
    pub transcript: Vec<Line>,
    /// The number of requests of the managers in each class until the last step, up to three.
    pub classes: BTreeMap<RequestClass, u8>,
}

/// Plays a history on a runtime of its own, with a paused clock.
pub fn simulate(history: &History) -> Outcome {
    play_on_runtime(history, false)
}

/// As [`simulate`], with the transcript.
pub fn simulate_with_transcript(history: &History) -> Outcome {
    play_on_runtime(history, true)
}

fn play_on_runtime(history: &History, is_transcript_wanted: bool) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    match runtime {
        Ok(runtime) => runtime.block_on(Run::play(history, is_transcript_wanted)),
        Err(error) => panic!("no runtime: {error}"),
    }
}

/// An event for the player. The numbers are those of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    EndOfFault(usize),
    EndOfSecondLeader,
    Save(usize),
    Step(usize),
    Hour,
    /// The player only checks the rules for times in between.
    Check,
}

/// Returns the events of a history after its beginning, in order.
fn agenda(history: &History) -> Vec<(Duration, Event)> {
    let mut agenda = Vec::new();
    for (number, Step { at, action }) in history.steps.iter().enumerate() {
        agenda.push((*at, Event::Step(number)));
        match action {
            Action::Fault(lasts, _) => agenda.push((*at + *lasts, Event::EndOfFault(number))),
            Action::Process(Process::Restore { seconds }) => {
                let saved = at.saturating_sub(Duration::from_secs((*seconds).into()));
                agenda.push((saved, Event::Save(number)));
            }
            Action::Process(Process::SecondLeader { seconds }) => {
                agenda.push((*at + Duration::from_secs((*seconds).into()), Event::EndOfSecondLeader));
            }
            Action::Change(_) | Action::Process(_) => {}
        }
    }
    let times: BTreeSet<Duration> = agenda.iter().flat_map(|(at, _)| checks_after(*at)).collect();
    agenda.extend(times.into_iter().map(|at| (at, Event::Check)));
    let hours = history.end().as_secs() / HOUR.as_secs();
    agenda.extend((1..=hours).map(|hour| (HOUR * hour as u32, Event::Hour)));
    agenda.sort();
    agenda
}

/// Returns the times of the checks after an event, in steps of five seconds.
fn checks_after(at: Duration) -> impl Iterator<Item = Duration> {
    const STEP: u64 = 5;
    [2, 20, 90]
        .into_iter()
        .map(move |later| Duration::from_secs((at.as_secs() + later).div_ceil(STEP) * STEP))
}

struct Run<'a> {
    history: &'a History,
    cluster: Cluster,
    watcher: SharedWatcher,
    began: Instant,
    /// True if the current hour had an event.
    is_eventful: bool,
    /// The number of hours in a row before it without an event and an active fault.
    idle_hours: u32,
    classes: BTreeMap<RequestClass, u8>,
}

impl Run<'_> {
    async fn play(history: &History, is_transcript_wanted: bool) -> Outcome {
        let watcher = SharedWatcher::new(&history.setup, is_transcript_wanted);
        let cluster = Cluster::new(&history.setup, watcher.clone(), Vec::new());
        let (began, classes) = (Instant::now(), BTreeMap::new());
        let mut run = Run { history, cluster, watcher, began, is_eventful: true, idle_hours: 0, classes };
        run.act().await;
        let killed = run.cluster.managers.killed_at_writes();
        run.cluster.managers.abort();
        let mut watcher = run.watcher.lock();
        let mut statistics = std::mem::take(&mut watcher.statistics);
        let mut without_effect = std::mem::take(&mut watcher.without_effect);
        statistics.runs = 1;
        statistics.beside = watcher.tested_beside();
        statistics.leading = watcher.tested_leading();
        for (word, killed) in KILLS.into_iter().zip(killed) {
            statistics.processes.insert(word, killed);
            let planned = history.steps.iter().filter(|step| step.action.word() == word).count();
            if killed < planned {
                without_effect.push(format!("{word}: {killed} of {planned}"));
            }
        }
        let transcript = watcher.transcript.take();
        let classes = run.classes;
        Outcome { violation: watcher.violation(), statistics, without_effect, transcript, classes }
    }

    async fn act(&mut self) {
        let agenda = agenda(self.history);
        let first = agenda
            .partition_point(|(at, event)| at.is_zero() && matches!(event, Event::Step(_) | Event::Save(_)));
        for (_, event) in &agenda[..first] {
            self.happen(*event).await;
        }
        self.start_managers();
        for (at, event) in &agenda[first..] {
            sleep_until(self.began + *at).await;
            self.check_now();
            if self.watcher.lock().violation().is_some() {
                return;
            }
            self.happen(*event).await;
        }
        self.finish().await;
    }

    fn start_managers(&self) {
        if self.history.setup.lease.is_some() {
            self.cluster.managers.start(Manager::B);
        }
        self.cluster.managers.start(Manager::A);
        if self.history.setup.beside {
            self.cluster.managers.start(Manager::K);
        }
    }

    fn check_now(&self) {
        let running = self.cluster.managers.running();
        let overlap = running.iter().any(|(manager, _)| *manager == Manager::C);
        let handles: Vec<_> = running.iter().map(|(_, handle)| handle.clone()).collect();
        let kept: Vec<_> = handles.iter().map(checks::most_kept).collect();
        let mut watcher = self.watcher.lock();
        watcher.check_idle(&handles, overlap);
        watcher.check_published();
        watcher.check_leading(&running);
        watcher.check_long_dead(&running);
        kept.into_iter().for_each(|kept| watcher.check_kept(kept));
    }

    async fn happen(&mut self, event: Event) {
        self.is_eventful |= !matches!(event, Event::Hour | Event::Check);
        match event {
            Event::Step(number) => {
                let step = &self.history.steps[number];
                self.watcher.lock().step(step);
                match &step.action {
                    Action::Change(change) => {
                        let before = self.cluster.server.resource_version();
                        self.cluster.change(change).await;
                        let mut watcher = self.watcher.lock();
                        watcher.settle_pending(Some("user"));
                        if self.cluster.server.resource_version() == before {
                            watcher.without_effect.push(step.to_string());
                        } else {
                            watcher.changed(change);
                        }
                    }
                    Action::Fault(_, fault) => self.cluster.begin(number, fault),
                    Action::Process(process) => self.process(number, process).await,
                }
            }
            Event::EndOfFault(number) => self.cluster.end(number),
            Event::EndOfSecondLeader => {
                self.cluster.managers.stop(Manager::C, None);
                self.watcher.lock().disturb();
            }
            Event::Save(number) => self.cluster.save(number),
            Event::Hour => self.check_hour(),
            Event::Check => {}
        }
    }

    fn check_hour(&mut self) {
        let managers = self.cluster.managers.running().len();
        let lists = self.cluster.managers.servers.take_lists();
        let mut watcher = self.watcher.lock();
        watcher.statistics.most_lists = watcher.statistics.most_lists.max(lists);
        if self.history.setup.most_lists.is_some_and(|most| lists > most.into()) {
            watcher.fails("lists are bounded", "", format!("{lists} lists of whole kinds in an hour"));
        }
        watcher.check_bounds_of_hour(&self.history.setup);
        self.is_eventful |= watcher.has_faults();
        self.idle_hours = if self.is_eventful { 0 } else { self.idle_hours + 1 };
        self.is_eventful = watcher.has_faults();
        // Earlier events may have effects in the first hour after them.
        let was_idle = self.idle_hours > 1;
        watcher.check_hour(
            managers,
            was_idle,
            if was_idle { MOST_REQUESTS_WHEN_IDLE } else { MOST_REQUESTS },
        );
    }

    async fn process(&mut self, number: usize, process: &Process) {
        let managers = self.cluster.managers.clone();
        let milliseconds = |time: u32| Some(Duration::from_millis(time.into()));
        self.watcher.lock().hinder();
        let mut has_effect = true;
        match *process {
            Process::Kill { manager, away } => has_effect = managers.kill(manager, milliseconds(away)),
            Process::KillAtWrite { manager, nth, applied } => {
                managers.kill_at_write(manager, false, nth, applied);
            }
            Process::KillAtLeaseWrite { manager, nth, applied } => {
                managers.kill_at_write(manager, true, nth, applied);
            }
            Process::Stop { manager, away } => has_effect = managers.stop(manager, milliseconds(away)),
            Process::Suspend { seconds } => {
                tokio::time::advance(Duration::from_secs(seconds.into())).await;
                self.watcher.lock().suspended();
            }
            Process::SuspendPastLease { seconds } => {
                // The tasks run after that time, and find that another process has led meanwhile.
                if self.history.setup.lease.is_some_and(|lease| u32::from(lease) <= seconds) {
                    self.cluster.give_lease_away(seconds);
                }
                tokio::time::advance(Duration::from_secs(seconds.into())).await;
                self.watcher.lock().suspended();
            }
            Process::SecondLeader { .. } => {
                managers.start(Manager::C);
                self.watcher.lock().disturb();
            }
            Process::ManagerClock { manager, seconds } => managers.jump_clock(manager, seconds),
            Process::ServerClock { seconds } => self.cluster.server.jump_clock(seconds),
            Process::Restore { .. } => self.cluster.restore(number),
            Process::Compact {} => self.cluster.server.compact(),
            Process::AtRequest { .. } => managers.request_faults.arm(process),
            Process::EditLease { delete } => {
                if self.cluster.has_lease() {
                    self.watcher.lock().lease_is_edited();
                }
                has_effect = self.cluster.edit_lease(delete).await;
            }
        }
        let mut watcher = self.watcher.lock();
        if !has_effect {
            watcher.without_effect.push(process.to_string());
        } else if !KILLS.contains(&process.word()) && process.word() != Process::AT_REQUEST {
            *watcher.statistics.processes.entry(process.word()).or_default() += 1;
        }
    }

    async fn finish(&mut self) {
        self.cluster.end_all();
        let (not_injected, classes) = self.cluster.managers.request_faults.end();
        self.watcher.lock().without_effect.extend(not_injected);
        self.classes = classes;
        self.cluster.managers.stop(Manager::C, None);
        self.start_managers();
        // Also a server that was an hour behind shows everything in the end.
        if let Some(at) = self.cluster.managers.servers.catch_up_at() {
            sleep_until(at).await;
        }
        self.cluster.complete().await;
        tokio::time::sleep(self.history.setup.recovery()).await;
        self.check_now();
        if self.watcher.lock().violation().is_some() {
            return;
        }
        if let Err((rule, detail)) = self.cluster.check_end(&self.history.setup).await {
            self.watcher.lock().fails(rule, "", detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agenda_has_the_ends_of_faults_and_the_states_that_are_restored() {
        let history: History = format!(
            "{}\n00:00:01.000 for 00:00:09.000 unreachable by=none\n00:00:08.000 restore seconds=5\n",
            History::of(0).setup
        )
        .parse()
        .unwrap();
        let second = Duration::from_secs;
        let want = [
            (second(1), Event::Step(0)),
            (second(3), Event::Save(1)),
            (second(8), Event::Step(1)),
            (second(10), Event::EndOfFault(0)),
        ];
        let (checks, events): (Vec<_>, Vec<_>) =
            agenda(&history).into_iter().partition(|(_, event)| *event == Event::Check);
        assert_eq!(events, want);
        let checks: Vec<u64> = checks.into_iter().map(|(at, _)| at.as_secs()).collect();
        assert_eq!(checks, [5, 10, 15, 25, 30, 95, 100]);
    }
}
