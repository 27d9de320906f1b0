//! Finds pods that have the values of a selector under other labels of the same meaning.

use std::collections::{BTreeMap, BTreeSet};

use kube_endpoint_core_model::{StringMap, Text};
use serde::Serialize;

use super::{MAX_NAMES, NearIndex, is_typo};

/// Labels that programs use for the same: the name of a program, and that of its installation.
const SAME: [&[&str]; 2] = [
    &["app", "app.kubernetes.io/name", "k8s-app", "name", "run"],
    &["app.kubernetes.io/instance", "release"],
];

/// The names of labels that tell apart the parts of one program.
const PARTS: [&str; 3] = ["component", "role", "tier"];

/// Pods that have all values of a selector, some of them under other labels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OtherKeys {
    /// The labels of the selector that the pods lack.
    pub keys: Vec<OtherKey>,
    pub count: usize,
    /// The names of some of them.
    pub pods: Vec<Text>,
}

/// A label that pods have in place of another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OtherKey {
    /// The label of the selector.
    pub wanted: Text,
    /// The label of the pods.
    pub found: Text,
    pub value: Text,
}

/// Returns well-known labels with the meaning of another one.
pub fn other_keys_of(label: &str) -> impl Iterator<Item = String> {
    let same = SAME.iter().find(|same| same.contains(&label)).copied().unwrap_or_default();
    let prefixed = match label.split_once('/') {
        Some((_, name)) => name.to_owned(),
        None => format!("app.kubernetes.io/{label}"),
    };
    let mut all: BTreeSet<String> = same.iter().map(|other| (*other).to_owned()).collect();
    all.insert(prefixed);
    all.remove(label);
    all.into_iter()
}

/// Returns true if a label may stand for another one: both are well-known for the same, they differ
/// in the prefix only, or one is mistyped.
fn mean_the_same(one: &str, other: &str) -> bool {
    one != other
        && (name(one) == name(other)
            || SAME.iter().any(|same| same.contains(&one) && same.contains(&other))
            || is_typo(one, other))
}

/// Returns a label without its prefix.
fn name(label: &str) -> &str {
    label.rsplit_once('/').map_or(label, |(_, name)| name)
}

/// The pods that have the same labels in place of those of a selector.
#[derive(Default)]
struct Group {
    pods: usize,
    names: Vec<Text>,
    /// The parts of a program among them.
    parts: BTreeSet<Vec<(Text, Text)>>,
}

impl NearIndex {
    /// Returns the largest group of pods that have the values of a selector under other labels. A
    /// pod that has the label of the selector, too, with another value, is another program; and if
    /// the pods are of several parts of a program, nobody can tell which one is meant.
    pub(super) fn other_keys(&mut self, selector: &StringMap) -> Option<OtherKeys> {
        let keys: Vec<Vec<Text>> = selector.iter().map(|(label, _)| self.keys_like(label)).collect();
        let requirements = || selector.iter().zip(&keys);
        let sets = |((label, value), others): ((&Text, &Text), &Vec<Text>)| {
            let all = std::iter::once(label).chain(others);
            let with = all.filter_map(|label| self.by_pair.get(&(label.clone(), value.clone())));
            with.flatten().copied().collect::<Vec<usize>>()
        };
        let fewest = requirements().map(sets).min_by_key(Vec::len)?;
        let mut groups: BTreeMap<Vec<OtherKey>, Group> = BTreeMap::new();
        for set in BTreeSet::from_iter(fewest).into_iter().filter_map(|at| self.sets.get(at)) {
            let mut renamed = Vec::new();
            let has_all = requirements().all(|((label, value), others)| match set.labels.get(label) {
                Some(found) => found == value,
                None => {
                    let found = others.iter().find(|other| set.labels.get(other) == Some(value));
                    renamed.extend(found.map(|found| OtherKey {
                        wanted: label.clone(),
                        found: found.clone(),
                        value: value.clone(),
                    }));
                    found.is_some()
                }
            });
            if !has_all || renamed.is_empty() {
                continue;
            }
            let group = groups.entry(renamed).or_default();
            group.pods += set.pods;
            let missing = MAX_NAMES - group.names.len();
            group.names.extend(set.names.iter().take(missing).cloned());
            let parts = set.labels.iter().filter(|(label, _)| PARTS.contains(&name(label)));
            group.parts.insert(parts.map(|(label, value)| (label.clone(), value.clone())).collect());
        }
        let largest =
            groups.into_iter().max_by_key(|(keys, group)| (group.pods, std::cmp::Reverse(keys.clone())));
        let (keys, group) = largest.filter(|(_, group)| group.parts.len() == 1)?;
        Some(OtherKeys { keys, count: group.pods, pods: group.names })
    }

