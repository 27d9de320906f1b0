//! The conditions in the status of an EndpointSelector: accepted or not, if those of its Services
//! that rehearse can be attached, and if clients of the others get what it selects. They hold no
//! numbers of pods, so a change of a pod costs no second write.

use std::time::Duration;

use kube_endpoint_core_model::endpoint_selector::Condition;
use kube_endpoint_core_model::lease::{LONGEST_DURATION, Named};
use kube_endpoint_core_model::time::rfc3339;
use kube_endpoint_core_model::{
    EndpointSelector, ObjectKey, PlannedEvent, Readiness, Role, Timestamp, harmless,
};
use serde_json::{Value, json};

use super::leader::Patience;
use super::rehearsal::{Rehearsed, Verdict};

/// The condition that says if the controller uses a selector.
const ACCEPTED: &str = "Accepted";
/// The condition that says if the clients of its Services get what it selects.
const PUBLISHED: &str = "Published";
/// The condition that says if the Services that still have a selector of their own can lose it.
const READY_TO_ATTACH: &str = "ReadyToAttach";
/// All of these.
const KINDS: [&str; 3] = [ACCEPTED, PUBLISHED, READY_TO_ATTACH];
/// The reasons of [`ACCEPTED`] for a selector that names a Lease.
const RECOGNISED: &str = "HolderRecognised";
const NOT_RECOGNISED: &str = "HolderNotRecognised";
/// The most characters of an identity in a message.
pub(super) const LONGEST_IDENTITY: usize = 100;
/// The most characters of a message. The API server refuses one of more than 32,768 bytes.
const LONGEST_MESSAGE: usize = 1000;
/// The holder of the Lease that a selector names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// Its identity has named a pod.
    Recognised { identity: String },
    /// There is none now, and none has named a pod so far.
    Absent,
    /// Its identity names no pod, or several.
    NotRecognised { identity: String, names_several: bool },
}

/// The finding of a sync about the Lease that a selector names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HolderFinding {
    /// `None` if the sync cannot tell.
    pub(super) holder: Option<Holder>,
    /// True if the standing of the holder is known: it lives, or nobody leads.
    pub(super) is_proven: bool,
    /// How long ready endpoints stay at most, until the standing is known.
    pub(super) awaited: Option<Patience>,
    /// The duration that the Lease says, if a record counts for less.
    pub(super) beyond_limit: Option<Duration>,
}

impl Holder {
    pub(super) fn of(identity: &str, named: Named<'_>) -> Self {
        let identity = harmless(identity, LONGEST_IDENTITY).into_owned();
        match named {
            Named::Pod(_) => Self::Recognised { identity },
            Named::Nobody | Named::Several => {
                Self::NotRecognised { identity, names_several: named == Named::Several }
            }
        }
    }
}

impl HolderFinding {
    /// Adds a later finding to this one.
    pub(super) fn then(&self, later: Self) -> Self {
        let keeps = match (&self.holder, &later.holder) {
            (_, None) | (Some(Holder::Recognised { .. }), Some(Holder::Absent)) => true,
            // A pod may be gone before the Lease that it held has expired.
            (Some(Holder::Recognised { identity: before }), Some(Holder::NotRecognised { identity, .. })) => {
                before == identity || !later.is_proven
            }
            _ => false,
        };
        let awaited = later.awaited.or(self.awaited.filter(|_| !later.is_proven));
        let (holder, is_proven) =
            if keeps { (self.holder.clone(), self.is_proven) } else { (later.holder, later.is_proven) };
        Self { holder, is_proven, awaited, beyond_limit: later.beyond_limit }
    }

    /// Returns the message of a condition that is true.
    fn note(&self) -> String {
        let awaited = self
            .awaited
            .map(|at_most| format!("the ready endpoints stay until a holder renews the Lease, {at_most}"));
        let limit = self.beyond_limit.map(|said| {
            let counts = LONGEST_DURATION.as_secs();
            format!("the Lease says {} s, and a record counts for {counts} s at most", said.as_secs())
        });
        let notes: Vec<String> = awaited.into_iter().chain(limit).collect();
        notes.join("; ")
    }

