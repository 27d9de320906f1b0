//! Finds pods that nearly match a selector: all labels but one are as the Service asks.

mod keys;
mod names;
mod no_pods;
mod roles;
mod typo;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use kube_endpoint_core_model::{LabelSelector, StringMap, Text};
use serde::Serialize;

pub use keys::{OtherKey, OtherKeys, other_keys_of};
pub use names::nearest_names;
pub(crate) use names::stem;
pub use no_pods::NoPods;
pub(crate) use no_pods::ROLLOUTS_HASH;
pub(crate) use typo::is_typo;

/// The maximum number of names in a list of pods.
const MAX_NAMES: usize = 5;

/// The maximum number of listed groups.
const MAX_GROUPS: usize = 20;

/// Pods that differ from a selector in the same way. Prints as
/// `label app is "web2", not "web" (pod a)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NearMatch {
    /// The label in which they differ.
    pub label: Text,
    /// The value that the selector asks for.
    pub wanted: Text,
    /// The value that the pods have, or `None` if they lack the label.
    pub found: Option<Text>,
    /// True if one of the two values is likely a mistyped form of the other. Otherwise these may be
    /// pods of another program, or in another role, and the pods that are meant do not exist.
    pub is_typo: bool,
    pub count: usize,
    /// True if there may be more: a list was too long to be read to its end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    pub pods: Vec<Text>,
    /// How many of `pods` are ready, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<usize>,
}

impl NearMatch {
    /// Returns true if it is known that none of the pods is ready: all of them were looked at.
    pub(crate) fn none_is_ready(&self) -> bool {
        self.ready == Some(0) && self.count == self.pods.len() && !self.at_least
    }

    /// Returns a text that says how the label differs, without the pods.
    pub fn differs(&self) -> String {
        let Self { label, wanted, found, .. } = self;
        match found {
            Some(found) => format!("label {label} is {found:?}, not {wanted:?}"),
            None => format!("label {label} is missing, wanted {wanted:?}"),
        }
    }
}

impl fmt::Display for NearMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, pods, .. } = self;
        f.write_str(&self.differs())?;
        let names: Vec<&str> = pods.iter().take(2).map(|name| &**name).collect();
        let more = count.saturating_sub(names.len());
        let more = match (more, self.at_least) {
            (0, false) => String::new(),
            (0, true) => " and perhaps more".to_owned(),
            (more, at_least) => format!(" and {}{more} more", if at_least { "at least " } else { "" }),
        };
        let ready = match *count {
            _ if !self.none_is_ready() => "",
            1 => ", not ready",
            _ => ", none of them ready",
        };
        write!(f, " (pod{} {}{more}{ready})", if *count == 1 { "" } else { "s" }, names.join(", "))
    }
}

/// Returns the pods that meet all requirements of a selector but one, grouped by that label and
/// their value of it. The largest group is first. For a selector with a single requirement, only
/// pods with a similar value count: otherwise every pod of the namespace would nearly match.
///
/// For many selectors, make a [`NearIndex`] of the pods once.
pub fn near_matches<'a>(
    selector: &StringMap,
    pods: impl IntoIterator<Item = (&'a Text, &'a StringMap)>,
) -> NearMatches {
    NearIndex::new(pods).near(selector)
}

/// Returns the names of the pods that an explanation without pods looks at: a few of each group of
/// near matches, and a few of a workload with the name of the Service.
pub fn near_pods<'a>(
    service: &str,
    selector: &StringMap,
    pods: impl IntoIterator<Item = (&'a Text, &'a StringMap)> + Clone,
) -> Vec<Text> {
    let is_named = |name: &&Text| names::stem(name) == service;
    let named = pods.clone().into_iter().map(|(name, _)| name).filter(is_named);
    let named: Vec<Text> = named.take(MAX_NAMES).cloned().collect();
    let near = near_matches(selector, pods);
    let near = near.groups.into_iter().take(NEAR_GROUPS).flat_map(|group| group.pods);
    let all: std::collections::BTreeSet<Text> = near.chain(named).collect();
    all.into_iter().collect()
}

/// The maximum number of groups whose pods [`near_pods`] names.
const NEAR_GROUPS: usize = 4;

