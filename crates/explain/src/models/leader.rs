//! Finds out which pods the readiness of an EndpointSelector chooses, and why it chooses none.

use std::fmt;
use std::sync::Arc;

use kube_endpoint_core_model::endpoint_selector::Condition;
use kube_endpoint_core_model::lease::{Named, Record, named};
use kube_endpoint_core_model::readiness::{Chosen, NobodyLeads, chosen_pods_in, left_out_in};
use kube_endpoint_core_model::well_known::SELECTOR_CONTROLLER;
use kube_endpoint_core_model::{
    EndpointSelector, EndpointSlice, Lease, ObjectKey, Pick, Pod, Readiness, ReadyPods, Role, Text,
    Timestamp, harmless,
};
use serde::Serialize;

use crate::facts::age;
use crate::facts::details::write_optional_time;
use crate::facts::objects::Objects;
use crate::models::selection::{Selection, names_selector};

/// The most characters of an identity in a sentence.
const LONGEST_IDENTITY: usize = 100;

/// The most characters of a status in a sentence.
const LONGEST_NOTE: usize = 200;

/// The beginning of what a status says if ready endpoints stay until a leader is known.
const AWAITED: &str = "the ready endpoints stay until a holder renews the Lease, ";

/// The choice of an EndpointSelector's readiness. Prints as a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Leads {
    #[serde(flatten)]
    pub by: LeadsBy,
    /// The pods that lead, by name. They may be ready endpoints, unless the Service has the
    /// followers.
    pub pods: Vec<Text>,
    /// The number of the other pods, if these may be ready endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub followers: Option<usize>,
    /// Since when the only one of them leads, or nobody does, by the clock of the writer.
    #[serde(serialize_with = "write_optional_time", skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The last renewal of the Lease, if it is so old that the leader may be gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overdue: Option<Overdue>,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nobody: Option<NobodyLeads>,
    /// The pods that stay until the controller knows who leads, if it does not yet.
    #[serde(skip)]
    pub(crate) awaited: Option<Awaited>,
    /// True if a pod holds the Lease, and the status of the EndpointSelector shows that its
    /// controller does not know it.
    #[serde(skip)]
    pub(crate) is_unseen: bool,
}

/// The pods that stay ready endpoints until the controller knows who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Awaited {
    pods: Vec<Text>,
    /// The words of the status of the EndpointSelector.
    said: String,
}

impl Awaited {
    /// Reads the status of an EndpointSelector. The slices show `pods` as chosen.
    fn of(selector: &EndpointSelector, pods: Vec<Text>) -> Option<Self> {
        let mut notes = accepted(selector)?.message.split("; ");
        let note = notes.find(|note| note.starts_with(AWAITED))?;
        (pods.len() > 1).then(|| Self { pods, said: harmless(note, LONGEST_NOTE).into_owned() })
    }
}

/// A Lease whose holder has not renewed it for more than two thirds of its duration, which is the
/// longest pause of client-go's clients with usual settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Overdue {
    /// The age of the last renewal.
    pub seconds: i64,
    pub duration_seconds: i64,
}

impl Overdue {
    /// A controller that starts gives the holder the whole duration again. Clocks differ if the
    /// renewal is older than that.
    fn of(seconds: i64, duration_seconds: i64) -> Option<Self> {
        let longest = duration_seconds.saturating_mul(2);
        let is_overdue = seconds.saturating_mul(3) > longest && seconds <= longest;
        is_overdue.then_some(Self { seconds, duration_seconds })
    }
}

/// How the pods are chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum LeadsBy {
    Lease {
        name: Text,
        /// The identity of the holder, shortened; empty without one.
        holder: String,
        /// The last renewal, by the clock of the holder.
        #[serde(serialize_with = "write_optional_time")]
        renewed: Option<Timestamp>,
    },
    /// The Lease could not be read, and the pods are those that the slices show.
    UnreadLease { name: Text },
    Condition {
        kind: Text,
        /// True if only the pod is chosen whose condition changed last.
        newest: bool,
    },
}

