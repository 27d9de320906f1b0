//! The pods that the readiness of an EndpointSelector chooses, and the events about a Service that
//! nobody leads.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_controller_runtime::{Cause, SyncError};
use kube_endpoint_core_model::lease::{DEFAULT_DURATION, Named, named};
use kube_endpoint_core_model::readiness::{NobodyLeads, chosen_pods_in, left_out_in};
use kube_endpoint_core_model::{
    EndpointSelector, Lease, ObjectKey, PlannedEvent, Pod, Readiness, ReadyPods, ResourceVersion, Role,
    Service, Text, Timestamp, harmless,
};
use tokio::time::Instant;

use super::conditions::{Holder, HolderFinding, LONGEST_IDENTITY};
use super::leases::{Standing, lease_of};
use super::{Runtime, SelectorReconciler};

/// The pods that may be ready endpoints.
pub(super) struct Choice {
    /// `None` if all may.
    pub(super) ready_pods: Option<ReadyPods>,
    /// `None` if nobody knows better than before.
    pub(super) leadership: Option<Leadership>,
    /// The error of a read on which that depends: until a retry succeeds, the leader stays.
    pub(super) error: Option<SyncError>,
}

/// Who leads the pods of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Leadership {
    /// No sync has found it out, or the Service follows no leader, or has no pods.
    #[default]
    Unsaid,
    /// The ready endpoints stay until the holder of the Lease proves that it lives.
    Awaited {
        lease: Text,
        at_most: Patience,
    },
    Somebody,
    /// The sentence says why.
    Nobody(String),
}

/// How long ready endpoints stay while nobody knows who leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// As long as a record of the Lease counts.
    For(Duration),
    /// Until the Leases of the namespace can be read.
    UntilRead,
}

/// The pods that a Lease tells.
enum Found {
    /// This one leads.
    Led(Text),
    /// Nobody knows yet who leads. By the slices, these were chosen, or this one has led and is no
    /// follower.
    Published(Vec<Text>),
    /// The sentence says why.
    Nobody(String),
}

impl Found {
    /// Returns the pods that may be ready endpoints.
    fn ready_pods(self, role: Role) -> ReadyPods {
        match self {
            Self::Led(pod) => role.beside(Some(pod)),
            Self::Nobody(_) => role.beside(None),
            Self::Published(mut names) if names.len() < 2 => role.beside(names.pop()),
            Self::Published(names) => ReadyPods::Kept(names.into()),
        }
    }
}

/// The pod that the identity of a holder named when a sync saw it first.
#[derive(Debug, PartialEq)]
pub(super) struct NamedPod {
    identity: Text,
    uid: Text,
    started: Option<Timestamp>,
    /// The version of the Lease at which another pod of the same name came, or another process, or
    /// at which the record of a new holder was older than its processes. The pod leads when the
    /// Lease has changed since.
    replaced_at: Option<ResourceVersion>,
}

impl NamedPod {
    fn new(identity: &Text, pod: &Pod) -> Self {
        let (identity, uid) = (identity.clone(), pod.uid.clone());
        Self { identity, uid, started: pod.started(), replaced_at: None }
    }

    /// Returns true if a pod leads that the identity names now. `is_older` is true if the record is
    /// older than its processes.
    fn leads(&mut self, (identity, version): (&Text, ResourceVersion), pod: &Pod, is_older: bool) -> bool {
        let is_new = self.identity != *identity;
        let leads = match self.replaced_at {
            _ if is_new => !is_older,
            Some(at) => at != version,
            None => self.uid == pod.uid && (self.started == pod.started() || !is_older),
        };
        if leads {
            *self = Self::new(identity, pod);
        }
        self.identity = identity.clone();
        self.replaced_at = (!leads).then_some(version);
        leads
    }
}