/// The pods that nearly match a selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NearMatches {
    /// The likely typos, then the largest groups, at most 20.
    pub groups: Vec<NearMatch>,
    /// Number of pods of all groups.
    pub pods: usize,
    /// The pods that have the values of the selector under other labels of the same meaning.
    pub other_keys: Option<OtherKeys>,
}

impl NearMatches {
    /// Returns the groups whose pods an EndpointSelector would select but for a likely typo.
    /// `labels_of` returns the labels of a pod.
    pub(crate) fn mistyped<'a>(
        mut self,
        selector: &LabelSelector,
        labels_of: impl Fn(&Text) -> Option<&'a StringMap>,
    ) -> Self {
        let fits = |group: &NearMatch| {
            let labels = group.pods.first().and_then(&labels_of);
            labels.is_some_and(|labels| selector.matches(&labels.with(&group.label, &group.wanted)))
        };
        self.groups.retain(|group| group.is_typo && fits(group));
        let pods = self.groups.iter().map(|group| group.count).sum();
        Self { pods, other_keys: None, ..self }
    }

    /// Returns the groups that differ by a likely typo.
    pub(crate) fn typos(&self) -> impl Iterator<Item = &NearMatch> {
        self.groups.iter().filter(|group| group.is_typo)
    }
}

/// The pods of a namespace, prepared for [`near`](Self::near). It looks at pods with the same
/// labels once, and compares a selector only with pods that have one of its labels. It computes the
/// common part of selectors once: most selectors of a namespace differ in one value.
#[derive(Debug, Default)]
pub struct NearIndex {
    sets: Vec<LabelSet>,
    /// Positions in `sets`, by label and value, and by label.
    by_pair: HashMap<(Text, Text), Vec<usize>>,
    by_label: BTreeMap<Text, Vec<usize>>,
    /// The labels of pods that may stand for a label.
    known_keys: HashMap<Text, Vec<Text>>,
    /// The results for a label and the other requirements of a selector.
    known: HashMap<(Text, StringMap), Arc<Values>>,
    /// The number of label sets that this has compared with a requirement.
    compared: usize,
}

/// Pods with the same labels.
#[derive(Debug)]
struct LabelSet {
    labels: StringMap,
    pods: usize,
    names: Vec<Text>,
}

/// The pods that meet some requirements, by the value of another label.
#[derive(Debug)]
struct Values {
    /// The largest group is first, then by value.
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    value: Option<Text>,
    form: Form,
    pods: usize,
    names: Vec<Text>,
}

