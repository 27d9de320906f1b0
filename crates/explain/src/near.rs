//! Pods that nearly match a selector: all labels but one are as the Service asks.

use std::collections::BTreeMap;
use std::fmt;

use kube_endpoint_core_model::{StringMap, Text};
use serde::Serialize;

/// Pods that a list of names holds at most.
const MAX_NAMES: usize = 5;

/// Pods that differ from a selector in the same way. Prints as `label app is "web2", not "web" (pod a)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NearMatch {
    /// The label in which they differ.
    pub label: Text,
    /// The value that the selector asks for.
    pub wanted: Text,
    /// The value that the pods have; none if they lack the label.
    pub found: Option<Text>,
    /// Number of pods.
    pub count: usize,
    /// Names of some of them.
    pub pods: Vec<Text>,
}

impl NearMatch {
    /// Returns how the label differs, without the pods.
    pub fn differs(&self) -> String {
        let Self { label, wanted, found, .. } = self;
        match found {
            Some(found) => format!("label {label} is {found:?}, not {wanted:?}"),
            None => format!("label {label} is missing, wanted {wanted:?}"),
        }
    }

    pub(crate) fn remedy(&self) -> String {
        let Self { label, wanted, found, .. } = self;
        match found {
            Some(found) => format!(
                "Set {label} to {found:?} in the Service's selector, or to {wanted:?} in the labels of the pods"
            ),
            None => {
                format!("Remove {label} from the Service's selector, or label the pods with {label}={wanted}")
            }
        }
    }
}

impl fmt::Display for NearMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, pods, .. } = self;
        f.write_str(&self.differs())?;
        let names: Vec<&str> = pods.iter().take(2).map(|name| &**name).collect();
        let more = count.saturating_sub(names.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        write!(f, " (pod{} {}{more})", if *count == 1 { "" } else { "s" }, names.join(", "))
    }
}

/// Returns the pods that meet all requirements of a selector but one, grouped by that label and the value that they have.
/// The largest group is first. A selector with a single requirement counts those pods whose value is similar: otherwise
/// every pod of the namespace would nearly match.
pub fn near_matches<'a>(
    selector: &StringMap,
    pods: impl IntoIterator<Item = (&'a Text, &'a StringMap)>,
) -> Vec<NearMatch> {
    let mut groups: BTreeMap<(Text, Option<Text>), NearMatch> = BTreeMap::new();
    for (name, labels) in pods {
        let mut unmet = selector.iter().filter(|(key, value)| labels.get(key) != Some(value));
        let (Some((label, wanted)), None) = (unmet.next(), unmet.next()) else { continue };
        let found = labels.get(label);
        if selector.len() == 1 && !found.is_some_and(|found| is_similar(found, wanted)) {
            continue;
        }
        let group = groups.entry((label.clone(), found.cloned())).or_insert_with(|| NearMatch {
            label: label.clone(),
            wanted: wanted.clone(),
            found: found.cloned(),
            count: 0,
            pods: Vec::new(),
        });
        group.count += 1;
        if group.pods.len() < MAX_NAMES {
            group.pods.push(name.clone());
        }
    }
    let mut groups: Vec<NearMatch> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    groups
}

/// Returns true if two values differ by case only, one is a part of the other, they have the same letters in another order,
/// or at most two edits lead from one to the other and most of the text stays.
fn is_similar(one: &str, other: &str) -> bool {
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    if one.is_empty() || other.is_empty() {
        return false;
    }
    let longest = one.chars().count().max(other.chars().count());
    let letters = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    letters(&one) == letters(&other)
        || one.contains(&other)
        || other.contains(&one)
        || edits(&one, &other) <= 2.min(longest / 3)
}

/// Returns the number of single-character edits between two texts (Levenshtein distance).
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, from) in one.chars().enumerate() {
        let mut diagonal = at;
        let mut left = at + 1;
        for (to, above) in other.iter().zip(row.iter_mut().skip(1)) {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = *above;
            left = substituted.min(left + 1).min(*above + 1);
            *above = left;
        }
        if let Some(first) = row.first_mut() {
            *first = at + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(selector: &[(&str, &str)], pods: &[(&str, &[(&str, &str)])], want: &[&str]) {
        let pods: Vec<(Text, StringMap)> =
            pods.iter().map(|(name, labels)| ((*name).into(), labels.iter().copied().collect())).collect();
        let selector = selector.iter().copied().collect();
        let found = near_matches(&selector, pods.iter().map(|(name, labels)| (name, labels)));
        let texts: Vec<String> = found.iter().map(NearMatch::to_string).collect();
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
                "label app is \"frontend-v2\", not \"frontend\" (pod b)",
                "label app is \"frontned\", not \"frontend\" (pod a)",
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
            assert_eq!(is_similar(one, other), want, "{one} {other}");
        }
    }

    #[test]
    fn edits_are_counted() {
        for (one, other, want) in [
            ("", "", 0),
            ("a", "", 1),
            ("kitten", "sitting", 3),
            ("web", "web", 0),
            ("htpp", "http", 1),
            ("frontned", "frontend", 2),
        ] {
            assert_eq!(edits(one, other), want, "{one} {other}");
            assert_eq!(edits(other, one), want, "{other} {one}");
        }
    }
}