impl Leads {
    /// Returns what a selection chooses among these pods. Returns `None` without readiness.
    pub(crate) fn of(
        objects: &Objects,
        selection: Selection<'_>,
        pods: &[Arc<Pod>],
        slices: &[Arc<EndpointSlice>],
        now: Timestamp,
    ) -> Option<Self> {
        let Selection::Attached { object, .. } = selection else { return None };
        match object.readiness.as_ref()? {
            Readiness::Lease { name, role } => {
                Some(Self::by_lease(objects, object, (name, *role), pods, slices, now))
            }
            Readiness::Condition { kind, pick } => {
                Some(Self::by_condition(objects, (kind, *pick), pods, slices))
            }
        }
    }

    fn by_lease(
        objects: &Objects,
        selector: &EndpointSelector,
        (name, role): (&Text, Role),
        pods: &[Arc<Pod>],
        slices: &[Arc<EndpointSlice>],
        now: Timestamp,
    ) -> Self {
        let key = ObjectKey { namespace: selector.key.namespace.clone(), name: name.clone() };
        let published = published(slices, role, pods);
        let followers = |leader: Option<&Text>| {
            let follows = |pod: &&Arc<Pod>| !pod.is_terminal() && Some(&pod.key.name) != leader;
            (role == Role::Follower).then(|| pods.iter().filter(follows).count())
        };
        if objects.unread_leases.contains(&key) {
            return Self {
                by: LeadsBy::UnreadLease { name: name.clone() },
                followers: followers(published.as_ref()),
                pods: published.into_iter().collect(),
                since: None,
                overdue: None,
                nobody: None,
                awaited: None,
                is_unseen: false,
            };
        }
        let lease = objects.named_leases.get(&key);
        let record = lease.map(|lease| lease.record.clone()).unwrap_or_default();
        let unrenewed = record.renewed.map(|renewed| age::since(renewed, now));
        let counts = i64::try_from(record.duration().as_secs()).unwrap_or(i64::MAX);
        let found = match named(&record.holder, pods) {
            // A deleted Lease expires like one that nobody renews.
            _ if lease.is_none() => match pods.iter().find(|pod| published.as_ref() == Some(&pod.key.name)) {
                Some(pod) => Ok(pod),
                None => Err(NobodyLeads::NotFound),
            },
            _ if record.holder.is_empty() => Err(NobodyLeads::NotHeld),
            Named::Nobody => Err(NobodyLeads::NotRecognised),
            Named::Several => Err(NobodyLeads::Ambiguous),
            // Clocks may differ, so the time of a renewal only explains why the slices lack the
            // holder.
            Named::Pod(pod)
                if published.as_ref() != Some(&pod.key.name)
                    && NobodyLeads::although_chosen(pod).is_none() =>
            {
                match unrenewed.filter(|seconds| *seconds > counts) {
                    Some(seconds) => Err(NobodyLeads::NotRenewed { seconds }),
                    None if restarted(objects, pod, &record).is_some() => {
                        Err(NobodyLeads::Restarted { pod: pod.key.name.clone() })
                    }
                    None => Ok(pod),
                }
            }
            Named::Pod(pod) => Ok(pod),
        };
        let pod = found.as_ref().ok();
        Self {
            since: match &found {
                Ok(pod) if role == Role::Leader => since(objects, pod, record.acquired),
                Err(NobodyLeads::NotHeld) => record.renewed,
                Err(NobodyLeads::Restarted { pod }) => {
                    let pod = pods.iter().find(|it| it.key.name == *pod);
                    pod.and_then(|pod| restarted(objects, pod, &record))
                }
                Err(NobodyLeads::NotRenewed { .. }) => {
                    record.renewed.and_then(|renewed| renewed.saturating_add(record.duration()).ok())
                }
                _ => record.acquired,
            },
            overdue: unrenewed
                .filter(|_| pod.is_some() && role == Role::Leader)
                .and_then(|seconds| Overdue::of(seconds, counts)),
            nobody: match &found {
                Err(reason) => Some(reason.clone()),
                Ok(pod) => NobodyLeads::although_chosen(pod).filter(|_| role == Role::Leader),
            },
            followers: followers(pod.map(|pod| &pod.key.name)),
            is_unseen: lease.is_some()
                && found.is_ok()
                && accepted(selector).is_some_and(|it| *it.status == *"True" && *it.reason == *"Accepted"),
            awaited: (role == Role::Leader).then(|| Awaited::of(selector, chosen(slices, pods))).flatten(),
            pods: pod.into_iter().map(|pod| pod.key.name.clone()).collect(),
            by: LeadsBy::Lease {
                name: name.clone(),
                holder: harmless(&record.holder, LONGEST_IDENTITY).into_owned(),
                renewed: record.renewed,
            },
        }
    }