    /// Returns the message about a holder whose identity names no pod, or several.
    fn refusal(&self, identity: &str, names_several: bool, role: Role) -> String {
        let names = if names_several { "several" } else { "none" };
        let effect = match (role, self.awaited) {
            (Role::Follower, _) => "the leader is a ready endpoint, too".to_owned(),
            (Role::Leader, Some(at_most)) => format!("the ready endpoints stay {at_most}"),
            (Role::Leader, None) => "no endpoint is ready".to_owned(),
        };
        format!(
            "the Lease has the holder \"{identity}\", which names {names} of the selected pods, so {effect}; the name, \
             hostname, uid or an address of the pod has to be a part of the identity, as in \"POD-NAME_SUFFIX\""
        )
    }
}

/// Returns the condition that says if a selector is used. `found` is what syncs of this process
/// have found out.
pub(super) fn accepted(selector: &EndpointSelector, found: Option<HolderFinding>) -> Wanted {
    let accepted = |reason, message| Wanted::new(ACCEPTED, true, reason, message);
    let refused = |reason, message| Wanted::new(ACCEPTED, false, reason, message);
    if let Err(error) = &selector.selector {
        // A key of a label may have any length.
        return refused("InvalidSelector", harmless(&error.to_string(), LONGEST_MESSAGE).into_owned());
    }
    let Some(Readiness::Lease { role, .. }) = selector.readiness else {
        return accepted(ACCEPTED, String::new());
    };
    let before = condition_of(selector, ACCEPTED).filter(|_| is_observed(selector));
    let was = |reason: &str| before.is_some_and(|before| *before.reason == *reason);
    let Some(found) = found else {
        // A process before this one has found it out.
        let kept = Wanted::kept(ACCEPTED, selector).filter(|_| was(RECOGNISED) || was(NOT_RECOGNISED));
        return kept.unwrap_or_else(|| accepted(ACCEPTED, String::new()));
    };
    match &found.holder {
        Some(Holder::Recognised { .. }) => accepted(RECOGNISED, found.note()),
        // Nobody knows if this holder lives.
        Some(Holder::NotRecognised { .. }) if was(RECOGNISED) && !found.is_proven => {
            accepted(RECOGNISED, found.note())
        }
        Some(Holder::NotRecognised { identity, names_several }) => {
            refused(NOT_RECOGNISED, found.refusal(identity, *names_several, role))
        }
        Some(Holder::Absent) | None if was(RECOGNISED) => accepted(RECOGNISED, found.note()),
        None if was(NOT_RECOGNISED) => {
            refused(NOT_RECOGNISED, before.map(|before| before.message.to_string()).unwrap_or_default())
        }
        Some(Holder::Absent) | None => accepted(ACCEPTED, found.note()),
    }
}

/// Returns true if the status is about the present spec.
fn is_observed(selector: &EndpointSelector) -> bool {
    selector.status.observed_generation == Some(selector.generation)
}

fn condition_of<'a>(selector: &'a EndpointSelector, kind: &str) -> Option<&'a Condition> {
    selector.status.conditions.iter().find(|condition| *condition.kind == *kind)
}

/// A condition that a status is to have.
#[derive(Debug, PartialEq)]
pub(super) struct Wanted {
    kind: &'static str,
    status: String,
    reason: String,
    message: String,
}

impl Wanted {
    fn new(kind: &'static str, is_true: bool, reason: &str, message: String) -> Self {
        let status = if is_true { "True" } else { "False" };
        Self { kind, status: status.into(), reason: reason.into(), message }
    }

    pub(super) fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// Returns a condition of the status as it is.
    fn kept(kind: &'static str, selector: &EndpointSelector) -> Option<Self> {
        condition_of(selector, kind).map(|condition| Self {
            kind,
            status: condition.status.to_string(),
            reason: condition.reason.to_string(),
            message: condition.message.to_string(),
        })
    }
}

/// Returns the condition about the Services of a selector that are attached. Without a sync of one,
/// it is that of the status: a process before this one has found it out.
pub(super) fn published(
    selector: &EndpointSelector,
    problems: Option<Vec<(ObjectKey, PlannedEvent)>>,
) -> Option<Wanted> {
    let Some(problems) = problems else { return Wanted::kept(PUBLISHED, selector) };
    let Some((service, first)) = problems.first() else {
        return Some(Wanted::new(PUBLISHED, true, PUBLISHED, String::new()));
    };
    let more = match problems.len() - 1 {
        0 => String::new(),
        1 => " (and 1 more Service has a problem)".to_owned(),
        more => format!(" (and {more} more Services have problems)"),
    };
    let message = format!("Service {}: {}", service.name, first.message);
    let message = harmless(&message, LONGEST_MESSAGE).into_owned();
    Some(Wanted::new(PUBLISHED, false, first.reason, message + &more))
}

