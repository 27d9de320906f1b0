//! The fault sweep: it plays a history once for each fault at each of its requests.
//!
//! A [`Point`] is a request, a fault, and its time before or after the server handles the request.
//! The first play of a history finds its requests: those of one controller with one verb for one
//! Service or Lease, the first three of each. [`Sweep`] numbers the points of all histories.
//!
//! Histories of seeds draw faults at random, and may miss the one request that matters.

mod run;

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;

use crate::history::{Action, History, Process, Profile, RequestClass, RequestFault, Setup, Step};
use crate::parallel::on_all_cores;
use crate::play::simulate;
use crate::random::Random;
use crate::watcher::Violation;
pub use run::{Failure, Swept, play};

/// The profiles with a seed that is swept.
const PROFILES: [Profile; 10] = [
    Profile::Churn,
    Profile::Outages,
    Profile::Leaders,
    Profile::Namespaces,
    Profile::Foreign,
    Profile::Stale,
    Profile::Unobserved,
    Profile::Restores,
    Profile::Refusals,
    Profile::Lagging,
];
/// The seed in each of these profiles.
const SEED: u64 = 1;

/// The named histories that are not swept, or not with one fault: they show limits, at which a rule
/// holds only if nothing else goes wrong (docs/reliability.md, "A restore that nothing shows"). In
/// `servers-with-two-storages`, chance decides from which of two storages a process reads. In two,
/// only a renewal of the Lease or a write shows that the storage went back. In the last, a process
/// deletes the leftovers that its first list shows.
const NOT_SWEPT: &[(&str, Option<RequestFault>)] = &[
    ("pod-deletion-that-an-old-watch-skips", None),
    ("servers-with-two-storages", None),
    ("update-that-a-second-restore-undoes", Some(RequestFault::TooManyRequests)),
    ("service-deleted-while-stopped", Some(RequestFault::OlderLists)),
];

/// A history and its points.
#[derive(Clone, Debug)]
pub struct Target {
    pub name: String,
    history: History,
    pub points: Vec<Point>,
}

/// A fault at a request of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    pub request: RequestClass,
    /// The number of the request in its class, from 1.
    pub nth: u8,
    pub fault: RequestFault,
    /// True if the server handles the request first.
    pub handled: bool,
}

/// Returns true if a history is swept with a fault, or at all.
fn is_swept(name: &str, fault: Option<RequestFault>) -> bool {
    !NOT_SWEPT.iter().any(|(left_out, with)| *left_out == name && (with.is_none() || *with == fault))
}

/// Returns the points of a history at requests: classes, each with the number of the request. A
/// read changes nothing, so it has each fault once, and no server answers it with 409. A server
/// that answers 409 or 429 has changed nothing; one that answers 500 may have.
fn points(history: &str, requests: impl IntoIterator<Item = (RequestClass, u8)>) -> Vec<Point> {
    let faults: Vec<RequestFault> =
        RequestFault::ALL.iter().copied().filter(|fault| is_swept(history, Some(*fault))).collect();
    let mut points = Vec::new();
    for (request, nth) in requests {
        let is_write = request.is_write();
        for fault in &faults {
            let times: &[bool] = match fault {
                RequestFault::Conflict if !is_write => &[],
                RequestFault::Conflict | RequestFault::TooManyRequests => &[false],
                _ if is_write => &[false, true],
                _ => &[false],
            };
            points.extend(times.iter().map(|handled| Point {
                request: request.clone(),
                nth,
                fault: *fault,
                handled: *handled,
            }));
        }
    }
    points
}

impl Target {
    /// Plays a history, and finds its requests.
    ///
    /// # Errors
    ///
    /// The violation, if a rule does not hold even without more faults.
    pub fn new(name: String, history: &History) -> Result<Self, Violation> {
        // A fault more may need more writes, lists and terms than the history alone.
        let setup = Setup {
            most_refused: None,
            most_lists: None,
            least_writes: None,
            most_lost: None,
            ..history.setup.clone()
        };
        let history = History { setup, steps: history.steps.clone() };
        let outcome = simulate(&history);
        if let Some(violation) = outcome.violation {
            return Err(violation);
        }
        let requests = outcome.classes.into_iter();
        let requests = requests.flat_map(|(request, seen)| (1..=seen).map(move |nth| (request.clone(), nth)));
        Ok(Self { points: points(&name, requests), name, history })
    }