impl SelectorReconciler {
    /// Returns the pods of a Service that may be ready endpoints.
    pub(super) async fn choose(
        &self,
        runtime: &Runtime,
        service: &Service,
        selector: &EndpointSelector,
    ) -> Choice {
        let (role, lease) = match (&selector.readiness, lease_of(selector)) {
            (Some(Readiness::Condition { kind, pick }), _) => {
                let ready_pods = Some(ReadyPods::Condition { kind: kind.clone(), pick: *pick });
                let leadership = Some(with_condition(runtime, &service.key, kind));
                return Choice { ready_pods, leadership, error: None };
            }
            (Some(Readiness::Lease { role, .. }), Some(lease)) => (*role, lease),
            _ => return Choice { ready_pods: None, leadership: Some(Leadership::Unsaid), error: None },
        };
        let (standing, error) = self.standing(runtime, &lease).await;
        let pods = runtime.cluster().pods_of(&service.key);
        let found = match &standing {
            Standing::Holder(identity, version) => {
                let chosen = self.led(runtime, &service.key, &lease, (identity, *version), &pods);
                self.recognise(selector, Some(identity), &pods, true, None);
                match chosen {
                    Ok(pod) => Found::Led(pod),
                    Err(reason) => Found::Nobody(reason),
                }
            }
            Standing::Unknown(identity) => {
                let kept = self.published(runtime, service, role, &pods);
                let is_awaited = role == Role::Leader && kept.len() > 1;
                let at_most = is_awaited.then(|| self.patience(runtime, &lease));
                self.recognise(selector, identity.as_ref(), &pods, false, at_most);
                Found::Published(kept)
            }
            Standing::Overdue => Found::Published(self.published(runtime, service, role, &pods)),
            Standing::Nobody => {
                let seen = self.leases.seen(&lease);
                // Whoever holds it next has got it since.
                runtime.with_state(&service.key, |state| {
                    state.named.iter_mut().for_each(|named| named.identity = Text::default());
                });
                self.recognise(selector, None, &pods, true, None);
                Found::Nobody(nobody(&lease.name, seen.as_deref()))
            }
        };
        let leadership = match &found {
            // It has followers, whoever leads.
            _ if role == Role::Follower || pods.is_empty() => Some(Leadership::Unsaid),
            Found::Nobody(reason) => Some(Leadership::Nobody(reason.clone())),
            Found::Led(name) => pod_named(&pods, name).map(with_pod),
            Found::Published(names) => match &names[..] {
                [] => None,
                [name] => pod_named(&pods, name).map(with_pod),
                _ => {
                    let at_most = self.patience(runtime, &lease);
                    Some(Leadership::Awaited { lease: lease.name.clone(), at_most })
                }
            },
        };
        Choice { ready_pods: Some(found.ready_pods(role)), leadership, error }
    }

    /// Returns the standing of the holder of a Lease. If the watch tells that it is overdue, this
    /// reads the Lease; it also returns the error of that.
    pub(super) async fn standing(
        &self,
        runtime: &Runtime,
        lease: &ObjectKey,
    ) -> (Standing, Option<SyncError>) {
        let standing = self.leases.standing(lease, Instant::now());
        if standing != Standing::Overdue {
            return (standing, None);
        }
        match runtime.writer().writer().lease(lease).await {
            Ok(read) => {
                let is_settled = self.is_settled(runtime.cluster(), &lease.namespace);
                let selectors = self.leases.read(lease, read, is_settled, Instant::now());
                self.add_services_of(runtime, &selectors, None);
                (self.leases.standing(lease, Instant::now()), None)
            }
            Err(refused) => {
                let error = format!("cannot read Lease {lease}: {refused}");
                (standing, Some(SyncError::new(Vec::new(), error)))
            }
        }
    }

