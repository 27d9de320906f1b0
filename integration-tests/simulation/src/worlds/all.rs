//! Judges many worlds on all cores.

use std::collections::BTreeMap;
use std::ops::Range;

use parking_lot::Mutex;

use super::{Broken, Judged, World, Worlds};
use crate::parallel::on_all_cores;

/// The worlds that were judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub judged: Judged,
    /// The numbers of the worlds in which a law does not hold, in the order of their places.
    pub broken: Vec<(u64, Broken)>,
    /// The first place that was not judged.
    pub next: u64,
}

/// Judges the worlds at these places, until laws do not hold in `most_broken` of them. Places count
/// in an order in which the first ones of any count are spread evenly. Calls `done` after each,
/// with the number of broken ones so far.
pub fn judge(places: Range<u64>, most_broken: usize, done: impl Fn(usize) + Sync) -> Verdict {
    let all = Mutex::new((Judged::default(), BTreeMap::new()));
    let is_enough = || all.lock().1.len() >= most_broken;
    let next = on_all_cores(places.start..places.end.min(Worlds::COUNT), is_enough, |place| {
        let judged = World::of(Worlds::at(place)).judge();
        let (counts, broken) = &mut *all.lock();
        match judged {
            Ok(one) => counts.add(one),
            Err(law) => _ = broken.insert(place, law),
        }
        done(broken.len());
    });
    let (judged, broken) = all.into_inner();
    let broken = broken.into_iter().map(|(place, law)| (Worlds::at(place), law)).collect();
    Verdict { judged, broken, next }
}

impl Verdict {
    /// Describes the broken worlds for a person, or returns `None` if there are none.
    pub fn report(&self) -> Option<String> {
        let one = |(number, broken): &(u64, Broken)| {
            format!("world {number}: {}: {}\n{}", broken.law, broken.detail, World::of(*number))
        };
        (!self.broken.is_empty()).then(|| self.broken.iter().map(one).collect::<Vec<_>>().join("\n"))
    }
}
