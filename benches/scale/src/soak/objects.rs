//! The objects of the cluster as this program changes them, and the choice of the next change.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::replace;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use crate::workload::{Names, Workload};

/// How many Services come and go, of each kind, on average.
const COMING_AND_GOING: usize = 10;

/// A change to make. Numbers are those of pods, Services and namespaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    Flip(usize),
    Replace(usize),
    Selector(usize),
    AddService(usize),
    RemoveService(String, usize),
    AddManual(usize),
    EditManual(String, usize),
    RemoveManual(String, usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) ready: bool,
    /// True while a change of it is under way.
    pub(crate) busy: bool,
}

/// The selector of a Service.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Selector {
    /// True if it selects only the pods of a team.
    pub(crate) narrow: bool,
    /// True while a change of it is under way.
    pub(crate) busy: bool,
}

/// The objects as they are now.
pub(crate) struct Objects {
    pub(crate) pods: Vec<Pod>,
    pub(crate) selectors: Vec<Selector>,
    /// The names of Services that come and go, and the Service whose pods they select.
    pub(crate) extra: Vec<(String, usize)>,
    /// The names of Services without selector, and their namespaces.
    pub(crate) manual: Vec<(String, usize)>,
    /// The numbers of changes, by kind.
    pub(crate) counts: BTreeMap<String, usize>,
    namespaces: usize,
    last_number: usize,
}

impl Objects {
    pub(crate) fn new(workload: &Workload, names: &Names) -> Self {
        let pod = |number| Pod { name: names.pod(number, false), ready: true, busy: false };
        Self {
            pods: (0..workload.pods).map(pod).collect(),
            selectors: vec![Selector::default(); workload.services],
            extra: Vec::new(),
            manual: Vec::new(),
            counts: BTreeMap::new(),
            namespaces: workload.namespaces,
            last_number: 0,
        }
    }

    /// Returns a number that no other change has, for new names and addresses.
    pub(crate) fn next_number(&mut self) -> usize {
        self.last_number += 1;
        self.last_number
    }

    /// Returns the number of a pod that its Service selects.
    pub(crate) fn selected_pod(&self) -> Option<usize> {
        // The first pods belong to the Services in turn.
        self.selectors.iter().take(self.pods.len()).position(|selector| !selector.narrow)
    }

    /// Returns the names of the Services that select the pods of a Service.
    pub(crate) fn services_like(&self, service: usize, names: &Names) -> BTreeSet<String> {
        let extra = self.extra.iter().filter(|(_, like)| *like == service).map(|(name, _)| name.clone());
        extra.chain([names.service(service)]).collect()
    }

    /// Chooses a change, and notes that it is under way. Returns `None` if the chosen object
    /// changes already; `waits` tells whether no slice shows a pod as it is.
    pub(crate) fn choose(&mut self, random: &mut ChaCha8Rng, waits: impl Fn(&str) -> bool) -> Option<Change> {
        let mut below = |count: usize| (random.next_u64() % count.max(1) as u64) as usize;
        Some(match below(100) {
            kind @ 0..80 => {
                let number = below(self.pods.len());
                let pod = &mut self.pods[number];
                if waits(&pod.name) || replace(&mut pod.busy, true) {
                    return None;
                }
                if kind < 60 { Change::Flip(number) } else { Change::Replace(number) }
            }
            80..86 => {
                let service = below(self.selectors.len());
                let selector = &mut self.selectors[service];
                if replace(&mut selector.busy, true) {
                    return None;
                }
                selector.narrow = !selector.narrow;
                Change::Selector(service)
            }
            86..93 if below(2 * COMING_AND_GOING) >= self.extra.len() => {
                Change::AddService(below(self.selectors.len()))
            }
            86..93 => {
                let (name, service) = self.extra.swap_remove(below(self.extra.len()));
                Change::RemoveService(name, service)
            }
            _ if below(2 * COMING_AND_GOING) >= self.manual.len() => {
                Change::AddManual(below(self.namespaces))
            }
            _ => {
                let at = below(self.manual.len());
                if below(3) > 0 {
                    let (name, namespace) = self.manual[at].clone();
                    Change::EditManual(name, namespace)
                } else {
                    let (name, namespace) = self.manual.swap_remove(at);
                    Change::RemoveManual(name, namespace)
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tests::workload;
    use rand_chacha::rand_core::SeedableRng;

    fn objects() -> Objects {
        Objects::new(&workload(), &Names { prefix: "soak".into() })
    }

    /// Chooses changes that each end at once.
    fn chosen(seed: u64, count: usize) -> Vec<Change> {
        let (mut objects, mut random) = (objects(), ChaCha8Rng::seed_from_u64(seed));
        (0..count)
            .map(|_| {
                let change = objects.choose(&mut random, |_| false).unwrap();
                let name = format!("soak-{}", objects.next_number());
                match &change {
                    Change::Flip(pod) | Change::Replace(pod) => objects.pods[*pod].busy = false,
                    Change::Selector(service) => objects.selectors[*service].busy = false,
                    Change::AddService(service) => objects.extra.push((name, *service)),
                    Change::AddManual(namespace) => objects.manual.push((name, *namespace)),
                    Change::RemoveService(..) | Change::EditManual(..) | Change::RemoveManual(..) => {}
                }
                assert!(objects.extra.len() <= 20 && objects.manual.len() <= 20);
                change
            })
            .collect()
    }

    #[test]
    fn the_seed_chooses_changes_of_all_kinds() {
        let changes = chosen(7, 1_000);
        let kinds: std::collections::HashSet<_> = changes.iter().map(std::mem::discriminant).collect();
        assert_eq!(kinds.len(), 8);
        let flips = changes.iter().filter(|change| matches!(change, Change::Flip(_))).count();
        assert!((500..700).contains(&flips), "{flips}");
        assert_eq!(chosen(7, 100), chosen(7, 100));
        assert_ne!(chosen(7, 100), chosen(8, 100));
    }

    #[test]
    fn an_object_has_one_change_at_a_time() {
        let (mut objects, mut random) = (objects(), ChaCha8Rng::seed_from_u64(7));
        let mut changes: Vec<Change> = (0..2_000)
            .filter_map(|_| objects.choose(&mut random, |pod| pod == "soak-p0"))
            .filter(|change| matches!(change, Change::Flip(_) | Change::Replace(_) | Change::Selector(_)))
            .map(|change| match change {
                Change::Replace(pod) => Change::Flip(pod),
                other => other,
            })
            .collect();
        changes.sort();
        let flips = (1..workload().pods).map(Change::Flip);
        let want: Vec<Change> = flips.chain((0..workload().services).map(Change::Selector)).collect();
        assert_eq!(changes, want, "soak-p0 waits");
        assert_eq!(objects.selected_pod(), None, "all selectors have become narrow");
    }
}