    /// Returns the pod that leads by the record of a holder that lives.
    fn led(
        &self,
        runtime: &Runtime,
        service: &ObjectKey,
        lease: &ObjectKey,
        (identity, version): (&Text, ResourceVersion),
        pods: &[Arc<Pod>],
    ) -> Result<Text, String> {
        let pod = by_identity(&lease.name, identity, pods)?;
        let seen = self.leases.seen(lease);
        let is_older = seen.is_some_and(|seen| seen.record.is_older_than(pod.started()));
        let (leads, is_another) = runtime.with_state(service, |state| {
            let named = state.named.get_or_insert_with(|| NamedPod::new(&Text::default(), pod));
            let is_another = named.uid != pod.uid;
            (named.leads((identity, version), pod, is_older), is_another)
        });
        if leads {
            if is_another {
                self.metrics.leader_changed();
            }
            return Ok(pod.key.name.clone());
        }
        if !self.leases.tell_next_change(lease, version) {
            runtime.add(service.clone(), Cause::Lease.since(None).urgent(true));
        }
        Err(NobodyLeads::Restarted { pod: pod.key.name.clone() }.sentence(&lease.name, identity))
    }

    /// Tells the status of a selector which holder its Lease has, and if that names a pod.
    /// `awaited` is the time for which ready endpoints stay at most until a holder is known.
    pub(super) fn recognise(
        &self,
        selector: &EndpointSelector,
        identity: Option<&Text>,
        pods: &[Arc<Pod>],
        is_proven: bool,
        awaited: Option<Patience>,
    ) {
        let seen = lease_of(selector).and_then(|lease| self.leases.seen(&lease));
        let identity = identity.filter(|identity| !identity.is_empty());
        let is_held = seen.as_ref().is_some_and(|lease| !lease.record.holder.is_empty());
        let holder = match identity {
            // Without pods, the identity can be right.
            Some(identity) => (!pods.is_empty()).then(|| Holder::of(identity, named(identity, pods))),
            None => (is_proven && !is_held).then_some(Holder::Absent),
        };
        let beyond_limit = seen.and_then(|lease| lease.record.beyond_limit());
        self.statuses.found(selector, HolderFinding { holder, is_proven, awaited, beyond_limit });
    }

    fn patience(&self, runtime: &Runtime, lease: &ObjectKey) -> Patience {
        if !runtime.cluster().has_listed_leases(&lease.namespace) {
            return Patience::UntilRead;
        }
        let seen = self.leases.seen(lease);
        Patience::For(seen.map_or(DEFAULT_DURATION, |lease| lease.record.duration()))
    }

    /// Returns the pods that own slices show as chosen, if they still exist; for followers, the one
    /// that is left out, so that a new process goes on as the last one. `pods` are sorted by name,
    /// and so is the result.
    fn published(&self, runtime: &Runtime, service: &Service, role: Role, pods: &[Arc<Pod>]) -> Vec<Text> {
        let mut own = runtime.cluster().slices_of(&service.key);
        own.retain(|slice| self.is_own(slice));
        let shown = match role {
            Role::Leader => chosen_pods_in(&own),
            Role::Follower => left_out_in(&own).into_iter().collect(),
        };
        let exists = |name, uid: &Text| pod_named(pods, name).is_some_and(|pod| pod.uid == *uid);
        let shown = shown.into_iter().filter(|pod| exists(&pod.name, &pod.uid));
        shown.map(|pod| pod.name.clone()).collect()
    }

    /// Records who leads the pods of a Service, and the event about it if that is new.
    pub(super) fn leads(&self, runtime: &Runtime, service: &Arc<Service>, leadership: Option<Leadership>) {
        // All of its pods are ready endpoints.
        let leadership =
            if service.publish_not_ready_addresses { Some(Leadership::Unsaid) } else { leadership };
        let Some(leadership) = leadership else { return };
        self.metrics.leads(&service.key, &leadership);
        let before = runtime
            .with_state(&service.key, |state| std::mem::replace(&mut state.leadership, leadership.clone()));
        if before != leadership
            && let Some(event) = leadership.event(&before)
        {
            runtime.record_event(&**service, &event);
            self.has_problems.notify_one();
        }
    }
}

/// Returns the pod with a name among pods that are sorted by it.
fn pod_named<'a>(pods: &'a [Arc<Pod>], name: &Text) -> Option<&'a Pod> {
    let at = pods.binary_search_by(|pod| pod.key.name.cmp(name)).ok()?;
    pods.get(at).map(|pod| &**pod)
}

