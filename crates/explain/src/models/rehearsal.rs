//! Looks ahead: what would change for a Service that has a selector, if somebody took that out and
//! left the pods to the EndpointSelector that the Service names.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_endpoint_core_model::endpoint_selector::Condition;
use kube_endpoint_core_model::maker::Keep;
use kube_endpoint_core_model::well_known::ENDPOINTSLICE_CONTROLLER;
use kube_endpoint_core_model::{EndpointSelector, Pod, Role, Service, Text, Timestamp};
use serde::Serialize;

use crate::facts::answer::Answer;
use crate::facts::objects::Objects;
use crate::facts::options::Options;
use crate::models::hand_over::made_by_controller;
use crate::models::leader::Leads;
use crate::models::selection::{Selection, names_in_namespace};

/// The maximum number of names of pods that come, and of those that go.
const NAMES: usize = 5;

/// The future of a Service under the EndpointSelector that it names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Rehearsal {
    pub is_ready_to_attach: Answer,
    /// Why it is not, or why nobody knows: clauses, each with its own subject.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub obstacles: Vec<String>,
    /// The number of pods that the EndpointSelector selects.
    pub pods: usize,
    /// The number of them that would be ready endpoints.
    pub ready: usize,
    /// The pods that the selector of the Service does not select.
    pub coming: Moving,
    /// The pods that only the selector of the Service selects.
    pub going: Moving,
}

/// Pods that would join or leave a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Moving {
    pub count: usize,
    /// The names of the first of them.
    pub pods: Vec<Text>,
}

impl Moving {
    fn of<'a>(names: impl Iterator<Item = &'a Text> + Clone) -> Self {
        Self { count: names.clone().count(), pods: names.take(NAMES).cloned().collect() }
    }

    /// Returns the names, and the number of the others.
    pub(crate) fn names(&self) -> String {
        let names: Vec<&str> = self.pods.iter().map(|name| &**name).collect();
        match self.count.saturating_sub(names.len()) {
            0 => names.join(", "),
            more => format!("{} and {more} more", names.join(", ")),
        }
    }
}

/// Returns true if the message of the condition ReadyToAttach says that a Service is ready, as in
/// "take spec.selector out of Service api, shop and 3 more": all are, and the names are sorted, so
/// "web" is one of the three.
fn says_ready(message: &str, service: &str) -> bool {
    let all = message.strip_prefix("take spec.selector out of Service ");
    let some = || message.rsplit_once("; ready to attach: ").map(|(_, names)| names);
    let Some(list) = all.or_else(some) else { return false };
    let names = list.split_once(" and ").map_or(list, |(names, _)| names);
    let is_counted = || {
        let last = names.rsplit(", ").next();
        all.is_some() && names != list && last.is_some_and(|last| last < service)
    };
    names.split(", ").any(|name| name == service) || is_counted()
}

impl Rehearsal {
    /// Looks at a Service that has a selector and names this EndpointSelector.
    pub(crate) fn of(
        objects: &Objects,
        service: &Service,
        name: &Text,
        now: Timestamp,
        options: &Options,
    ) -> Self {
        let mut found = Self {
            is_ready_to_attach: Answer::Yes,
            obstacles: Vec::new(),
            pods: 0,
            ready: 0,
            coming: Moving::default(),
            going: Moving::default(),
        };
        let known = options.known;
        match Selection::named(objects, &service.key.namespace, name, known) {
            selection @ Selection::Attached { object, .. } => {
                let is_said = found.look_at_status(object, service);
                if known.pods {
                    found.look_at_pods(objects, service, (name, selection), now);
                } else {
                    found.not_known("pods could not be read".to_owned());
                }
                found.look_at_outputs(objects, service, is_said);
            }
            Selection::Unusable { object: Some(object), .. } => {
                let reason = object.selector.as_ref().err().map(ToString::to_string).unwrap_or_default();
                found.no(format!("EndpointSelector {name} is invalid: {reason}"));
            }
            Selection::Unusable { object: None, .. } => {
                found.no(format!("EndpointSelector {name} does not exist"));
                let others = objects.some_selectors_of(&service.key.namespace);
                found.obstacles.extend(names_in_namespace(&others));
            }
            _ => found.not_known("EndpointSelectors could not be read".to_owned()),
        }
        found
    }

    fn no(&mut self, obstacle: String) {
        self.is_ready_to_attach = Answer::No;
        self.obstacles.push(obstacle);
    }

    fn not_known(&mut self, obstacle: String) {
        if self.is_ready_to_attach == Answer::Yes {
            self.is_ready_to_attach = Answer::NotKnown;
        }
        self.obstacles.push(obstacle);
    }

    /// Reads what the controller says about the EndpointSelector and this Service. Returns true if
    /// it says that this Service is ready to attach.
    fn look_at_status(&mut self, object: &EndpointSelector, service: &Service) -> bool {
        let (name, status) = (&object.key.name, &object.status);
        if status.observed_generation.is_none_or(|seen| seen < object.generation) {
            self.no(format!("no running controller has seen EndpointSelector {name}"));
            return false;
        }
        let is_about_this = |condition: &Condition| {
            let about = condition.message.strip_prefix("Service ");
            about.is_none_or(|about| about.starts_with(&format!("{}:", service.key.name)))
        };
        let rehearsed = status.conditions.iter().find(|it| *it.kind == *"ReadyToAttach");
        let accepted = status.conditions.iter().filter(|it| *it.kind == *"Accepted");
        for condition in accepted.chain(rehearsed.filter(|it| is_about_this(it))) {
            let why = if condition.message.is_empty() { &condition.reason } else { &condition.message };
            let says = format!(
                "the condition {} of EndpointSelector {name} is {}: {}",
                condition.kind,
                condition.status,
                why.trim_end_matches('.')
            );
            match &*condition.status {
                "True" => {}
                "False" => self.no(says),
                _ => self.not_known(says),
            }
        }
        let is_said = rehearsed.is_some_and(|it| says_ready(&it.message, &service.key.name));
        let is_judged = is_said || rehearsed.is_some_and(|it| *it.status != *"True" && is_about_this(it));
        if !is_judged {
            self.not_known(format!(
                "the condition ReadyToAttach of EndpointSelector {name} says nothing about this Service yet"
            ));
        }
        is_said
    }

