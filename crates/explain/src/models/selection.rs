//! Finds out how the pods of a Service are selected: by a selector of its own, or by the
//! EndpointSelector that it names.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use kube_endpoint_core_model::endpoint_selector::LONGEST_NAME;
use kube_endpoint_core_model::well_known::SELECTOR_CONTROLLER;
use kube_endpoint_core_model::{EndpointSelector, LabelSelector, ObjectKey, Pod, Service, StringMap, Text};
use kube_endpoint_slice_plan::PlanOptions;
use serde::Serialize;
use serde_json::Value;

use crate::facts::lease::Lease;
use crate::facts::objects::Objects;
use crate::facts::options::{Known, Options};
use crate::models::leader::Leads;

/// The maximum number of names in a list of pods.
const MAX_NAMES: usize = 5;

/// The maximum number of names of other EndpointSelectors in a message.
const OTHERS: usize = 3;

/// The resource of EndpointSelectors, as kubectl takes it. Kubernetes may have one of its own.
pub(crate) const RESOURCE: &str = "endpointselectors.kube-endpoint-manager.github.io";

/// The way in which the pods of a Service are selected.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Selection<'a> {
    /// Nobody selects pods for it.
    None,
    /// It has a selector.
    Own(&'a StringMap),
    /// It names an EndpointSelector that selects pods.
    Attached { name: &'a Text, object: &'a EndpointSelector, selector: &'a LabelSelector },
    /// It names an EndpointSelector that does not exist or is invalid.
    Unusable { name: &'a Text, object: Option<&'a EndpointSelector> },
    /// It names an EndpointSelector, and these are not known.
    NotKnown { name: &'a Text },
}

impl<'a> Selection<'a> {
    pub(crate) fn of(objects: &'a Objects, service: &'a Service, known: Known) -> Self {
        if let Some(selector) = service.selector.as_ref().filter(|_| service.selects_pods()) {
            return Self::Own(selector);
        }
        match service.endpoint_selector() {
            Some(name) => Self::named(objects, &service.key.namespace, name, known),
            None => Self::None,
        }
    }

    /// Returns the selection of the EndpointSelector of this name.
    pub(crate) fn named(objects: &'a Objects, namespace: &Text, name: &'a Text, known: Known) -> Self {
        if !known.selectors {
            return Self::NotKnown { name };
        }
        let key = ObjectKey { namespace: namespace.clone(), name: name.clone() };
        let object = objects.endpoint_selectors.get(&key).map(|object| &**object);
        match object.map(|object| (object, object.selector.as_ref())) {
            Some((object, Ok(selector))) => Self::Attached { name, object, selector },
            _ => Self::Unusable { name, object },
        }
    }

    /// Returns true if controllers make the endpoints of the Service from pods that it is known to
    /// select.
    pub(crate) fn selects_pods(&self) -> bool {
        matches!(self, Self::Own(_) | Self::Attached { .. })
    }

    /// Returns the name of the EndpointSelector that the Service is attached to.
    pub(crate) fn endpoint_selector(&self) -> Option<&'a Text> {
        match *self {
            Self::Attached { name, .. } | Self::Unusable { name, .. } | Self::NotKnown { name } => Some(name),
            Self::None | Self::Own(_) => None,
        }
    }

    /// Returns true if the labels of a pod are as the selector asks.
    pub(crate) fn matches(&self, labels: &StringMap) -> bool {
        match self {
            Self::Own(selector) => selector.selects(labels),
            Self::Attached { selector, .. } => selector.matches(labels),
            _ => false,
        }
    }

    /// Returns the pods that are selected, sorted by name.
    pub(crate) fn pods(&self, objects: &Objects, namespace: &Text) -> Vec<Arc<Pod>> {
        match self {
            Self::Own(selector) => objects.selected(namespace, selector),
            Self::Attached { selector, .. } => objects.selected_by(namespace, selector),
            _ => Vec::new(),
        }
    }

    /// Returns the options with which a controller plans the slices of these pods.
    pub(crate) fn plan_options<'o>(&self, options: &'o Options) -> Cow<'o, PlanOptions> {
        let mut plan = Cow::Borrowed(&options.slices);
        if self.endpoint_selector().is_some() {
            plan.to_mut().manager = SELECTOR_CONTROLLER.into();
        }
        plan
    }
}

