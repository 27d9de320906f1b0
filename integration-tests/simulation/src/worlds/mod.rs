//! Small worlds in full: every Service with up to three pods, each in a state, on a node that
//! exists or not, and in one of two slices, both or none, with conditions that are right or stale,
//! after somebody has edited a slice. One plan has to put each of them right.
//!
//! Histories draw faults at random. This leaves nothing out, up to its size: [`Worlds::COUNT`]
//! numbers its worlds, [`World::of`] makes the world of a number, and [`World::judge`] says which
//! law does not hold in it.

mod all;
mod objects;
mod walk;

use std::fmt;

pub use all::{Verdict, judge};
pub use walk::{Broken, Judged};

use crate::text::word_enum;

/// The most pods of a world.
const MOST_PODS: usize = 3;

word_enum! {
    /// The state of a pod.
    pub enum PodState {
        "absent" Absent
        "ready" Ready
        "unready" Unready
        /// It is being deleted, and still ready.
        "terminating" Terminating
        "failed" Failed
    }
}

word_enum! {
    /// The slices that have an endpoint of a pod.
    pub enum Place {
        "none" None
        "first" First
        "second" Second
        "both" Both
    }
}

word_enum! {
    /// The families of the Service.
    pub enum Families {
        "ipv4" V4
        "ipv6" V6
        "dual" Both
    }
}

word_enum! {
    /// An edit of the first slice of each family.
    pub enum Edit {
        "none" None
        /// Its label `headless` makes kube-proxy ignore it.
        "label" Label
        /// It has no owner.
        "owner" Owner
        /// Its first endpoint is gone.
        "endpoint-removed" EndpointRemoved
        /// It has an address that is no pod's.
        "address-added" AddressAdded
        /// Its first endpoint has a hint.
        "hint" Hint
    }
}

word_enum! {
    /// The maximum number of endpoints of a slice.
    pub enum Limit {
        /// So that three pods need two slices.
        "two" Two
        "hundred" Hundred
    }
}

/// A pod, and its endpoints in the slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodInWorld {
    pub state: PodState,
    /// True if its node exists.
    pub node_exists: bool,
    pub place: Place,
    /// True if the conditions of its endpoints are those of another state.
    pub is_stale: bool,
}

/// A Service, its pods, and its slices before a sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    pub families: Families,
    pub limit: Limit,
    pub edit: Edit,
    /// The pods, by name.
    pub pods: Vec<PodInWorld>,
}

impl PodInWorld {
    /// The number of different pods: an absent one is on no node, and one in no slice has no
    /// conditions there.
    const COUNT: u64 = 9 * 7;

    fn of(number: u64) -> Self {
        let (pod, place) = (number % 9, number / 9 % 7);
        // 0 is the absent pod.
        let state = PodState::ALL[pod.div_ceil(2) as usize];
        let (place, is_stale) = (Place::ALL[place.div_ceil(2) as usize], place > 0 && place % 2 == 0);
        Self { state, node_exists: pod % 2 == 1, place, is_stale }
    }
}

/// All worlds, by number.
#[derive(Clone, Copy, Debug)]
pub struct Worlds;

impl Worlds {
    /// The number of worlds.
    pub const COUNT: u64 = {
        let settings = Families::ALL.len() * Limit::ALL.len() * Edit::ALL.len();
        let (mut pods, mut number, mut of_this_size) = (0, 0, 1);
        while number <= MOST_PODS {
            pods += of_this_size;
            of_this_size *= PodInWorld::COUNT;
            number += 1;
        }
        settings as u64 * pods
    };

    /// Returns the number of the world at a place in an order in which the first ones of any count
    /// are spread evenly.
    fn at(place: u64) -> u64 {
        // A prime that does not divide the number of worlds visits each before it repeats one.
        const STEP: u64 = 7_368_787;
        place * STEP % Self::COUNT
    }
}

impl World {
    /// Returns the world of a number below [`Worlds::COUNT`].
    pub fn of(number: u64) -> Self {
        fn one<T: Copy>(all: &[T], number: &mut u64) -> T {
            let size = all.len() as u64;
            let chosen = all[(*number % size) as usize];
            *number /= size;
            chosen
        }
        let mut left = number;
        let families = one(Families::ALL, &mut left);
        let limit = one(Limit::ALL, &mut left);
        let edit = one(Edit::ALL, &mut left);
        let (mut size, mut of_this_size) = (0, 1);
        while left >= of_this_size {
            left -= of_this_size;
            of_this_size *= PodInWorld::COUNT;
            size += 1;
        }
        let pods = (0..size).map(|_| {
            let pod = PodInWorld::of(left % PodInWorld::COUNT);
            left /= PodInWorld::COUNT;
            pod
        });
        Self { families, limit, edit, pods: pods.collect() }
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { families, limit, edit, pods } = self;
        write!(f, "families={} limit={} edit={}", families.word(), limit.word(), edit.word())?;
        for (number, PodInWorld { state, node_exists, place, is_stale }) in pods.iter().enumerate() {
            let node = if *node_exists { "known" } else { "missing" };
            let conditions = if *is_stale { "stale" } else { "right" };
            write!(
                f,
                "\n  p{number}: {}, node {node}, in slices {}, conditions {conditions}",
                state.word(),
                place.word()
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_number_is_another_world() {
        assert_eq!(Worlds::COUNT, 36 * (1 + 63 + 63 * 63 + 63 * 63 * 63));
        let pods: BTreeSet<String> =
            (0..PodInWorld::COUNT).map(|it| format!("{:?}", PodInWorld::of(it))).collect();
        assert_eq!(pods.len() as u64, PodInWorld::COUNT);
        let small = 36 * (1 + 63);
        let worlds: BTreeSet<String> = (0..small).map(|number| World::of(number).to_string()).collect();
        assert_eq!(worlds.len() as u64, small);
        assert_eq!(World::of(small - 1).pods.len(), 1);
        assert_eq!(World::of(small).pods.len(), 2);
        assert_eq!(World::of(Worlds::COUNT - 1).pods.len(), 3);
        let sample: BTreeSet<u64> = (0..10_000).map(Worlds::at).collect();
        assert_eq!(sample.len(), 10_000);
    }
}