    /// Returns the history with the fault of a point.
    pub fn with(&self, point: &Point) -> History {
        let Point { request, nth, fault, handled } = point.clone();
        let fault = Action::Process(Process::AtRequest { request, nth, handled, fault });
        let mut history = self.history.clone();
        history.steps.insert(0, Step { at: Duration::ZERO, action: fault });
        history
    }
}

/// Histories with their points, which are numbered from 0 over all of them.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    pub targets: Vec<Target>,
}

impl Sweep {
    /// Plays the named histories, and that of a seed in each of ten profiles, such as `leaders-1`,
    /// and finds their requests. It takes those whose name contains `filter`, and of these each
    /// `step`-th. Calls `done` after each.
    ///
    /// # Errors
    ///
    /// The error of [`History::all_named`], or the first rule that does not hold in a history
    /// without a fault more.
    pub fn of(filter: &str, step: usize, done: impl Fn() + Sync) -> anyhow::Result<Self> {
        let mut all: Vec<_> = History::all_named()?.into_iter().collect();
        let of_seeds = PROFILES.map(|it| (format!("{}-{SEED}", it.word()), History::with_profile(it, SEED)));
        all.extend(of_seeds);
        all.retain(|(name, _)| name.contains(filter) && is_swept(name, None));
        let all: Vec<_> = all.into_iter().step_by(step).collect();
        let targets = Mutex::new(BTreeMap::new());
        on_all_cores(
            0..all.len() as u64,
            || false,
            |number| {
                let (name, history) = &all[number as usize];
                let target = Target::new(name.clone(), history);
                let target = target.map_err(|violation| anyhow::anyhow!("{name}: {violation}"));
                targets.lock().insert(number, target);
                done();
            },
        );
        Ok(Self { targets: targets.into_inner().into_values().collect::<anyhow::Result<_>>()? })
    }

    /// Returns the number of points.
    pub fn points(&self) -> usize {
        self.targets.iter().map(|target| target.points.len()).sum()
    }

    /// Returns the point with this number, and its history.
    pub fn point(&self, mut number: usize) -> Option<(&Target, &Point)> {
        for target in &self.targets {
            if let Some(point) = target.points.get(number) {
                return Some((target, point));
            }
            number -= target.points.len();
        }
        None
    }

    /// Returns the numbers of `count` different points, drawn by a seed, in order.
    pub fn sample(&self, count: usize, seed: u64) -> Vec<usize> {
        let mut random = Random::new(seed);
        let mut numbers: Vec<usize> = (0..self.points()).collect();
        let count = count.min(numbers.len());
        for at in 0..count {
            let left = (numbers.len() - at) as u64;
            numbers.swap(at, at + random.below(left) as usize);
        }
        numbers.truncate(count);
        numbers.sort_unstable();
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Field;

    fn target(requests: &[(&str, u8)]) -> Target {
        let requests = requests.iter().map(|(request, nth)| (RequestClass::read(request).unwrap(), *nth));
        Target { name: "t".to_owned(), history: History::of(0), points: points("t", requests) }
    }

    #[test]
    fn a_write_has_each_fault_before_and_after_and_a_read_has_it_once() {
        let target = target(&[("update:endpoints:x:team/s1", 1), ("list:pods:x:/", 2)]);
        assert_eq!(target.points.len(), 12 + 6);
        let steps: Vec<String> =
            target.points.iter().map(|it| target.with(it).steps[0].to_string()).collect();
        insta::assert_snapshot!(steps.join("\n"));
    }

    #[test]
    fn a_sample_has_different_points_and_is_the_same_for_a_seed() {
        let sweep = Sweep { targets: vec![target(&[("update:endpoints:x:team/s1", 1)]); 10] };
        assert_eq!(sweep.points(), 120);
        let sample = sweep.sample(50, 1);
        assert!(sample.is_sorted() && sample.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!((sample.len(), &sample), (50, &sweep.sample(50, 1)));
        assert_ne!(sample, sweep.sample(50, 2));
        assert_eq!(sweep.sample(1000, 1), (0..120).collect::<Vec<_>>());
        assert!(sweep.point(120).is_none());
    }
}