impl NearIndex {
    /// Prepares pods, given by name and labels. Results name the first of the pods with the same
    /// labels.
    pub fn new<'a>(pods: impl IntoIterator<Item = (&'a Text, &'a StringMap)>) -> Self {
        let mut positions: HashMap<&StringMap, usize> = HashMap::new();
        let mut index = Self::default();
        for (name, labels) in pods {
            let at = *positions.entry(labels).or_insert_with(|| {
                index.sets.push(LabelSet { labels: labels.clone(), pods: 0, names: Vec::new() });
                index.sets.len() - 1
            });
            let Some(set) = index.sets.get_mut(at) else { continue };
            set.pods += 1;
            if set.names.len() < MAX_NAMES {
                set.names.push(name.clone());
            }
        }
        for (at, set) in index.sets.iter().enumerate() {
            for (label, value) in set.labels.iter() {
                index.by_pair.entry((label.clone(), value.clone())).or_default().push(at);
                index.by_label.entry(label.clone()).or_default().push(at);
            }
        }
        index
    }

    /// Returns the pods that meet all requirements of a selector but one, as [`near_matches`] does.
    pub fn near(&mut self, selector: &StringMap) -> NearMatches {
        let mut groups: Vec<NearMatch> = Vec::new();
        let mut pods = 0;
        for (label, wanted) in selector.iter() {
            let values = self.values(label, selector.without(label));
            let form = Form::new(wanted);
            let differs = |group: &&Group| match &group.value {
                Some(value) => value != wanted && (selector.len() > 1 || group.form.is_similar(&form)),
                None => selector.len() > 1,
            };
            let is_typo = |group: &Group| {
                let value = group.value.as_ref();
                value.is_some_and(|value| group.form.is_similar(&form) && typo::is_typo(wanted, value))
            };
            let differing: Vec<(&Group, bool)> =
                values.groups.iter().filter(differs).map(|group| (group, is_typo(group))).collect();
            let typos = differing.iter().filter(|(_, is_typo)| *is_typo);
            let others = differing.iter().filter(|(_, is_typo)| !*is_typo);
            let listed = typos.chain(others).take(MAX_GROUPS).map(|(group, is_typo)| NearMatch {
                label: label.clone(),
                wanted: wanted.clone(),
                found: group.value.clone(),
                is_typo: *is_typo,
                count: group.pods,
                at_least: false,
                pods: group.names.clone(),
                ready: None,
            });
            groups.extend(listed);
            pods += differing.iter().map(|(group, _)| group.pods).sum::<usize>();
        }
        groups.sort_by(|one, two| {
            (two.is_typo, two.count)
                .cmp(&(one.is_typo, one.count))
                .then_with(|| (&one.label, &one.found).cmp(&(&two.label, &two.found)))
        });
        groups.truncate(MAX_GROUPS);
        NearMatches { groups, pods, other_keys: self.other_keys(selector) }
    }

    /// Returns the pods that meet `others`, by the value of a label.
    fn values(&mut self, label: &Text, others: StringMap) -> Arc<Values> {
        let key = (label.clone(), others);
        if let Some(values) = self.known.get(&key) {
            return Arc::clone(values);
        }
        let others = &key.1;
        let with_pair = |(label, value): (&Text, &Text)| {
            self.by_pair.get(&(label.clone(), value.clone())).map_or(&[][..], Vec::as_slice)
        };
        // Without other requirements, a pod that lacks the label does not nearly match.
        let rarest = others.iter().map(with_pair).min_by_key(|sets| sets.len());
        let rarest = rarest.unwrap_or_else(|| self.by_label.get(label).map_or(&[], Vec::as_slice));
        self.compared += rarest.len();
        let mut by_value: BTreeMap<Option<&Text>, Group> = BTreeMap::new();
        let sets = rarest.iter().filter_map(|at| self.sets.get(*at));
        for set in sets.filter(|set| others.selects(&set.labels)) {
            let value = set.labels.get(label);
            let group = by_value.entry(value).or_insert_with(|| Group {
                value: value.cloned(),
                form: Form::new(value.map_or("", |value| value)),
                pods: 0,
                names: Vec::new(),
            });
            group.pods += set.pods;
            let missing = MAX_NAMES - group.names.len();
            group.names.extend(set.names.iter().take(missing).cloned());
        }
        let mut groups: Vec<Group> = by_value.into_values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.pods));
        let values = Arc::new(Values { groups });
        self.known.insert(key, Arc::clone(&values));
        values
    }
}

/// A value, prepared for comparison with many others.
#[derive(Debug)]
struct Form {
    lower: String,
    chars: usize,
    /// How often letters of each class occur.
    letters: [u8; CLASSES],
}

/// Classes of letters.
const CLASSES: usize = 32;

/// The maximum number of edits between two similar values.
const MAX_EDITS: usize = 2;

impl Form {
    fn new(value: &str) -> Self {
        let lower = value.to_lowercase();
        let mut letters = [0_u8; CLASSES];
        for c in lower.chars() {
            if let Some(count) = letters.get_mut(c as usize % CLASSES) {
                *count = count.saturating_add(1);
            }
        }
        Self { chars: lower.chars().count(), lower, letters }
    }

    /// Returns true if two values differ by case only, one is a part of the other, they have the
    /// same letters in another order, or at most two edits lead from one to the other and most of
    /// the text stays.
    fn is_similar(&self, other: &Self) -> bool {
        let (one, two) = (&*self.lower, &*other.lower);
        if one.is_empty() || two.is_empty() {
            return false;
        }
        if one.contains(two) || two.contains(one) {
            return true;
        }
        if self.chars.abs_diff(other.chars) > MAX_EDITS {
            return false;
        }
        // An edit changes the counts of at most two classes by one.
        let counts = self.letters.iter().zip(&other.letters);
        let differing: usize = counts.map(|(one, two)| usize::from(one.abs_diff(*two))).sum();
        if differing > 2 * MAX_EDITS {
            return false;
        }
        (differing == 0 && sorted(one) == sorted(two))
            || strsim::levenshtein(one, two) <= MAX_EDITS.min(self.chars.max(other.chars) / 3)
    }
}

