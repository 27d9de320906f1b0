//! An index of one namespace by label pair (key and value): from selectors to label sets, and from
//! label sets to selectors.

use std::collections::BTreeSet;

use ahash::HashMap;
use kube_endpoint_core_model::{StringMap, Text};

use crate::store::selection::{Pair, Selection};

/// Identifies a label set: the labels that some pods of a namespace share.
pub(crate) type SetId = u64;

/// Finds the label sets that a selector may match, and the Services that may select a label set.
/// The caller compares the candidates with the whole selector.
#[derive(Debug, Default)]
pub(crate) struct SelectorIndex {
    /// The label sets that contain a pair.
    sets: HashMap<Pair, OneOrMore<SetId>>,
    /// All label sets, for selectors that compare no label with values.
    all_sets: BTreeSet<SetId>,
    /// The Services whose selector the index holds under a pair. It holds each selector under the
    /// pairs of one of its alternatives only.
    selectors: HashMap<Pair, OneOrMore<Text>>,
    /// The Services whose selector compares no label with values: one that is empty and so selects
    /// everything, or one with other operators only.
    without_pair: BTreeSet<Text>,
}

/// A set that is never empty, and that needs no allocation for one item. Each pair that
/// distinguishes the pods of a StatefulSet is in one label set, and most selectors have a pair of
/// their own.
#[derive(Debug)]
enum OneOrMore<T> {
    One(T),
    More(BTreeSet<T>),
}

impl<T: Ord> OneOrMore<T> {
    fn insert(&mut self, item: T) {
        if let Self::One(_) = self
            && let Self::One(one) = std::mem::replace(self, Self::More(BTreeSet::new()))
        {
            self.insert(one);
        }
        if let Self::More(items) = self {
            items.insert(item);
        }
    }

    /// Removes an item. Returns true if none is left; `One` keeps its item, so the caller must drop
    /// it.
    fn remove(&mut self, item: &T) -> bool {
        match self {
            Self::One(one) => one == item,
            Self::More(items) => {
                items.remove(item);
                items.is_empty()
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::More(items) => items.len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        let (one, more) = match self {
            Self::One(one) => (Some(one), None),
            Self::More(items) => (None, Some(items)),
        };
        one.into_iter().chain(more.into_iter().flatten())
    }
}

fn pair((key, value): (&Text, &Text)) -> Pair {
    (key.clone(), value.clone())
}

/// Returns the alternative whose pairs have the fewest items in an index.
fn fewest<T: Ord>(alternatives: Vec<Vec<Pair>>, index: &HashMap<Pair, OneOrMore<T>>) -> Option<Vec<Pair>> {
    let items = |pair: &Pair| index.get(pair).map_or(0, OneOrMore::len);
    alternatives.into_iter().min_by_key(|pairs| pairs.iter().map(items).sum::<usize>())
}

impl SelectorIndex {
    pub(crate) fn add_set(&mut self, id: SetId, labels: &StringMap) {
        self.all_sets.insert(id);
        for label in labels.iter() {
            self.sets.entry(pair(label)).and_modify(|ids| ids.insert(id)).or_insert(OneOrMore::One(id));
        }
    }

    pub(crate) fn remove_set(&mut self, id: SetId, labels: &StringMap) {
        self.all_sets.remove(&id);
        for label in labels.iter() {
            let pair = pair(label);
            if self.sets.get_mut(&pair).is_some_and(|ids| ids.remove(&id)) {
                self.sets.remove(&pair);
            }
        }
    }

    /// Returns the label sets that a selector may match: those that contain a pair of its rarest
    /// alternative. A set contains one pair of an alternative at most, so none occurs twice.
    pub(crate) fn candidate_sets<'a>(&'a self, selector: &Selection) -> Box<dyn Iterator<Item = SetId> + 'a> {
        let rarest = fewest(selector.alternatives(), &self.sets);
        match rarest {
            None => Box::new(self.all_sets.iter().copied()),
            Some(pairs) => {
                let sets = pairs.into_iter().filter_map(|pair| self.sets.get(&pair));
                Box::new(sets.flat_map(OneOrMore::iter).copied())
            }
        }
    }