    fn by_condition(
        objects: &Objects,
        (kind, pick): (&Text, Pick),
        pods: &[Arc<Pod>],
        slices: &[Arc<EndpointSlice>],
    ) -> Self {
        let ready_pods = ReadyPods::Condition { kind: kind.clone(), pick };
        let all: Vec<&Pod> = pods.iter().map(|pod| &**pod).filter(|pod| !pod.is_terminal()).collect();
        let chosen = ready_pods.among(&all, slices);
        let chosen: Vec<&Pod> = all.iter().copied().filter(|pod| chosen.has(pod)).collect();
        let any_ready = chosen.iter().any(|pod| pod.is_ready() && !pod.is_terminating());
        let with_condition = || all.iter().find(|pod| Chosen::WithCondition(kind).has(pod));
        Self {
            since: match chosen.as_slice() {
                [one] => since(objects, one, one.condition(kind).and_then(|it| it.last_transition)),
                _ => None,
            },
            overdue: None,
            nobody: match with_condition() {
                _ if any_ready => None,
                Some(pod) => NobodyLeads::although_chosen(pod),
                None => Some(NobodyLeads::NoCondition),
            },
            pods: chosen.iter().map(|pod| pod.key.name.clone()).collect(),
            followers: None,
            awaited: None,
            is_unseen: false,
            by: LeadsBy::Condition { kind: kind.clone(), newest: pick == Pick::Newest },
        }
    }

    /// Returns the input of the plan.
    pub(crate) fn ready_pods(&self) -> ReadyPods {
        if let Some(awaited) = &self.awaited {
            return ReadyPods::Kept(awaited.pods.clone().into());
        }
        match &self.by {
            LeadsBy::Lease { .. } | LeadsBy::UnreadLease { .. } => {
                self.role().beside(self.pods.first().cloned())
            }
            LeadsBy::Condition { kind, newest } => {
                let pick = if *newest { Pick::Newest } else { Pick::All };
                ReadyPods::Condition { kind: kind.clone(), pick }
            }
        }
    }

    /// Returns the name of the Lease.
    pub(crate) fn lease(&self) -> Option<&Text> {
        match &self.by {
            LeadsBy::Lease { name, .. } | LeadsBy::UnreadLease { name } => Some(name),
            LeadsBy::Condition { .. } => None,
        }
    }

    /// Returns which pods the Service has.
    pub(crate) fn role(&self) -> Role {
        if self.followers.is_some() { Role::Follower } else { Role::Leader }
    }

    /// Returns the leadership if the Service needs a leader and none is ready.
    pub(crate) fn without_leader(&self) -> Option<&Self> {
        Some(self).filter(|it| it.nobody.is_some() && it.role() == Role::Leader)
    }

    /// Returns true if a pod may be a ready endpoint.
    pub(crate) fn chooses(&self, pod: &Pod) -> bool {
        if let Some(awaited) = &self.awaited {
            return awaited.pods.contains(&pod.key.name);
        }
        self.pods.contains(&pod.key.name) == (self.role() == Role::Leader)
    }

    /// Returns the reason why a pod that is ready is no ready endpoint.
    pub(crate) fn against(&self, pod: &Pod) -> NotChosen {
        match &self.by {
            LeadsBy::Lease { name, .. } | LeadsBy::UnreadLease { name } if self.followers.is_some() => {
                NotChosen::Leader { lease: name.clone() }
            }
            LeadsBy::Lease { name, .. } | LeadsBy::UnreadLease { name } => match self.nobody {
                Some(_) => NotChosen::NobodyLeads { lease: name.clone() },
                None => NotChosen::NotTheHolder { lease: name.clone() },
            },
            LeadsBy::Condition { kind, .. } => {
                let has = pod.condition(kind).is_some_and(|condition| condition.is_true);
                match self.pods.first().filter(|_| has) {
                    Some(newest) => {
                        NotChosen::NotTheNewest { condition: kind.clone(), newest: newest.clone() }
                    }
                    None => NotChosen::WithoutCondition { condition: kind.clone() },
                }
            }
        }
    }
}

