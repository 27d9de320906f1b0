//! Writers doubt a store, and a list shows whether they were right.

use std::collections::{BTreeSet, VecDeque};

use kube_endpoint_core_model::{ObjectKey, Text};

/// How many namespaces are remembered.
const NAMESPACES: usize = 16;

/// How a complete list contradicts the store that it replaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contradiction {
    /// An object has a version up to which the store has read, and the store shows another one or
    /// none.
    pub(crate) changed: bool,
    /// The namespaces with an object of the store that is not in the list.
    pub(crate) deleted: BTreeSet<Text>,
}

impl Contradiction {
    /// `deleted` are the objects of the store that are not in the list.
    pub(crate) fn new<'a>(changed: bool, deleted: impl Iterator<Item = &'a ObjectKey>) -> Self {
        let mut namespaces = BTreeSet::new();
        for key in deleted {
            if !namespaces.contains(&key.namespace) {
                namespaces.insert(key.namespace.clone());
            }
        }
        Self { changed, deleted: namespaces }
    }
}

/// Where writers have found since the last list that the store differs from the server.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    /// The namespaces, the newest last.
    namespaces: VecDeque<Text>,
    /// True if the next list is made because of the doubts.
    listed: bool,
}

impl Doubts {
    /// Records that a writer doubts what the store shows of a namespace.
    pub(crate) fn add(&mut self, namespace: &str) {
        self.namespaces.retain(|known| **known != *namespace);
        if self.namespaces.len() == NAMESPACES {
            self.namespaces.pop_front();
        }
        self.namespaces.push_back(namespace.into());
    }

    /// Records that the next list is made because of the doubts.
    pub(crate) fn lead_to_list(&mut self) {
        self.listed = true;
    }

    /// Returns true if a list shows that the server's storage was set back. An object that is
    /// missing in the list is a sign only in a doubted namespace: in a busy cluster something is
    /// always deleted between the last event and the list.
    pub(crate) fn are_confirmed_by(&self, list: &Contradiction) -> bool {
        let is_missing = |namespace: &Text| list.deleted.contains(namespace);
        list.changed || self.listed && self.namespaces.iter().any(is_missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(doubted: &[&str], listed: bool, (changed, deleted): (bool, &[&str]), want: bool) {
        let mut doubts = Doubts::default();
        doubted.iter().for_each(|namespace| doubts.add(namespace));
        if listed {
            doubts.lead_to_list();
        }
        let deleted: Vec<ObjectKey> =
            deleted.iter().map(|namespace| ObjectKey::new(*namespace, "web")).collect();
        assert_eq!(doubts.are_confirmed_by(&Contradiction::new(changed, deleted.iter())), want);
    }

    #[test]
    fn a_deletion_counts_in_a_doubted_namespace_only() {
        check(&["shop"], true, (false, &["shop"]), true);
        check(&["shop", "mail"], true, (false, &["db", "mail"]), true);
        check(&["shop"], true, (false, &["mail"]), false);
        check(&["shop"], true, (false, &[]), false);
        check(&[], true, (false, &["shop"]), false);
        check(&["shop"], false, (false, &["shop"]), false);
        check(&[], false, (true, &[]), true);
    }

    #[test]
    fn the_last_namespaces_are_remembered() {
        let mut doubts = Doubts::default();
        for number in 0..100 {
            doubts.add(&format!("n{number}"));
            doubts.add("shop");
        }
        assert_eq!(doubts.namespaces.len(), NAMESPACES);
        assert_eq!(doubts.namespaces.back().map(|namespace| &**namespace), Some("shop"));
        assert_eq!(doubts.namespaces.front().map(|namespace| &**namespace), Some("n85"));
    }
}