    /// Adds the selector of a Service, under the pairs of the alternative that so far has the
    /// fewest selectors. Where many selectors share one pair and differ in another, the index then
    /// finds each by the pair in which it differs. Returns the pairs, to pass to
    /// [`remove_selector`](Self::remove_selector).
    pub(crate) fn add_selector(&mut self, service: &Text, selector: &Selection) -> Box<[Pair]> {
        let Some(under) = fewest(selector.alternatives(), &self.selectors) else {
            self.without_pair.insert(service.clone());
            return Box::default();
        };
        for pair in &under {
            self.selectors
                .entry(pair.clone())
                .and_modify(|services| services.insert(service.clone()))
                .or_insert_with(|| OneOrMore::One(service.clone()));
        }
        under.into()
    }

    /// Removes the selector of a Service, which the index holds under these pairs.
    pub(crate) fn remove_selector(&mut self, service: &Text, under: &[Pair]) {
        if under.is_empty() {
            self.without_pair.remove(service);
        }
        for pair in under {
            if self.selectors.get_mut(pair).is_some_and(|services| services.remove(service)) {
                self.selectors.remove(pair);
            }
        }
    }

    /// Returns the Services that may select a label set, each once: those whose selector the index
    /// holds under one of the set's pairs, and those that it holds under no pair.
    pub(crate) fn candidate_services<'a>(&'a self, labels: &'a StringMap) -> impl Iterator<Item = &'a Text> {
        labels
            .iter()
            .filter_map(|label| self.selectors.get(&pair(label)))
            .flat_map(OneOrMore::iter)
            .chain(&self.without_pair)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.sets.is_empty()
            && self.all_sets.is_empty()
            && self.selectors.is_empty()
            && self.without_pair.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> StringMap {
        pairs.iter().copied().collect()
    }

    #[test]
    fn selectors_that_share_a_pair_are_indexed_under_another() {
        let mut index = SelectorIndex::default();
        let selectors: Vec<StringMap> = (0..100)
            .map(|id| {
                [("app".to_owned(), "web".to_owned()), ("id".to_owned(), id.to_string())]
                    .into_iter()
                    .collect()
            })
            .collect();
        let pairs: Vec<_> = selectors
            .iter()
            .enumerate()
            .map(|(number, selector)| {
                index.add_selector(&format!("s{number}").into(), &Selection::Labels(selector.clone()))
            })
            .collect();
        let labels = map(&[("app", "web"), ("id", "7")]);
        let candidates: Vec<_> = index.candidate_services(&labels).collect();
        assert!(candidates.iter().any(|name| ***name == *"s7"));
        assert!(candidates.len() <= 2, "{candidates:?}");
        for (number, under) in pairs.iter().enumerate() {
            index.remove_selector(&format!("s{number}").into(), under);
        }
        assert!(index.is_empty());
    }

    #[test]
    fn label_sets_are_looked_up_by_the_rarest_pair() {
        let mut index = SelectorIndex::default();
        let sets: Vec<StringMap> = (0..50u64)
            .map(|id| {
                [("app".to_owned(), "db".to_owned()), ("pod".to_owned(), id.to_string())]
                    .into_iter()
                    .collect()
            })
            .collect();
        for (id, labels) in sets.iter().enumerate() {
            index.add_set(id as u64, labels);
        }
        let check = |selector: &[(&str, &str)], want: usize| {
            assert_eq!(index.candidate_sets(&Selection::Labels(map(selector))).count(), want, "{selector:?}");
        };
        check(&[], 50);
        check(&[("app", "db")], 50);
        check(&[("app", "db"), ("pod", "3")], 1);
        check(&[("app", "db"), ("pod", "x")], 0);
        for (id, labels) in sets.iter().enumerate() {
            index.remove_set(id as u64, labels);
        }
        assert!(index.is_empty());
    }
}