/// Returns the condition that says if the controller uses an EndpointSelector, if it is about the
/// present specification.
fn accepted(selector: &EndpointSelector) -> Option<&Condition> {
    let status = &selector.status;
    let is_current = status.observed_generation.is_some_and(|seen| seen >= selector.generation);
    status.conditions.iter().find(|it| is_current && *it.kind == *"Accepted")
}

/// Returns the slices of the controller.
fn own(slices: &[Arc<EndpointSlice>]) -> Vec<Arc<EndpointSlice>> {
    slices.iter().filter(|slice| slice.is_managed_by(SELECTOR_CONTROLLER)).cloned().collect()
}

/// Returns the pods that the slices of the controller show as chosen, sorted by name.
fn chosen(slices: &[Arc<EndpointSlice>], pods: &[Arc<Pod>]) -> Vec<Text> {
    let own = own(slices);
    let exists = |name: &Text, uid: &Text| {
        pods.iter().any(|pod| pod.key.name == *name && (uid.is_empty() || pod.uid == *uid))
    };
    let shown = chosen_pods_in(&own).into_iter().filter(|pod| exists(&pod.name, &pod.uid));
    shown.map(|pod| pod.name.clone()).collect()
}

/// Returns the pod that leads by the slices of the controller: the only one that is chosen, or, of
/// followers, the only one that is left out. One that is deleted and not ready is no follower
/// either way.
fn published(slices: &[Arc<EndpointSlice>], role: Role, pods: &[Arc<Pod>]) -> Option<Text> {
    let own = own(slices);
    let is_out_anyway =
        |name: &Text| pods.iter().any(|pod| pod.key.name == *name && pod.is_terminating() && !pod.is_ready());
    let pod = match role {
        Role::Leader => match chosen_pods_in(&own)[..] {
            [pod] => Some(pod),
            _ => None,
        },
        Role::Follower => left_out_in(&own).filter(|pod| !is_out_anyway(&pod.name)),
    };
    pod.map(|pod| pod.name.clone())
}

/// Returns when a pod, or its containers, started, if that was after the last renewal of a Lease: a
/// process that is gone has renewed it.
fn restarted(objects: &Objects, pod: &Pod, record: &Record) -> Option<Timestamp> {
    let started = pod.started().max(objects.pods_changed.get(&pod.key).copied());
    started.filter(|_| record.is_older_than(started))
}

/// Returns since when a pod leads, or cannot although it should, if it was chosen at `chosen`.
fn since(objects: &Objects, pod: &Pod, chosen: Option<Timestamp>) -> Option<Timestamp> {
    match NobodyLeads::although_chosen(pod) {
        None => chosen,
        Some(NobodyLeads::Ending { .. }) => {
            objects.pods_changed.get(&pod.key).copied().filter(|deleted| Some(*deleted) > chosen)
        }
        Some(_) => pod.ready?.last_transition.map(|lost| chosen.map_or(lost, |chosen| chosen.max(lost))),
    }
}

impl fmt::Display for Leads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_leader(f)?;
        if let Some(awaited) = &self.awaited {
            write!(f, "; {}", awaited.said)?;
        }
        match self.followers {
            None => Ok(()),
            Some(1) => f.write_str("; 1 pod follows"),
            Some(all) => write!(f, "; {all} pods follow"),
        }
    }
}