/// The EndpointSelector that a Service names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SelectedBy {
    pub endpoint_selector: Text,
    /// Its requirements, as kubectl writes them. Empty if it selects nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<String>,
    pub state: Attachment,
    /// The pods that its readiness chooses, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leads: Option<Leads>,
    /// The pods of the namespace that meet all requirements but one. The largest groups are first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_selected: Vec<NotSelected>,
}

/// The state of a Service that names an EndpointSelector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Attachment {
    /// The EndpointSelector selects its pods.
    Attached,
    /// The same, but slices of other controllers stay, since none of its pods is ready.
    Held,
    /// The EndpointSelector does not exist or is invalid, so endpoints only leave.
    Shrinking,
    /// The EndpointSelector could not be read.
    NotKnown,
    /// The Service has a selector, which wins.
    HandedBack,
    /// The same, but slices of the EndpointSelector stay until the others have their ready
    /// endpoints.
    HandingBack,
}

/// Pods that meet all requirements of a selector but one. Prints as
/// `track notin (canary): 2 pods, such as web-2 (track=canary)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NotSelected {
    /// The requirement that they do not meet, as kubectl writes it.
    pub requirement: String,
    /// The key of the label that it is about.
    pub label: String,
    /// The value that the pods have, or `None` if they lack the label.
    pub found: Option<Text>,
    pub count: usize,
    pub pods: Vec<Text>,
}

impl fmt::Display for NotSelected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requirement, count, .. } = self;
        let pods = if *count == 1 { "1 pod".to_owned() } else { format!("{count} pods") };
        write!(f, "{requirement}: {pods}, {}", self.example())
    }
}

impl NotSelected {
    /// Returns a text that says how one pod differs.
    pub(crate) fn differs(&self) -> String {
        let Self { requirement, label, found, .. } = self;
        match found {
            Some(found) => format!("label {label} is {found:?}, wanted {requirement}"),
            None => format!("label {label} is missing, wanted {requirement}"),
        }
    }

    /// Returns the name of a pod, and its label.
    pub(crate) fn example(&self) -> String {
        let Self { label, found, pods, .. } = self;
        let such_as = if self.count == 1 { "" } else { "such as " };
        let pod = pods.first().map(|pod| &**pod).unwrap_or_default();
        match found {
            Some(found) => format!("{such_as}{pod} ({label}={found})"),
            None => format!("{such_as}{pod} (without {label})"),
        }
    }
}

/// Groups the pods that meet all requirements of a selector but one. `pods` returns the pods that a
/// selector selects.
pub(crate) fn not_selected<'a, I: Iterator<Item = (&'a Text, &'a StringMap)>>(
    selector: &LabelSelector,
    pods: impl Fn(&LabelSelector) -> I,
) -> Vec<NotSelected> {
    let mut groups: BTreeMap<(String, Option<&Text>), NotSelected> = BTreeMap::new();
    for (one, miss) in selector.misses() {
        let Some(label) = one.keys().next().map(str::to_owned) else { continue };
        for (name, labels) in pods(&miss) {
            let found = labels.get(&label);
            let requirement = one.to_string();
            let group = groups.entry((requirement.clone(), found)).or_insert_with(|| NotSelected {
                requirement,
                label: label.clone(),
                found: found.cloned(),
                count: 0,
                pods: Vec::new(),
            });
            group.count += 1;
            if group.pods.len() < MAX_NAMES {
                group.pods.push(name.clone());
            }
        }
    }
    let mut groups: Vec<NotSelected> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    groups
}

/// Returns the labels that each pod has that a selector selects.
pub(crate) fn required_labels(selector: &LabelSelector) -> StringMap {
    let one = |(label, values): (&str, &BTreeSet<String>)| {
        let value = values.first().filter(|_| values.len() == 1)?;
        Some((label.to_owned(), value.clone()))
    };
    selector.alternatives().filter_map(one).collect()
}

