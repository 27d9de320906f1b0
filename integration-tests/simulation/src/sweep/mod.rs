//! The fault sweep: it plays a history once for each fault at each of its requests.
//!
//! A [`Point`] is a request, a fault, and its time before or after the server handles the request.
//! The first play of a history finds its requests: those of one controller with one verb for one
//! Service or Lease, the first three of each. [`Sweep`] numbers the points of all histories.
//!
//! Histories of seeds draw faults at random, and may miss the one request that matters.

mod run;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use crate::history::{Action, History, Place, Process, Setup, Step, Strike};
use crate::play::simulate;
use crate::random::Random;
use crate::watcher::Violation;
pub use run::{Failure, Swept, play};

/// The seeds whose histories are swept: the first ones of ten profiles.
pub const SEEDS: u64 = 10;

/// The named histories that are not swept: they show limits, at which a rule holds only if nothing
/// else goes wrong (docs/reliability.md, "The same, without a Lease, a write or a question"). In
/// one, chance decides from which of two storages a process reads; in the other, only a renewal of
/// the Lease shows that the storage went back.
const NOT_SWEPT: &[&str] = &["pod-deletion-that-an-old-watch-skips", "servers-with-two-storages"];

/// A history and its requests.
#[derive(Clone, Debug)]
pub struct Target {
    pub name: String,
    history: History,
    /// Each place with the number of its request.
    requests: Vec<(Place, u8)>,
}

/// A fault at a request of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    pub place: Place,
    /// The number of the request to the place, from 1.
    pub nth: u8,
    pub strike: Strike,
    /// True if the server handles the request first.
    pub handled: bool,
}

/// Returns the faults at a request, and true for those that come after the server has handled it.
/// A read changes nothing, so that makes no difference, and no server answers it with 409. A server
/// that answers 409 or 429 has changed nothing; one that answers 500 may have.
fn strikes(place: &Place) -> impl Iterator<Item = (Strike, bool)> {
    let is_write = place.is_write();
    let all = Strike::ALL.iter().flat_map(|strike| [(*strike, false), (*strike, true)]);
    all.filter(move |(strike, handled)| match strike {
        Strike::Conflict => is_write && !handled,
        Strike::TooManyRequests => !handled,
        _ => is_write || !handled,
    })
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
        let requests = outcome.places.into_iter();
        let requests = requests.flat_map(|(place, seen)| (1..=seen).map(move |nth| (place.clone(), nth)));
        Ok(Self { name, history, requests: requests.collect() })
    }

    /// Returns the number of points.
    pub fn points(&self) -> usize {
        self.requests.iter().map(|(place, _)| strikes(place).count()).sum()
    }

    /// Returns the point with this number.
    pub fn point(&self, mut number: usize) -> Option<Point> {
        for (place, nth) in &self.requests {
            let count = strikes(place).count();
            if number < count {
                let (strike, handled) = strikes(place).nth(number)?;
                return Some(Point { place: place.clone(), nth: *nth, strike, handled });
            }
            number -= count;
        }
        None
    }

    /// Returns the history with the fault of a point.
    pub fn with(&self, point: &Point) -> History {
        let Point { place, nth, strike, handled } = point.clone();
        let strike = Action::Process(Process::AtRequest { place, nth, handled, strike });
        let mut history = self.history.clone();
        history.steps.insert(0, Step { at: Duration::ZERO, action: strike });
        history
    }
}

/// Histories with their points, which are numbered from 0 over all of them.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    pub targets: Vec<Target>,
}

impl Sweep {
    /// Plays the named histories, and those of the first [`SEEDS`] seeds as `seed-N`, and finds
    /// their requests. It takes those whose name contains `filter`, and of these each `step`-th.
    /// Calls `done` after each.
    ///
    /// # Errors
    ///
    /// The error of reading or parsing a file, or the first rule that does not hold in a history
    /// without a fault more.
    pub fn of(filter: &str, step: usize, done: impl Fn(&str) + Sync) -> anyhow::Result<Self> {
        let mut all = named()?;
        all.extend((0..SEEDS).map(|seed| (format!("seed-{seed}"), History::of(seed))));
        all.retain(|(name, _)| name.contains(filter));
        let all: Vec<_> = all.into_iter().step_by(step).collect();
        let targets = run::in_parallel(all.len(), |number| {
            let (name, history) = &all[number];
            let target = Target::new(name.clone(), history);
            done(name);
            target.map_err(|violation| anyhow::anyhow!("{name}: {violation}"))
        });
        Ok(Self { targets: targets.into_iter().collect::<anyhow::Result<_>>()? })
    }

    /// Returns the number of points.
    pub fn points(&self) -> usize {
        self.targets.iter().map(Target::points).sum()
    }

    /// Returns the point with this number, and its history.
    pub fn point(&self, mut number: usize) -> Option<(&Target, Point)> {
        for target in &self.targets {
            let points = target.points();
            if number < points {
                return Some((target, target.point(number)?));
            }
            number -= points;
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

/// Returns the named histories, by name.
fn named() -> anyhow::Result<Vec<(String, History)>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
    let mut all = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let history = text.parse().with_context(|| format!("parsing {}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !NOT_SWEPT.contains(&name.as_str()) {
            all.push((name, history));
        }
    }
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Field;

    fn target(requests: &[(&str, u8)]) -> Target {
        let requests = requests.iter().map(|(place, nth)| (Place::read(place).unwrap(), *nth)).collect();
        Target { name: "t".to_owned(), history: History::of(0), requests }
    }

    #[test]
    fn a_write_has_each_fault_before_and_after_and_a_read_has_it_once() {
        let target = target(&[("update:endpoints:x:team/s1", 1), ("list:pods:x:/", 2)]);
        let points: Vec<Point> = (0..).map_while(|number| target.point(number)).collect();
        assert_eq!(points.len(), target.points());
        assert_eq!(points.len(), 12 + 6);
        let steps: Vec<String> = points.iter().map(|it| target.with(it).steps[0].to_string()).collect();
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