    fn look_at_pods(
        &mut self,
        objects: &Objects,
        service: &Service,
        (name, selection): (&Text, Selection<'_>),
        now: Timestamp,
    ) {
        let namespace = &service.key.namespace;
        let lives = |pod: &Arc<Pod>| !pod.is_terminal();
        let mut pods = selection.pods(objects, namespace);
        pods.retain(lives);
        let leads = Leads::of(objects, selection, &pods, objects.slices_of(&service.key), now);
        let publishes_all = service.publish_not_ready_addresses;
        let is_chosen = |pod: &Pod| leads.as_ref().is_none_or(|leads| leads.chooses(pod));
        let is_ready =
            |pod: &&Arc<Pod>| publishes_all || pod.is_ready() && !pod.is_terminating() && is_chosen(pod);
        (self.pods, self.ready) = (pods.len(), pods.iter().filter(is_ready).count());
        let selected = service.selector.as_ref().map(|it| objects.selected(namespace, it));
        let present: Vec<Arc<Pod>> = selected.into_iter().flatten().filter(lives).collect();
        let [then, today]: [BTreeSet<&Text>; 2] =
            [&pods, &present].map(|pods| pods.iter().map(|pod| &pod.key.name).collect());
        self.coming = Moving::of(then.difference(&today).copied());
        self.going = Moving::of(today.difference(&then).copied());
        let nobody = leads.as_ref().and_then(Leads::without_leader);
        let is_known = leads
            .as_ref()
            .is_none_or(|it| nobody.is_some() || !it.pods.is_empty() || it.role() == Role::Follower);
        let leader = leads.as_ref().filter(|it| it.role() == Role::Follower).and_then(|it| it.pods.first());
        // The status of the EndpointSelector may say the same.
        let is_told = |words: &str| {
            let says = format!("EndpointSelector {name} selects {words}");
            self.obstacles.iter().any(|obstacle| obstacle.ends_with(&says))
        };
        match (self.pods, self.ready, nobody, leader) {
            (0, ..) if is_told("no pod") => {}
            (1.., 0, ..) if is_told("no pod that is ready") => {}
            (0, ..) => self.no(format!("EndpointSelector {name} selects no pod")),
            (_, 0, ..) if !is_known => {
                self.not_known(format!("nobody knows who leads the pods of EndpointSelector {name}"));
            }
            (_, 0, Some(leads), _) => self.no(leads.to_string()),
            (_, 0, None, Some(pod)) => {
                self.no(format!("EndpointSelector {name} selects no ready pod beside {pod}, which leads"));
            }
            (1, 0, ..) => self.no(format!("the pod that EndpointSelector {name} selects is not ready")),
            (all, 0, ..) => {
                self.no(format!("none of the {all} pods that EndpointSelector {name} selects is ready"));
            }
            _ => {}
        }
    }

    /// Looks for slices and Endpoints that a take-over would keep, because no controller made them.
    /// A controller that says that the Service is ready may know more field managers.
    fn look_at_outputs(&mut self, objects: &Objects, service: &Service, is_said: bool) {
        let is_known = |keep: &Keep| is_said && matches!(keep, Keep::Uncertain(_));
        for slice in objects.slices_of(&service.key) {
            if let Some(keep) = objects.slice_stays(&slice.key())
                && slice.is_managed_by(ENDPOINTSLICE_CONTROLLER)
                && !is_known(keep)
            {
                self.no(format!("slice {} would stay, since {keep} wrote it", slice.metadata.name));
            }
        }
        // Nobody mirrors the lock of a leader election.
        if objects.endpoints_of(&service.key).is_some()
            && !objects.endpoints_stay(&service.key).is_some_and(|keep| *keep == Keep::Lock || is_known(keep))
            && !made_by_controller(objects, &service.key)
        {
            let by = objects.endpoints_writes.get(&service.key).map_or("somebody", |write| &*write.by);
            self.no(format!("the Endpoints would stay, and be mirrored, since {by} wrote them"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::says_ready;

    #[test]
    fn only_services_of_a_list_are_ready() {
        let all = "take spec.selector out of Service api, shop and 3 more";
        let some = "Service db: no quota, and more; 2 more are not ready either; ready to attach: api, shop and 3 more";
        for message in [all, some] {
            assert!(says_ready(message, "api") && says_ready(message, "shop"), "{message}");
            for other in ["a", "db", "and", "more", "of", "quota", ""] {
                assert!(!says_ready(message, other), "{message}: {other}");
            }
        }
        assert!(says_ready(all, "web"), "it sorts after the names");
        assert!(!says_ready(some, "web"));
        assert!(!says_ready("Service web: no pod is ready", "web"));
    }
}