fn sorted(text: &str) -> Vec<char> {
    let mut letters: Vec<char> = text.chars().collect();
    letters.sort_unstable();
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(selector: &[(&str, &str)], pods: &[(&str, &[(&str, &str)])], want: &[&str]) {
        let pods: Vec<(Text, StringMap)> =
            pods.iter().map(|(name, labels)| ((*name).into(), labels.iter().copied().collect())).collect();
        let selector = selector.iter().copied().collect();
        let found = near_matches(&selector, pods.iter().map(|(name, labels)| (name, labels)));
        assert_eq!(found.pods, found.groups.iter().map(|group| group.count).sum::<usize>());
        let texts: Vec<String> = found.groups.iter().map(NearMatch::to_string).collect();
        assert_eq!(texts, want);
    }

    #[test]
    fn pods_that_lack_one_requirement_are_grouped_by_what_they_have() {
        let selector = [("app", "web"), ("tier", "front")];
        check(
            &selector,
            &[
                ("a", &[("app", "web")]),
                ("b", &[("app", "web"), ("tier", "back")]),
                ("c", &[("app", "web"), ("tier", "back"), ("more", "x")]),
                ("d", &[("app", "api"), ("tier", "back")]),
                ("e", &[]),
            ],
            &[
                "label tier is \"back\", not \"front\" (pods b, c)",
                "label tier is missing, wanted \"front\" (pod a)",
            ],
        );
    }

    #[test]
    fn a_selector_with_one_requirement_needs_a_similar_value() {
        let pods: [(&str, &[(&str, &str)]); 4] = [
            ("a", &[("app", "frontned")]),
            ("b", &[("app", "frontend-v2")]),
            ("c", &[("app", "payments")]),
            ("d", &[("tier", "frontend")]),
        ];
        check(
            &[("app", "frontend")],
            &pods,
            &[
                "label app is \"frontned\", not \"frontend\" (pod a)",
                "label app is \"frontend-v2\", not \"frontend\" (pod b)",
            ],
        );
    }

    #[test]
    fn similar_values_are_mistyped_ones() {
        for (one, other, want) in [
            ("web", "wbe", true),
            ("web", "Web", true),
            ("web", "web-v2", true),
            ("web", "api", false),
            ("web", "", false),
            ("payments", "payment", true),
            ("payments", "paymetns", true),
            ("cart", "dns", false),
        ] {
            assert_eq!(Form::new(one).is_similar(&Form::new(other)), want, "{one} {other}");
        }
    }

    fn labels(pairs: &[(&str, &str)]) -> StringMap {
        pairs.iter().copied().collect()
    }

    #[test]
    fn few_groups_are_listed_and_all_pods_are_counted() {
        let pods: Vec<(Text, StringMap)> = (0..50)
            .map(|at| {
                (
                    format!("pod-{at:02}").into(),
                    labels(&[("part-of", "shop"), ("app", &format!("app-{at:02}"))]),
                )
            })
            .collect();
        let found = near_matches(
            &labels(&[("part-of", "shop"), ("app", "none")]),
            pods.iter().map(|(name, labels)| (name, labels)),
        );
        assert_eq!((found.groups.len(), found.pods), (MAX_GROUPS, 50));
        assert_eq!(found.groups[0].found.as_deref(), Some("app-00"));
        let found =
            near_matches(&labels(&[("app", "app")]), pods.iter().map(|(name, labels)| (name, labels)));
        assert_eq!((found.groups.len(), found.pods), (MAX_GROUPS, 50));
    }

    /// The work grows with the number of label sets, not with that of pods or of Services times
    /// label sets.
    #[test]
    fn label_sets_are_compared_once_for_all_selectors_of_a_namespace() {
        let pods: Vec<(Text, StringMap)> = (0..10_000)
            .map(|at| {
                let app = format!("app-{}", at % 500);
                (format!("pod-{at}").into(), labels(&[("part-of", "shop"), ("app", &app)]))
            })
            .collect();
        let mut index = NearIndex::new(pods.iter().map(|(name, labels)| (name, labels)));
        for service in 0..1_000 {
            let wanted = format!("none-{service}");
            assert_eq!(index.near(&labels(&[("part-of", "shop"), ("app", &wanted)])).pods, 10_000);
            assert_eq!(index.near(&labels(&[("app", &wanted)])).pods, 0);
        }
        // The index compares each label set once for the selectors with two requirements, and once
        // for those with one.
        assert_eq!(index.compared, 1_000);
    }
}