/// Returns who leads by a condition of the pods.
fn with_condition(runtime: &Runtime, service: &ObjectKey, kind: &Text) -> Leadership {
    let leads = |pod: &Pod| {
        pod.is_ready()
            && !pod.is_terminating()
            && pod.condition(kind).is_some_and(|condition| condition.is_true)
    };
    match runtime.cluster().first_pod_of(service, leads) {
        Some(_) => Leadership::Somebody,
        None if runtime.cluster().pod_count_of(service) == 0 => Leadership::Unsaid,
        None => Leadership::Nobody(NobodyLeads::NoCondition.sentence(kind, "")),
    }
}

/// Returns the pod that the identity of a holder names, or a sentence that says why it names none.
pub(super) fn by_identity<'a>(
    lease: &Text,
    identity: &Text,
    pods: &'a [Arc<Pod>],
) -> Result<&'a Arc<Pod>, String> {
    let reason = match named(identity, pods) {
        Named::Pod(pod) => return Ok(pod),
        Named::Nobody => NobodyLeads::NotRecognised,
        Named::Several => NobodyLeads::Ambiguous,
    };
    Err(reason.sentence(lease, &harmless(identity, LONGEST_IDENTITY)))
}

/// Says why nobody leads by a Lease, as it was seen last.
pub(super) fn nobody(name: &Text, seen: Option<&Lease>) -> String {
    let record = match seen.map(|seen| &seen.record) {
        None => return NobodyLeads::NotFound.sentence(name, ""),
        Some(record) if record.holder.is_empty() => return NobodyLeads::NotHeld.sentence(name, ""),
        Some(record) => record,
    };
    let seconds = record.duration().as_secs();
    let reason = NobodyLeads::NotRenewed { seconds: seconds.cast_signed() };
    let reason = reason.sentence(name, &harmless(&record.holder, LONGEST_IDENTITY));
    let beyond_limit = record.beyond_limit().map(|said| {
        format!(", the longest time for which a record counts; the Lease says {} s", said.as_secs())
    });
    format!("{reason} for {seconds} s{}", beyond_limit.unwrap_or_default())
}

/// Returns who leads if that should be this pod.
fn with_pod(pod: &Pod) -> Leadership {
    let reason = NobodyLeads::although_chosen(pod);
    reason.map_or(Leadership::Somebody, |reason| Leadership::Nobody(reason.sentence("", "")))
}

impl Leadership {
    /// Returns the event that reports it. `before` is what an earlier sync has found.
    pub(super) fn event(&self, before: &Self) -> Option<PlannedEvent> {
        match self {
            Self::Nobody(reason) => {
                Some(PlannedEvent::warning("NobodyLeads", format!("no pod leads: {reason}")))
            }
            Self::Somebody if matches!(before, Self::Nobody(_)) => {
                Some(PlannedEvent::normal("LeaderBack", "a pod leads, and its endpoint is ready"))
            }
            Self::Awaited { lease, at_most } => Some(PlannedEvent::normal(
                "LeaderAwaited",
                format!("the ready endpoints stay until the holder of Lease {lease} renews it, {at_most}"),
            )),
            Self::Unsaid | Self::Somebody => None,
        }
    }
}

impl fmt::Display for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::For(time) => write!(f, "for {} s at most", time.as_secs()),
            Self::UntilRead => f.write_str("and as long as the Leases of the namespace have not been read"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_tell_a_change() {
        let nobody = Leadership::Nobody("Lease web does not exist".into());
        let at_most = Patience::For(Duration::from_secs(15));
        let awaited = Leadership::Awaited { lease: "web".into(), at_most };
        let states = [nobody.clone(), Leadership::Somebody, awaited];
        let events = states.map(|state| state.event(&nobody).unwrap().to_string());
        insta::assert_snapshot!(events.join("\n"));
        assert!(Leadership::Somebody.event(&Leadership::Unsaid).is_none(), "nobody has missed it");
        assert!(Leadership::Unsaid.event(&nobody).is_none());
    }
}