impl Leads {
    fn fmt_leader(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = |f: &mut fmt::Formatter<'_>| match self.since {
            Some(since) => write!(f, " since {since}"),
            None => Ok(()),
        };
        match (&self.by, self.pods.as_slice(), &self.nobody) {
            (by, _, Some(nobody)) => write!(f, "no pod leads: {}", by.nobody(nobody)),
            (LeadsBy::UnreadLease { name }, pods, None) => {
                let pod = pods.first().map_or("no pod", |pod| &**pod);
                write!(f, "Lease {name} could not be read; the slices show that {pod} leads")
            }
            (LeadsBy::Lease { name, holder, .. }, [pod, ..], None) if holder.is_empty() => {
                write!(f, "Lease {name} does not exist; Pod {pod} leads until it expires")
            }
            (LeadsBy::Lease { name, holder, .. }, pods, None) => {
                let pod = pods.first().map(|pod| &**pod).unwrap_or_default();
                write!(f, "Pod {pod} leads: it holds Lease {name} as \"{holder}\"")?;
                since(f)?;
                let Some(&Overdue { seconds, duration_seconds }) = self.overdue.as_ref() else {
                    return Ok(());
                };
                let [seconds, duration] = [seconds, duration_seconds].map(age::seconds);
                write!(
                    f,
                    "; it may be gone: it renewed the Lease {seconds} ago, if the clocks agree, and the Lease lasts {duration}"
                )
            }
            (LeadsBy::Condition { kind, newest: true }, [pod], None) => {
                write!(f, "Pod {pod} leads: its condition {kind} is the newest")?;
                since(f)
            }
            (LeadsBy::Condition { kind, .. }, pods, None) => {
                let names: Vec<&str> = pods.iter().map(|pod| &**pod).collect();
                write!(f, "the condition {kind} is True of {}", names.join(", "))
            }
        }
    }
}

impl LeadsBy {
    /// Says why nobody leads.
    fn nobody(&self, reason: &NobodyLeads) -> String {
        let (name, holder) = match self {
            Self::Lease { name, holder, .. } => (name, &**holder),
            Self::UnreadLease { name } => (name, ""),
            Self::Condition { kind, .. } => (kind, ""),
        };
        let said = reason.sentence(name, holder);
        match reason {
            NobodyLeads::NotRenewed { seconds } => {
                format!("{said} for {}, if the clocks agree", age::seconds(*seconds))
            }
            _ => said,
        }
    }
}

/// The reason why a pod that is ready is no ready endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum NotChosen {
    /// It does not hold the Lease.
    NotTheHolder { lease: Text },
    /// No pod leads by the Lease.
    NobodyLeads { lease: Text },
    /// It leads, and the Service has the followers.
    Leader { lease: Text },
    /// Its condition is not true.
    WithoutCondition { condition: Text },
    /// Another pod with the condition is picked.
    NotTheNewest { condition: Text, newest: Text },
}

impl NotChosen {
    /// Returns a sentence that says what to do.
    pub(crate) fn advice(&self) -> String {
        match self {
            Self::NotTheHolder { .. } | Self::NobodyLeads { .. } => {
                "Nothing, if another pod should lead; else look at the pod's log: why does it not get the Lease?".to_owned()
            }
            Self::Leader { .. } => {
                "Nothing, if another pod is ready; else run more than one: the leader takes no part in this Service"
                    .to_owned()
            }
            Self::WithoutCondition { condition } | Self::NotTheNewest { condition, .. } => {
                format!("Nothing, if another pod should lead; else set the condition {condition} of the pod to True now")
            }
        }
    }
}

impl fmt::Display for NotChosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTheHolder { lease } => write!(f, "the pod does not hold Lease {lease}"),
            Self::NobodyLeads { lease } => write!(f, "no pod leads by Lease {lease}"),
            Self::Leader { lease } => {
                write!(f, "the pod holds Lease {lease}, and the Service has its followers")
            }
            Self::WithoutCondition { condition } => {
                write!(f, "the condition {condition} of the pod is not True")
            }
            Self::NotTheNewest { condition, newest } => {
                write!(f, "Pod {newest} is picked among those with the condition {condition}")
            }
        }
    }
}

impl Objects {
    /// Adds a Lease that an EndpointSelector names.
    pub fn add_lease(&mut self, lease: Arc<Lease>) {
        self.named_leases.insert(lease.key.clone(), lease);
    }

    /// Notes that a Lease could not be read: an explanation shows the leader that the slices show.
    pub fn note_lease_unread(&mut self, lease: ObjectKey) {
        self.unread_leases.insert(lease);
    }

    /// Returns the name of the Lease on which the readiness of a Service's pods depends, if any.
    pub fn lease_of(&self, service: &kube_endpoint_core_model::Service) -> Option<&Text> {
        let name = names_selector(service)?.clone();
        let key = ObjectKey { namespace: service.key.namespace.clone(), name };
        match self.endpoint_selectors.get(&key)?.readiness.as_ref()? {
            Readiness::Lease { name, .. } => Some(name),
            Readiness::Condition { .. } => None,
        }
    }
}
