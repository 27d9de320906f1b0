//! Interning of strings that many objects repeat: label keys and values, whole label sets, node
//! names, namespaces.

mod recent;

use std::collections::hash_map::Entry;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use ahash::{HashMap, HashSet};

use crate::pod::{ContainerPort, ContainerPorts};
use crate::{StringMap, Text};
use recent::Recent;

/// A view that can share its repeated parts with other views.
pub trait Intern {
    /// Replaces repeated parts by shared copies.
    fn intern(&mut self, interner: &mut Interner);
}

/// Holds one copy of each repeated part. [`Interner::sweep`] drops the parts that no view uses any
/// more; it runs automatically when the number of parts has doubled.
#[derive(Debug, Default)]
pub struct Interner {
    texts: HashSet<Text>,
    /// A map instead of a set, because [`HashMap::entry`] finds or adds with one hash.
    maps: HashMap<SharedMap, ()>,
    ports: HashSet<Arc<[ContainerPort]>>,
    recent: Recent,
    sweep_at: usize,
}

const FIRST_SWEEP: usize = 1024;

impl Interner {
    /// Shares a string.
    pub fn text(&mut self, text: &mut Text) {
        share(&mut self.texts, text);
        self.sweep_when_grown();
    }

    /// Returns the shared copy of a string. Copies it only if there is none.
    pub fn shared(&mut self, text: &str) -> Text {
        if text.is_empty() {
            return Text::default();
        }
        if let Some(recent) = self.recent.text(text) {
            return Text::clone(recent);
        }
        let shared = match self.texts.get(text) {
            Some(shared) => Text::clone(shared),
            None => {
                let shared = Text::from(text);
                self.texts.insert(Text::clone(&shared));
                self.sweep_when_grown();
                shared
            }
        };
        self.recent.add_text(&shared);
        shared
    }

    /// Shares an optional string.
    pub fn optional(&mut self, text: &mut Option<Text>) {
        if let Some(text) = text {
            self.text(text);
        }
    }

    /// Shares a map as a whole, and its keys and values one by one.
    pub fn map(&mut self, map: &mut StringMap) {
        let pairs = map.0.iter().map(|(key, value)| {
            let (mut key, mut value) = (key.clone(), value.clone());
            self.text(&mut key);
            self.text(&mut value);
            (key, value)
        });
        let pairs: Vec<_> = pairs.collect();
        *map = self.map_of_shared(pairs);
    }

    /// Returns the shared map of these pairs, which are sorted and whose strings are shared.
    fn map_of_shared(&mut self, pairs: Vec<(Text, Text)>) -> StringMap {
        if let Some(recent) = self.recent.map(&pairs) {
            return recent.clone();
        }
        let shared = match self.maps.entry(SharedMap(StringMap(pairs.into()))) {
            Entry::Occupied(entry) => entry.key().0.clone(),
            Entry::Vacant(entry) => {
                let shared = entry.insert_entry(()).key().0.clone();
                self.sweep_when_grown();
                shared
            }
        };
        self.recent.add_map(&shared);
        shared
    }

    /// Returns the shared map of these pairs. If a key occurs twice, the later value wins.
    pub(crate) fn map_of(&mut self, pairs: Vec<(&str, &str)>) -> StringMap {
        if pairs.is_empty() {
            return StringMap::default();
        }
        let is_sorted = pairs.is_sorted_by(|(one, _), (next, _)| one < next);
        let pairs: Vec<(Text, Text)> =
            pairs.into_iter().map(|(key, value)| (self.shared(key), self.shared(value))).collect();
        // The API server sends maps sorted.
        if !is_sorted {
            let mut map: StringMap = pairs.into_iter().collect();
            self.map(&mut map);
            return map;
        }
        self.map_of_shared(pairs)
    }

    /// Shares the ports of a pod.
    pub fn ports(&mut self, ports: &mut ContainerPorts) {
        share(&mut self.ports, &mut ports.0);
        self.sweep_when_grown();
    }

    /// Returns the shared ports of a pod: name, number and protocol of each.
    pub fn ports_of<'a>(
        &mut self,
        ports: impl Iterator<Item = (&'a str, i32, &'a str)> + Clone,
    ) -> ContainerPorts {
        // The pods of a workload have the same ports, and are listed one after the other.
        let recent = &self.recent.ports;
        let is_same = |(port, (name, number, protocol)): (&ContainerPort, (&str, i32, &str))| {
            (&*port.name, port.container_port, &*port.protocol) == (name, number, protocol)
        };
        if ports.clone().count() == recent.len() && recent.iter().zip(ports.clone()).all(is_same) {
            return recent.clone();
        }
        if ports.clone().next().is_none() {
            return ContainerPorts::default();
        }
        let view = |(name, container_port, protocol)| ContainerPort {
            name: self.shared(name),
            container_port,
            protocol: self.shared(protocol),
        };
        let mut ports: ContainerPorts = ports.map(view).collect();
        self.ports(&mut ports);
        self.recent.ports = ports.clone();
        ports
    }

    /// Returns the number of parts.
    pub fn len(&self) -> usize {
        self.texts.len() + self.maps.len() + self.ports.len()
    }

    /// Returns true if there are no parts.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops the parts that no view uses.
    pub fn sweep(&mut self) {
        self.recent.clear();
        self.maps.retain(|map, ()| Arc::strong_count(&map.0.0) > 1);
        self.ports.retain(|ports| Arc::strong_count(ports) > 1);
        self.texts.retain(|text| Text::strong_count(text) > Some(1));
        self.sweep_at = (2 * self.len()).max(FIRST_SWEEP);
    }

    fn sweep_when_grown(&mut self) {
        if self.len() > self.sweep_at.max(FIRST_SWEEP) {
            self.sweep();
        }
    }
}

