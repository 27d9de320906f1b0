//! The nodes that topology mode `Auto` counts, and what the others lack.

use std::collections::BTreeSet;

use kube_endpoint_core_model::{Node, Text};
use serde::Serialize;

/// The maximum number of names that a list keeps.
const NAMES: usize = 5;

/// Some nodes: their number, and the names of the first ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SomeNodes {
    pub count: usize,
    /// The names of at most five of them.
    pub names: Vec<Text>,
}

impl SomeNodes {
    fn add(&mut self, name: &Text) {
        self.count += 1;
        if self.names.len() < NAMES {
            self.names.push(name.clone());
        }
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl<'a> FromIterator<&'a Text> for SomeNodes {
    fn from_iter<I: IntoIterator<Item = &'a Text>>(names: I) -> Self {
        let mut some = Self::default();
        names.into_iter().for_each(|name| some.add(name));
        some
    }
}

/// All nodes by what they do for topology mode `Auto`. Those of the control plane and those that
/// are not ready do not count; each of the others needs a zone and allocatable CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopologyNodes {
    /// The zones of the nodes that count and lack nothing.
    pub(crate) zones: BTreeSet<Text>,
    pub(crate) without_zone: SomeNodes,
    pub(crate) without_cpu: SomeNodes,
    /// The nodes of the control plane in other zones than the first of `zones`.
    pub(crate) control_plane: SomeNodes,
    /// The nodes in other zones that would count if they were ready.
    pub(crate) not_ready: SomeNodes,
}

impl TopologyNodes {
    /// Sorts nodes, which come in the order of their names.
    pub(crate) fn of<'a>(nodes: impl Iterator<Item = &'a Node> + Clone) -> Self {
        let mut all = Self::default();
        for node in nodes.clone().filter(|node| node.ready && !node.control_plane) {
            match &node.zone {
                None => all.without_zone.add(&node.name),
                Some(_) if node.allocatable_cpu_nano == 0 => all.without_cpu.add(&node.name),
                Some(zone) if all.zones.contains(zone) => {}
                Some(zone) => {
                    all.zones.insert(zone.clone());
                }
            }
        }
        let counts_elsewhere =
            |node: &&Node| node.zone.as_ref().is_some_and(|zone| !all.zones.contains(zone));
        let (mut control_plane, mut not_ready) = (SomeNodes::default(), SomeNodes::default());
        for node in nodes.filter(|node| !node.ready || node.control_plane).filter(counts_elsewhere) {
            if node.control_plane { &mut control_plane } else { &mut not_ready }.add(&node.name);
        }
        Self { control_plane, not_ready, ..all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, zone: &str, change: impl FnOnce(&mut Node)) -> Node {
        let mut node = Node {
            name: name.into(),
            zone: (!zone.is_empty()).then(|| zone.into()),
            ready: true,
            allocatable_cpu_nano: 1,
            ..Node::default()
        };
        change(&mut node);
        node
    }

    #[test]
    fn nodes_are_sorted_by_what_they_lack() {
        let nodes = [
            node("a", "x", |_| {}),
            node("b", "", |_| {}),
            node("c", "x", |node| node.allocatable_cpu_nano = 0),
            node("d", "y", |node| node.control_plane = true),
            node("e", "x", |node| node.control_plane = true),
            node("f", "y", |node| node.ready = false),
            node("g", "x", |node| node.ready = false),
            // The controllers do not look at these.
            node("h", "", |node| node.ready = false),
            node("i", "", |node| node.control_plane = true),
        ];
        let all = TopologyNodes::of(nodes.iter());
        let some = |names: &[&str]| SomeNodes {
            count: names.len(),
            names: names.iter().map(|name| (*name).into()).collect(),
        };
        let want = TopologyNodes {
            zones: ["x".into()].into(),
            without_zone: some(&["b"]),
            without_cpu: some(&["c"]),
            control_plane: some(&["d"]),
            not_ready: some(&["f"]),
        };
        assert_eq!(all, want);
    }

    #[test]
    fn a_list_keeps_five_names_and_counts_all() {
        let nodes: Vec<Node> = (0..9).map(|at| node(&format!("n{at}"), "", |_| {})).collect();
        let without = TopologyNodes::of(nodes.iter()).without_zone;
        assert_eq!((without.count, without.names.len()), (9, 5));
    }
}