/// Returns true if an EndpointSelector can have this name.
pub(crate) fn is_name(name: &str) -> bool {
    let is_word = |word: &str| {
        let ends = |c: Option<char>| c.is_some_and(|c| c != '-');
        ends(word.chars().next())
            && ends(word.chars().last())
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    name.len() <= LONGEST_NAME && name.split('.').all(is_word)
}

/// Says which EndpointSelectors a namespace has, if it has some.
pub(crate) fn names_in_namespace(others: &[Text]) -> Option<String> {
    (!others.is_empty()).then(|| format!("the namespace has {}", others.join(", ")))
}

/// Returns the name in the annotation of a Service, also if the Service has a selector, which wins.
pub fn names_selector(service: &Service) -> Option<&Text> {
    service.endpoint_selector().or_else(|| service.rehearsed_selector())
}

impl Objects {
    /// Adds an EndpointSelector.
    pub fn add_endpoint_selector(&mut self, selector: Arc<EndpointSelector>) {
        self.endpoint_selectors.insert(selector.key.clone(), selector);
    }

    /// Notes that the cluster has no EndpointSelectors, because it does not serve the resource.
    pub fn note_no_endpoint_selectors(&mut self) {
        self.serves_no_selectors = true;
    }

    /// Notes the Leases of kube-endpoint-manager and of its add-on in all namespaces.
    pub fn note_manager_leases(&mut self, leases: &[Value]) {
        self.manager_leases = Some(leases.iter().map(Lease::read).collect());
    }

    /// Returns an EndpointSelector.
    pub fn endpoint_selector(&self, key: &ObjectKey) -> Option<&Arc<EndpointSelector>> {
        self.endpoint_selectors.get(key)
    }

    /// Returns the selector of the EndpointSelector that a Service is attached to, if it selects
    /// pods.
    pub fn attached_selector(&self, service: &Service) -> Option<&LabelSelector> {
        service.endpoint_selector()?;
        self.named_selector(service)
    }

    /// Returns the selector of the EndpointSelector that a Service names, if it selects pods, also
    /// if the Service has a selector of its own.
    pub fn named_selector(&self, service: &Service) -> Option<&LabelSelector> {
        let name = names_selector(service)?.clone();
        let key = ObjectKey { namespace: service.key.namespace.clone(), name };
        self.endpoint_selectors.get(&key)?.selector.as_ref().ok()
    }

    /// Returns the labels that each pod of a Service must have. Returns `None` if it neither has a
    /// selector nor names an EndpointSelector with one.
    pub fn required_labels(&self, service: &Service) -> Option<StringMap> {
        match Selection::of(self, service, Known::ALL) {
            Selection::Own(selector) => Some(selector.clone()),
            Selection::Attached { selector, .. } => Some(required_labels(selector)),
            _ => None,
        }
    }

    /// Returns the pods that a Service selects, by its own selector or the EndpointSelector that it
    /// names, sorted by name.
    pub fn pods_for(&self, service: &Service) -> Vec<Arc<Pod>> {
        Selection::of(self, service, Known::ALL).pods(self, &service.key.namespace)
    }

    /// Returns the other namespaces with an EndpointSelector of this name.
    pub(crate) fn namespaces_of_selector(&self, key: &ObjectKey) -> Vec<Text> {
        let others = self.endpoint_selectors.keys().filter(|other| *other.name == *key.name);
        others.map(|other| &other.namespace).filter(|other| **other != key.namespace).cloned().collect()
    }

    /// Returns the names of the first EndpointSelectors of a namespace.
    pub(crate) fn some_selectors_of(&self, namespace: &Text) -> Vec<Text> {
        let first = ObjectKey { namespace: namespace.clone(), name: "".into() };
        let all = self.endpoint_selectors.range(first..).map(|(key, _)| key);
        let all = all.take_while(|key| key.namespace == *namespace).map(|key| key.name.clone());
        all.take(OTHERS).collect()
    }

    /// Returns the pods of a namespace that a label selector selects, sorted by name. If the
    /// selector asks for a value, this looks only at the pods that have it.
    pub(crate) fn selected_by(&self, namespace: &Text, selector: &LabelSelector) -> Vec<Arc<Pod>> {
        let with = |label: &str, value: &String| {
            let key = (namespace.clone(), label.into(), value.as_str().into());
            self.by_label.get(&key).map_or(&[][..], Vec::as_slice)
        };
        let alternatives = selector.alternatives();
        let candidates =
            alternatives.map(|(label, values)| values.iter().map(|value| with(label, value)).collect());
        let fewest = candidates
            .min_by_key(|lists: &Vec<&[Arc<Pod>]>| lists.iter().map(|pods| pods.len()).sum::<usize>());
        let selects = |pod: &&Arc<Pod>| selector.matches(&pod.labels);
        let Some(lists) = fewest else { return self.pods_of(namespace).filter(selects).cloned().collect() };
        let mut pods: Vec<Arc<Pod>> = lists.into_iter().flatten().filter(selects).cloned().collect();
        pods.sort_by(|one, other| one.key.name.cmp(&other.key.name));
        pods
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, labels: &[(&str, &str)]) -> serde_json::Value {
        let labels: BTreeMap<_, _> = labels.iter().copied().collect();
        json!({"kind": "Pod", "metadata": {"name": name, "labels": labels}})
    }

    fn objects() -> Objects {
        Objects::read([
            pod("web-1", &[("app", "web")]),
            pod("web-2", &[("app", "web"), ("track", "canary")]),
            pod("web-3", &[("app", "web"), ("track", "canary")]),
            pod("web-4", &[("app", "web"), ("track", "shadow")]),
            pod("api-1", &[("app", "api"), ("track", "stable")]),
            json!({"kind": "Pod", "metadata": {"name": "z", "namespace": "other", "labels": {"app": "web"}}}),
        ])
        .unwrap()
    }

    #[test]
    fn the_index_finds_the_pods_that_a_scan_finds() {
        let (objects, namespace) = (objects(), Text::from("default"));
        let check = |selector: &str| {
            let selector: LabelSelector = selector.parse().unwrap();
            let found = objects.selected_by(&namespace, &selector);
            let scanned: Vec<Arc<Pod>> =
                objects.pods_of(&namespace).filter(|pod| selector.matches(&pod.labels)).cloned().collect();
            assert_eq!(found, scanned, "{selector}");
            found.len()
        };
        let found =
            ["app=web", "app in (web,api),track", "track notin (canary)", "app=web,track=x", "!track"];
        assert_eq!(found.map(check), [4, 4, 3, 0, 1]);
    }

    #[test]
    fn pods_that_fail_one_requirement_are_grouped_by_what_they_have() {
        let (objects, namespace) = (objects(), Text::from("default"));
        let check = |selector: &str| {
            let pods = |miss: &LabelSelector| {
                let miss = miss.clone();
                objects.labels_of(&namespace).filter(move |(_, labels)| miss.matches(labels))
            };
            let groups = not_selected(&selector.parse().unwrap(), pods);
            groups.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            check("app=web,track notin (canary,shadow)"),
            [
                "track notin (canary,shadow): 2 pods, such as web-2 (track=canary)",
                "track notin (canary,shadow): 1 pod, web-4 (track=shadow)",
            ]
        );
        assert_eq!(check("app=web"), [""; 0]);
        assert_eq!(check("track"), [""; 0]);
        assert_eq!(check("!track").len(), 3);
        let stable = check("app=web,track=stable");
        assert_eq!(stable.len(), 4);
        assert!(stable.contains(&"track=stable: 1 pod, web-1 (without track)".to_owned()), "{stable:?}");
    }

    #[test]
    fn names_are_those_that_the_api_server_accepts() {
        let is = |name: &str| is_name(name);
        assert!(["web", "web-stable.v2", "0", &"w".repeat(63)].into_iter().all(is));
        assert!(
            !["", "Web", "web_1", "app=web", "-web", "web-", "web..v2", &"w".repeat(64)].into_iter().any(is)
        );
    }

    #[test]
    fn an_endpoint_selector_of_another_group_is_skipped() {
        let selector = |version: &str| {
            json!({"apiVersion": version, "kind": "EndpointSelector", "metadata": {"name": "web"},
                "spec": {"selector": {"matchLabels": {"app": "web"}}}})
        };
        let key = ObjectKey::new("default", "web");
        let mut objects = Objects::read([selector("discovery.k8s.io/v1alpha1")]).unwrap();
        assert!(objects.endpoint_selector(&key).is_none());
        assert_eq!(objects.take_skipped_kinds().len(), 1);
        objects.add(selector("kube-endpoint-manager.github.io/v1alpha1")).unwrap();
        assert!(objects.endpoint_selector(&key).is_some());
    }
}