    /// Returns the labels of pods that may stand for a label, sorted.
    fn keys_like(&mut self, label: &Text) -> Vec<Text> {
        if let Some(known) = self.known_keys.get(label) {
            return known.clone();
        }
        let like = self.by_label.keys().filter(|other| mean_the_same(label, other));
        let like: Vec<Text> = like.cloned().collect();
        self.known_keys.insert(label.clone(), like.clone());
        like
    }
}

#[cfg(test)]
mod tests {
    use super::super::near_matches;
    use super::*;

    fn check(selector: &[(&str, &str)], pods: &[&[(&str, &str)]], want: Option<&str>) {
        let pods: Vec<(Text, StringMap)> = pods
            .iter()
            .enumerate()
            .map(|(at, labels)| (format!("pod-{at}").into(), labels.iter().copied().collect()))
            .collect();
        let selector = selector.iter().copied().collect();
        let found = near_matches(&selector, pods.iter().map(|(name, labels)| (name, labels))).other_keys;
        let text = found.map(|found| {
            let keys = found.keys.iter().map(|key| format!("{}>{}={}", key.wanted, key.found, key.value));
            format!("{} {}", keys.collect::<Vec<_>>().join(" "), found.pods.join(" "))
        });
        assert_eq!(text.as_deref(), want, "{selector:?}");
    }

    #[test]
    fn values_under_labels_of_the_same_meaning_are_found() {
        let name = "app.kubernetes.io/name";
        let web = &[("app", "web")][..];
        check(web, &[&[(name, "web")], &[(name, "api")]], Some("app>app.kubernetes.io/name=web pod-0"));
        check(&[(name, "web")], &[&[("app", "web")]], Some("app.kubernetes.io/name>app=web pod-0"));
        check(
            web,
            &[&[("k8s-app", "web"), ("x", "1")], &[("k8s-app", "web")]],
            Some("app>k8s-app=web pod-0 pod-1"),
        );
        check(web, &[&[("App", "web")]], Some("app>App=web pod-0"));
        check(&[("tier", "a")], &[&[("example.com/tier", "a")]], Some("tier>example.com/tier=a pod-0"));
        check(
            &[("app", "web"), ("release", "r")],
            &[&[(name, "web"), ("app.kubernetes.io/instance", "r")]],
            Some("app>app.kubernetes.io/name=web release>app.kubernetes.io/instance=r pod-0"),
        );
        check(
            &[("app", "web"), ("env", "prod")],
            &[&[(name, "web"), ("env", "prod")], &[(name, "web"), ("env", "test")]],
            Some("app>app.kubernetes.io/name=web pod-0"),
        );
    }

    #[test]
    fn values_under_other_labels_are_not() {
        let name = "app.kubernetes.io/name";
        let web = &[("app", "web")][..];
        for other in
            ["app.kubernetes.io/part-of", "app.kubernetes.io/instance", "component", "owner", "service"]
        {
            check(web, &[&[(other, "web")]], None);
        }
        // Another program that was given the name of this one.
        check(web, &[&[(name, "web"), ("app", "worker")]], None);
        check(web, &[&[(name, "web-worker")]], None);
        // Nobody can tell which part is meant.
        let part = "app.kubernetes.io/component";
        check(web, &[&[(name, "web"), (part, "read")], &[(name, "web"), (part, "write")]], None);
        check(
            &[("app", "web"), (part, "read")],
            &[&[(name, "web"), (part, "read")], &[(name, "web"), (part, "write")]],
            Some("app>app.kubernetes.io/name=web pod-0"),
        );
        check(&[("app", "web"), ("role", "leader")], &[&[(name, "web"), ("role", "follower")]], None);
        check(&[], &[&[(name, "web")]], None);
    }

    /// The plugin asks the server for pods with these labels.
    #[test]
    fn well_known_labels_mean_the_same() {
        let all = |label: &str| other_keys_of(label).collect::<Vec<_>>();
        assert_eq!(all("app"), ["app.kubernetes.io/app", "app.kubernetes.io/name", "k8s-app", "name", "run"]);
        assert_eq!(all("release"), ["app.kubernetes.io/instance", "app.kubernetes.io/release"]);
        assert_eq!(all("app.kubernetes.io/component"), ["component"]);
        for label in ["app", "release", "tier", "app.kubernetes.io/name", "example.com/x"] {
            assert!(all(label).iter().all(|other| mean_the_same(label, other)), "{label}");
        }
    }
}