/// A map of shared strings: the same strings have the same addresses, except empty ones. So this
/// hashes and compares the addresses instead of the longer strings. The interner holds the map, and
/// with it its strings, so no other string gets their addresses.
#[derive(Debug)]
struct SharedMap(StringMap);

impl Hash for SharedMap {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let address = |text: &Text| if text.is_empty() { 0 } else { text.as_ptr() as u128 };
        self.0.iter().for_each(|(key, value)| state.write_u128(address(key) << 64 | address(value)));
    }
}

impl PartialEq for SharedMap {
    fn eq(&self, other: &Self) -> bool {
        have_same_strings(&self.0.0, &other.0.0)
    }
}

impl Eq for SharedMap {}

/// Returns true if two maps have the same strings at the same addresses.
fn have_same_strings(one: &[(Text, Text)], other: &[(Text, Text)]) -> bool {
    let is_same = |one: &Text, other: &Text| Text::ptr_eq(one, other) || one.is_empty() && other.is_empty();
    let are_same =
        |(one, other): (&(Text, Text), &(Text, Text))| is_same(&one.0, &other.0) && is_same(&one.1, &other.1);
    one.len() == other.len() && one.iter().zip(other).all(are_same)
}

fn share<T: Clone + Eq + Hash>(shared: &mut HashSet<T>, part: &mut T) {
    match shared.get(part) {
        Some(one) => one.clone_into(part),
        None => {
            shared.insert(part.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pod;

    #[test]
    fn equal_parts_of_two_pods_become_one() {
        let decode = || -> Pod {
            serde_json::from_str(
                r#"{"metadata":{"name":"p","namespace":"n","labels":{"a":"b"}},"spec":{"nodeName":"x",
                "containers":[{"ports":[{"name":"http","containerPort":80,"protocol":"TCP"}]}]}}"#,
            )
            .unwrap()
        };
        let (mut one, mut two) = (decode(), decode());
        let mut interner = Interner::default();
        one.intern(&mut interner);
        two.intern(&mut interner);
        assert_eq!(one, two);
        assert!(Text::ptr_eq(&one.key.namespace, &two.key.namespace));
        assert!(Arc::ptr_eq(&one.labels.0, &two.labels.0));
        assert!(Arc::ptr_eq(&one.ports.0, &two.ports.0));
        assert!(Text::ptr_eq(one.node_name.as_ref().unwrap(), two.node_name.as_ref().unwrap()));
    }

    #[test]
    fn a_string_and_a_map_are_found_before_they_are_copied() {
        let mut interner = Interner::default();
        let mut text: Text = "node-1".into();
        interner.text(&mut text);
        let mut map: StringMap = [("a", "node-1"), ("b", "")].into_iter().collect();
        interner.map(&mut map);
        // The second time, they are among the recent ones.
        for _ in 0..2 {
            assert!(Text::ptr_eq(&interner.shared("node-1"), &text));
            assert_eq!(&*interner.shared(""), "");
            for pairs in [vec![("a", "node-1"), ("b", "")], vec![("b", ""), ("a", "x"), ("a", "node-1")]] {
                assert!(Arc::ptr_eq(&interner.map_of(pairs).0, &map.0));
            }
            assert!(interner.map_of(Vec::new()).is_empty());
            assert_ne!(interner.map_of(vec![("a", "node-1")]), map);
        }
    }

    #[test]
    fn recent_parts_do_not_pile_up() {
        let mut interner = Interner::default();
        for number in 0..10 * FIRST_SWEEP {
            let (text, other) = (format!("{number}"), format!("{number}-of-a-longer-name"));
            assert_eq!(*interner.shared(&text), text);
            assert_eq!(interner.map_of(vec![(&other, &text)]), [(&*other, &*text)].into_iter().collect());
            assert!(interner.len() <= 2 * FIRST_SWEEP, "{}", interner.len());
        }
        interner.sweep();
        assert_eq!(interner.len(), 0);
    }

    #[test]
    fn unreferenced_entries_are_dropped() {
        let mut interner = Interner::default();
        for number in 0..10 * FIRST_SWEEP {
            interner.map(&mut [("key", format!("value-{number}"))].into_iter().collect());
        }
        assert!(interner.len() < 5 * FIRST_SWEEP, "{}", interner.len());
        interner.sweep();
        assert_eq!(interner.len(), 0);
    }

    #[test]
    fn texts_and_ports_that_nobody_holds_are_swept_without_maps() {
        let mut interner = Interner::default();
        for number in 0..10 * FIRST_SWEEP {
            interner.text(&mut format!("node-{number}").into());
            assert!(interner.len() <= FIRST_SWEEP + 1, "{}", interner.len());
        }
        let mut interner = Interner::default();
        for number in 0..10 * FIRST_SWEEP {
            let (name, protocol) = (format!("port-{number}").into(), "TCP".into());
            let port = ContainerPort { name, container_port: 80, protocol };
            interner.ports(&mut ContainerPorts(vec![port].into()));
            assert!(interner.len() <= FIRST_SWEEP + 1, "{}", interner.len());
        }
    }
}
