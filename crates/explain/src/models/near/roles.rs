//! Roles of pods: labels that a program sets on its own pods, such as that of its leader.

use kube_endpoint_core_model::{ObjectKey, StringMap, Text};

use super::no_pods::{NoPods, ROLLOUTS_HASH};
use super::{NearMatch, NearMatches};
use crate::facts::objects::Objects;

/// The words for the pod that takes writes.
const LEADERS: [&str; 9] =
    ["leader", "master", "primary", "main", "active", "writer", "read-write", "rw", "source"];

/// The words for pods that follow it.
const FOLLOWERS: [&str; 9] =
    ["replica", "slave", "secondary", "follower", "standby", "reader", "read-only", "ro", "passive"];

/// The labels whose value changes with each rollout.
const HASHES: [&str; 4] =
    ["pod-template-hash", "controller-revision-hash", "pod-template-generation", ROLLOUTS_HASH];

/// The labels that may have the version of a chart or program.
const VERSIONS: [&str; 4] = ["helm.sh/chart", "chart", "app.kubernetes.io/version", "version"];

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";

/// The label of a Service with which Knative marks the one of a revision's pods.
const KNATIVE: (&str, &str) = ("networking.internal.knative.dev/serviceType", "Private");

fn is_one_of(words: &[&str], value: &str) -> bool {
    words.iter().any(|word| word.eq_ignore_ascii_case(value))
}

/// Returns true if a program likely sets this label on the pod that has a role.
fn is_role(label: &str, wanted: &str) -> bool {
    let key = label.rsplit('/').next().unwrap_or(label).to_ascii_lowercase();
    let of_key = |word: &str| key.split(['-', '_', '.']).any(|part| part == word) || key.ends_with(word);
    let named = ["role", "leader", "master", "primary", "active"].iter().any(|word| of_key(word));
    is_one_of(&LEADERS, wanted) && (named || of_key("state"))
        || is_one_of(&FOLLOWERS, wanted) && named
        || named && matches!(wanted, "true" | "yes" | "1")
}

/// Returns true if two words mean the same role.
fn is_same_role(wanted: &str, found: &str) -> bool {
    let both = |words: &[&str]| is_one_of(words, wanted) && is_one_of(words, found);
    both(&LEADERS) || both(&FOLLOWERS)
}

impl NearMatches {
    /// Returns them with the number of ready pods among those that the objects have. A group
    /// that has the wanted role under another name comes first, one with the opposite role last.
    pub(crate) fn judged(mut self, objects: &Objects, namespace: &Text) -> Self {
        for group in &mut self.groups {
            group.at_least = objects.raw.has_more_pods;
            let pods = group.pods.iter().map(|name| {
                let key = ObjectKey { namespace: namespace.clone(), name: name.clone() };
                objects.pod(&key).map(|pod| pod.is_ready())
            });
            let ready: Option<Vec<bool>> = pods.collect();
            group.ready = ready.map(|ready| ready.into_iter().filter(|is_ready| *is_ready).count());
        }
        self.groups.sort_by_key(|group| (!group.is_typo, group.place()));
        self
    }

    /// Returns the likely reason why no pod has the labels of a selector. `labels` are those of the
    /// Service.
    pub(crate) fn cause(&self, selector: &StringMap, labels: &StringMap) -> NoPods {
        let (label, value) = KNATIVE;
        if labels.get(label).is_some_and(|is| **is == *value) {
            return NoPods::ScaledToZero { by: "Knative" };
        }
        if let Some((label, _)) = selector.iter().find(|(label, _)| HASHES.contains(&&***label)) {
            return NoPods::LabelOfRollout { label: label.clone() };
        }
        let is_version = |group: &&NearMatch| VERSIONS.contains(&&*group.label) && group.found.is_some();
        if let Some(group) = self.groups.iter().find(is_version).filter(|_| selector.len() > 1) {
            let of = |text: &str| text.chars().any(|c| c == '.') && text.chars().any(|c| c.is_ascii_digit());
            if of(&group.wanted) && group.found.as_deref().is_some_and(of) {
                return NoPods::LabelOfRollout { label: group.label.clone() };
            }
        }
        if let Some((set, ordinal)) = selector.get(POD_NAME).and_then(|name| name.rsplit_once('-'))
            && let Ok(ordinal) = ordinal.parse()
        {
            let ordinal_of = |name: &str| name.strip_prefix(set)?.strip_prefix('-')?.parse::<u32>().ok();
            let is_later = |name: &&Text| ordinal_of(name).is_some_and(|other| other > ordinal);
            let named = self.groups.iter().filter(|group| *group.label == *POD_NAME);
            let later = named.filter_map(|group| group.found.as_ref()).find(is_later).cloned();
            return NoPods::PodOfStatefulSet { set: set.into(), ordinal, later };
        }
        // Without other labels, all pods of the namespace would be near.
        let mut groups = self.groups.iter().filter(|_| selector.len() > 1);
        if let Some((group, found)) = groups.clone().find_map(|group| Some((group, group.renamed()?))) {
            return NoPods::RoleRenamed {
                label: group.label.clone(),
                wanted: group.wanted.clone(),
                found: found.clone(),
                pods: group.pods.clone(),
            };
        }
        let Some(first) = groups.find(|group| is_role(&group.label, &group.wanted)) else {
            return NoPods::NotKnown;
        };
        let all = || self.groups.iter().filter(|group| group.label == first.label);
        let pods: Vec<Text> = all().flat_map(|group| &group.pods).cloned().collect();
        NoPods::NoPodHasRole {
            label: first.label.clone(),
            wanted: first.wanted.clone(),
            pods,
            count: all().map(|group| group.count).sum(),
            at_least: all().any(|group| group.at_least),
            none_is_ready: all().all(NearMatch::none_is_ready),
        }
    }
}

impl NearMatch {
    /// Returns the found value if it means the wanted role.
    fn renamed(&self) -> Option<&Text> {
        let found = self.found.as_ref()?;
        is_same_role(&self.wanted, found).then_some(found)
    }

    fn place(&self) -> u8 {
        let found = self.found.as_deref().unwrap_or_default();
        let is_opposite = is_one_of(&LEADERS, &self.wanted) && is_one_of(&FOLLOWERS, found)
            || is_one_of(&FOLLOWERS, &self.wanted) && is_one_of(&LEADERS, found);
        match self.renamed() {
            Some(_) => 0,
            None if is_opposite => 2,
            None => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_roles_are_those_that_a_program_sets() {
        for (label, wanted, want) in [
            ("role", "master", true),
            ("spilo-role", "master", true),
            ("cnpg.io/instanceRole", "primary", true),
            ("vault-active", "true", true),
            ("openbao-active", "true", true),
            ("role", "replica", true),
            ("kubedb.com/role", "Primary", true),
            ("color", "green", false),
            ("app", "main", false),
            ("tier", "true", false),
            ("role", "frontend", false),
        ] {
            assert_eq!(is_role(label, wanted), want, "{label}={wanted}");
        }
    }

    #[test]
    fn a_role_has_several_names() {
        for (wanted, found, want) in [
            ("master", "primary", true),
            ("slave", "replica", true),
            ("Master", "primary", true),
            ("master", "replica", false),
            ("blue", "green", false),
        ] {
            assert_eq!(is_same_role(wanted, found), want, "{wanted} {found}");
        }
    }
}