/// Returns the condition about the Services of a selector that rehearse.
pub(super) fn rehearsed(selector: &EndpointSelector, rehearsed: Rehearsed) -> Option<Wanted> {
    match rehearsed {
        Rehearsed::Nothing => None,
        Rehearsed::Found(Verdict { status, reason, message }) => {
            let message = harmless(&message, LONGEST_MESSAGE).into_owned();
            Some(Wanted { kind: READY_TO_ATTACH, status: status.into(), reason: reason.into(), message })
        }
        // A process before this one has found it out.
        Rehearsed::Pending if is_observed(selector) => Wanted::kept(READY_TO_ATTACH, selector),
        Rehearsed::Pending | Rehearsed::Changed => Some(Wanted {
            kind: READY_TO_ATTACH,
            status: "Unknown".into(),
            reason: "Pending".into(),
            message: "the controller looks at the Services soon".into(),
        }),
    }
}

/// Returns the merge patch that brings a status up to date, or `None` if it is.
pub(super) fn status_patch(
    selector: &EndpointSelector,
    services: i64,
    wanted: &[Wanted],
    now: Timestamp,
) -> Option<Value> {
    let is_current = |wanted: &Wanted| {
        condition_of(selector, wanted.kind).is_some_and(|condition| {
            *condition.status == *wanted.status
                && *condition.reason == *wanted.reason
                && *condition.message == *wanted.message
        })
    };
    let is_wanted = |condition: &Condition| wanted.iter().any(|wanted| *condition.kind == *wanted.kind);
    // A newer version may have more.
    let is_unknown = |condition: &Condition| !KINDS.contains(&&*condition.kind);
    if is_observed(selector)
        && selector.status.services == Some(services)
        && wanted.iter().all(is_current)
        && selector.status.conditions.iter().all(|condition| is_wanted(condition) || is_unknown(condition))
    {
        return None;
    }
    // The API has whole seconds.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let condition = |wanted: &Wanted| {
        let before = condition_of(selector, wanted.kind).filter(|before| *before.status == *wanted.status);
        let since = before.and_then(|condition| condition.last_transition_time).unwrap_or(now);
        json!({
            "type": wanted.kind,
            "status": wanted.status,
            "reason": wanted.reason,
            "message": wanted.message,
            "observedGeneration": selector.generation,
            "lastTransitionTime": rfc3339(since),
        })
    };
    let unknown = selector.status.conditions.iter().filter(|condition| is_unknown(condition)).map(|it| {
        json!({
            "type": &*it.kind,
            "status": &*it.status,
            "reason": &*it.reason,
            "message": &*it.message,
            "lastTransitionTime": it.last_transition_time.map(rfc3339),
        })
    });
    Some(json!({
        // The answer is a conflict if the selector has changed, as after a new generation.
        "metadata": {"resourceVersion": selector.resource_version.to_string()},
        "status": {
            "observedGeneration": selector.generation,
            "services": services,
            "conditions": wanted.iter().map(condition).chain(unknown).collect::<Vec<_>>(),
        },
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube_endpoint_core_model::Pod;

    use super::*;

    fn selector(spec: Value, status: Value) -> EndpointSelector {
        let metadata =
            json!({"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "generation": 2});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    /// The patch of a selector about whose Lease nothing is known.
    fn patched(selector: &EndpointSelector, services: i64, now: Timestamp) -> Option<Value> {
        status_patch(selector, services, &[accepted(selector, None)], now)
    }

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn valid() -> Value {
        json!({"selector": {"matchLabels": {"app": "web"}}})
    }

    #[test]
    fn a_status_is_written_once() {
        let now = time("2026-01-02T03:04:05Z");
        let first = patched(&selector(valid(), Value::Null), 1, now).unwrap();
        insta::assert_json_snapshot!(first);
        let written = |services| {
            let selector = selector(valid(), first["status"].clone());
            patched(&selector, services, time("2026-01-02T04:00:00Z"))
        };
        assert_eq!(written(1), None);
        let second = written(2).unwrap();
        assert_eq!(second["status"]["services"], 2);
        assert_eq!(
            second["status"]["conditions"], first["status"]["conditions"],
            "the condition is as old as before"
        );
    }

    #[test]
    fn a_rehearsal_has_a_condition_of_its_own() {
        let patched = |status: Value, rehearsed, second: &str| {
            let selector = selector(valid(), status);
            let rehearsed = super::rehearsed(&selector, rehearsed);
            let wanted: Vec<Wanted> =
                [Some(accepted(&selector, None)), rehearsed].into_iter().flatten().collect();
            status_patch(&selector, 0, &wanted, time(second)).map(|patch| patch["status"].clone())
        };
        let refused = || {
            let message = "Service web: no pod is ready".to_owned();
            Rehearsed::Found(Verdict { status: "False", reason: "NoReadyPod", message })
        };
        let first = patched(Value::Null, refused(), "2026-01-02T03:04:05Z").unwrap();
        insta::assert_json_snapshot!(first["conditions"][1]);
        let later = "2026-01-02T04:00:00Z";
        assert_eq!(patched(first.clone(), refused(), later), None);
        // Another process has not looked yet.
        assert_eq!(patched(first.clone(), Rehearsed::Pending, later), None);
        // The finding is about the selector before its change.
        let changed = patched(first.clone(), Rehearsed::Changed, later).unwrap();
        assert_eq!(changed["conditions"][1]["status"], "Unknown");
        let without = patched(first, Rehearsed::Nothing, later).unwrap();
        assert_eq!(without["conditions"].as_array().unwrap().len(), 1);
        assert_eq!(without["conditions"][0]["lastTransitionTime"], "2026-01-02T03:04:05Z");
    }

    #[test]
    fn an_invalid_selector_is_not_accepted() {
        let now = time("2026-01-02T03:04:05Z");
        let accepted = patched(&selector(valid(), Value::Null), 1, time("2026-01-01T00:00:00Z")).unwrap();
        let patch = patched(&selector(json!({}), accepted["status"].clone()), 0, now).unwrap();
        insta::assert_json_snapshot!(patch["status"]);
    }

    #[test]
    fn a_new_generation_is_observed() {
        let now = time("2026-01-02T03:04:05Z");
        let mut status = patched(&selector(valid(), Value::Null), 1, now).unwrap()["status"].clone();
        status["observedGeneration"] = json!(1);
        let patch = patched(&selector(valid(), status), 1, time("2026-01-03T00:00:00Z")).unwrap();
        assert_eq!(patch["status"]["observedGeneration"], 2);
        assert_eq!(patch["status"]["conditions"][0]["lastTransitionTime"], "2026-01-02T03:04:05Z");
    }

    #[test]
    fn the_holder_of_a_lease_is_recognised_once() {
        let now = time("2026-01-02T03:04:05Z");
        let spec =
            || json!({"selector": {"matchLabels": {"app": "web"}}, "readiness": {"lease": {"name": "web"}}});
        let finding =
            |holder, is_proven| HolderFinding { holder: Some(holder), is_proven, ..Default::default() };
        let unknown = |is_proven| finding(Holder::of("host-7_6bb9", Named::Nobody), is_proven);
        let pod = Arc::new(Pod::default());
        let recognised = || finding(Holder::of("a_6bb9", Named::Pod(&pod)), true);
        let reason = |status: &Value, found: Option<HolderFinding>| {
            accepted(&selector(spec(), status.clone()), found).reason
        };
        assert_eq!(reason(&Value::Null, None), "Accepted");
        let refused = {
            let selector = selector(spec(), Value::Null);
            let accepted = super::accepted(&selector, Some(unknown(true)));
            status_patch(&selector, 1, &[accepted], now).unwrap()["status"].clone()
        };
        insta::assert_json_snapshot!(refused);
        // After a restart, until a sync has seen the holder.
        assert_eq!(reason(&refused, None), "HolderNotRecognised");
        assert_eq!(reason(&refused, Some(finding(Holder::Absent, true))), "Accepted", "it has left");
        assert_eq!(reason(&refused, Some(recognised())), "HolderRecognised");
        let mut known = refused;
        known["conditions"][0]["reason"] = json!("HolderRecognised");
        assert_eq!(reason(&known, None), "HolderRecognised");
        assert_eq!(reason(&known, Some(finding(Holder::Absent, true))), "HolderRecognised");
        assert_eq!(reason(&known, Some(unknown(false))), "HolderRecognised", "it may be dead");
        assert_eq!(reason(&known, Some(unknown(true))), "HolderNotRecognised");
        // Another generation may name another Lease.
        known["observedGeneration"] = json!(1);
        assert_eq!(reason(&known, Some(unknown(false))), "HolderNotRecognised");
        let several = finding(Holder::of("a_b", Named::Several), true);
        let several = accepted(&selector(spec(), Value::Null), Some(several));
        assert!(several.message.contains("names several of the selected pods"), "{}", several.message);
        let mut of_followers = spec();
        of_followers["readiness"]["lease"]["role"] = json!("Follower");
        let stranger = accepted(&selector(of_followers, Value::Null), Some(unknown(true)));
        assert!(stranger.message.contains("so the leader is a ready endpoint, too"), "{}", stranger.message);
    }

    #[test]
    fn a_stranger_after_a_recognised_holder_is_told_if_it_lives() {
        let pod = Arc::new(Pod::default());
        let finding = |identity: &str, named: Named<'_>, is_proven| HolderFinding {
            holder: Some(Holder::of(identity, named)),
            is_proven,
            ..Default::default()
        };
        let recognised = HolderFinding::default().then(finding("a_1", Named::Pod(&pod), true));
        let then = |later: HolderFinding| recognised.then(later).holder.unwrap();
        let is_recognised = |holder: Holder| matches!(holder, Holder::Recognised { .. });
        assert!(is_recognised(then(finding("a_1", Named::Nobody, true))), "its pod is gone");
        assert!(is_recognised(then(finding("x_2", Named::Nobody, false))), "nobody knows if it lives");
        assert!(is_recognised(then(HolderFinding { is_proven: true, ..Default::default() })));
        assert!(!is_recognised(then(finding("x_2", Named::Nobody, true))));
        assert!(is_recognised(then(finding("b_2", Named::Pod(&pod), true))));
    }

    #[test]
    fn a_status_says_what_waits_and_what_is_limited() {
        let spec =
            json!({"selector": {"matchLabels": {"app": "web"}}, "readiness": {"lease": {"name": "web"}}});
        let selector = selector(spec, Value::Null);
        let pod = Arc::new(Pod::default());
        let waiting = HolderFinding::default().then(HolderFinding {
            awaited: Some(Patience::For(Duration::from_secs(15))),
            beyond_limit: Some(Duration::from_secs(100_000)),
            ..Default::default()
        });
        let message = |found: &HolderFinding| accepted(&selector, Some(found.clone())).message;
        insta::assert_snapshot!(message(&waiting));
        // Another Service of the selector, which has no endpoints to keep.
        assert_eq!(
            waiting.then(HolderFinding { beyond_limit: waiting.beyond_limit, ..Default::default() }),
            waiting
        );
        let holder = Some(Holder::of("a_1", Named::Pod(&pod)));
        let proven = waiting.then(HolderFinding { holder, is_proven: true, ..Default::default() });
        assert_eq!(message(&proven), "");
        let stranger = Some(Holder::of("x_1", Named::Nobody));
        let stranger = waiting.then(HolderFinding { holder: stranger, ..Default::default() });
        assert!(
            message(&stranger).contains("the ready endpoints stay for 15 s at most"),
            "{}",
            message(&stranger)
        );
    }

    #[test]
    fn a_long_identity_is_shortened() {
        let Holder::NotRecognised { identity, .. } = Holder::of(&"x\n".repeat(300_000), Named::Nobody) else {
            panic!("it is recognised");
        };
        let message = HolderFinding::default().refusal(&identity, false, Role::Leader);
        assert!(message.len() < 600, "{}", message.len());
    }

    #[test]
    fn a_problem_of_a_service_is_a_condition_until_it_is_solved() {
        let selector = selector(valid(), Value::Null);
        let held = PlannedEvent::warning("TakeOverHeld", "no endpoint is ready");
        let problem = |name: &str| (ObjectKey::new("shop", name), held.clone());
        let wanted = |problems| published(&selector, problems);
        assert_eq!(wanted(None), None);
        assert_eq!(wanted(Some(vec![])), Some(Wanted::new(PUBLISHED, true, "Published", String::new())));
        let both = wanted(Some(vec![problem("api"), problem("web")]));
        let message = "Service api: no endpoint is ready (and 1 more Service has a problem)".to_owned();
        assert_eq!(both, Some(Wanted::new(PUBLISHED, false, "TakeOverHeld", message)));
        // A condition of the previous process stays until this one has judged the Services.
        let wanted = [accepted(&selector, None), both.unwrap()];
        let patch = status_patch(&selector, 1, &wanted, time("2026-01-02T03:04:05Z")).unwrap();
        let again = self::selector(valid(), patch["status"].clone());
        let [_, before] = wanted;
        assert_eq!(published(&again, None), Some(before));
    }
}
