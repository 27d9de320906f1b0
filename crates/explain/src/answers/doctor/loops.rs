//! Judges whether the loops of kube-controller-manager are off.

use std::time::Duration;

use kube_endpoint_core_model::Timestamp;

use super::facts::{Facts, Instance};
use super::outputs::{Newest, Part};
use super::report::LoopReport;
use crate::facts::age;
use crate::facts::answer::Answer;
use crate::facts::lease::{Lease, LeaseState, SLACK, is_within};
use crate::facts::output_kind::OutputKind;

/// A write that is younger than this shows that its writer runs.
const RECENT: Duration = Duration::from_secs(600);

/// A loop of kube-controller-manager.
pub(super) struct Loop {
    pub(super) name: &'static str,
    /// Its name before Kubernetes 1.28.
    old_name: &'static str,
    kind: OutputKind,
    part: Part,
    /// The objects, in words.
    writes: &'static str,
}

pub(super) const LOOPS: [Loop; 3] = [
    Loop {
        name: "endpoints-controller",
        old_name: "endpoint",
        kind: OutputKind::Endpoints,
        part: Part::OfPods,
        writes: "Endpoints",
    },
    Loop {
        name: "endpointslice-controller",
        old_name: "endpointslice",
        kind: OutputKind::EndpointSlice,
        part: Part::OfPods,
        writes: "slices",
    },
    Loop {
        name: "endpointslice-mirroring-controller",
        old_name: "endpointslicemirroring",
        kind: OutputKind::EndpointSlice,
        part: Part::Mirrored,
        writes: "mirrored slices",
    },
];

/// The part of kube-endpoint-manager in the question who writes.
pub(super) enum Manager<'f> {
    /// These Leases have a leader.
    Leads(Vec<&'f Lease>),
    /// It does not lead, for this reason.
    Waits(String),
    NotKnown(String),
}

pub(super) fn manager(facts: &Facts, now: Timestamp) -> Manager<'_> {
    let leases = facts.leases();
    let of_manager = || leases.iter().copied().filter(|it| it.is_managers() && !facts.is_beside(it));
    let held: Vec<&Lease> = of_manager().filter(|lease| lease.state(now) == LeaseState::Held).collect();
    let (others, held): (Vec<&Lease>, Vec<&Lease>) =
        held.into_iter().partition(|lease| lease.is_held_by_other_program());
    if !held.is_empty() {
        return Manager::Leads(held);
    }
    if let Some(lease) = others.first() {
        return Manager::Waits(format!(
            "{} holds the lease {}, as in a hand-over.",
            lease.program, lease.key
        ));
    }
    if facts.leases.is_err() || facts.leases_elsewhere.is_err() {
        return Manager::NotKnown("Not all leases can be read.".to_owned());
    }
    let outputs = [&facts.slices, &facts.endpoints].into_iter().flatten();
    let newest = outputs
        .filter_map(|outputs| outputs.newest_of_manager(facts.addon_led_until()))
        .max_by_key(|newest| newest.at);
    if let Some(newest) = newest.filter(|newest| is_within(RECENT, newest.at, now)) {
        return Manager::NotKnown(format!(
            "{}, but no lease of kube-endpoint-manager is held.",
            says(&newest, "", now)
        ));
    }
    Manager::Waits(match of_manager().next() {
        Some(lease) if lease.state(now) == LeaseState::Reserved => {
            format!("The lease {} is reserved, so kube-endpoint-manager waits.", lease.key)
        }
        _ => "No lease of kube-endpoint-manager is held.".to_owned(),
    })
}

/// Returns the words about a write.
fn says(newest: &Newest, kind: &str, now: Timestamp) -> String {
    let space = if kind.is_empty() { "" } else { " " };
    let age = age::seconds(age::since(newest.at, now));
    format!("{} wrote {kind}{space}{} {age} ago", newest.writer, newest.object)
}

/// Returns true if the flag `--controllers` of a pod turns a loop on.
fn turns_on(pod: &Instance, of: &Loop) -> bool {
    let entries: Vec<&str> = pod.values("controllers").flat_map(|value| value.split(',')).collect();
    let has = |entry: &dyn Fn(&str) -> bool| entries.iter().any(|it| entry(it.trim()));
    let is_named = |name: &str| name == of.name || name == of.old_name;
    let is_off = has(&|it| it.strip_prefix('-').is_some_and(is_named));
    entries.is_empty() || has(&is_named) || (!is_off && has(&|it| it == "*"))
}

/// Returns true unless the flags of all pods of kube-endpoint-manager turn a loop off.
pub(super) fn manager_runs(facts: &Facts, of: &Loop) -> bool {
    let Ok(pods) = &facts.managers else { return true };
    pods.is_empty() || pods.iter().any(|pod| turns_on(pod, of))
}

/// Returns true if the flags of all pods of kube-endpoint-manager turn all loops off that
/// kube-controller-manager has: it serves EndpointSelectors beside it.
pub fn runs_beside<'p>(pods: impl IntoIterator<Item = &'p Instance>) -> bool {
    let mut pods = pods.into_iter().peekable();
    pods.peek().is_some() && !pods.any(|pod| LOOPS.iter().any(|of| turns_on(pod, of)))
}

/// Returns what the holder of a Lease writes, in a few words.
pub(super) fn writes(facts: &Facts, lease: &Lease, loops: &[LoopReport], now: Timestamp) -> String {
    if lease.state(now) != LeaseState::Held {
        return "nothing".to_owned();
    }
    if facts.is_beside(lease) {
        return "slices of EndpointSelectors".to_owned();
    }
    let runs: Vec<(&Loop, Answer)> = LOOPS
        .iter()
        .zip(loops)
        .map(|(of, report)| match (lease.is_upstreams(), report.is_off) {
            (false, _) => (of, if manager_runs(facts, of) { Answer::Yes } else { Answer::No }),
            (true, Answer::Yes) => (of, Answer::No),
            (true, Answer::No) => (of, Answer::Yes),
            (true, Answer::NotKnown) => (of, Answer::NotKnown),
        })
        .collect();
    let with = |wanted: Answer| runs.iter().filter(move |(_, answer)| *answer == wanted);
    let words: Vec<&str> = with(Answer::Yes).map(|(of, _)| of.writes).collect();
    match (words.as_slice(), with(Answer::NotKnown).count()) {
        ([], 0) => "no endpoints".to_owned(),
        ([], _) => "not known".to_owned(),
        (words, 0) => words.join(", "),
        (words, _) => format!("{}, others not known", words.join(", ")),
    }
}

/// Returns the Lease of kube-controller-manager if its holder stopped to renew it and nobody leads:
/// neither another controller nor one without a Lease.
pub(super) fn abandoned<'f>(facts: &'f Facts, manager: &Manager<'_>, now: Timestamp) -> Option<&'f Lease> {
    let lease = facts.leases().into_iter().find(|lease| lease.is_upstreams());
    let lease = lease.filter(|lease| lease.state(now) == LeaseState::Expired)?;
    let outputs = || [&facts.slices, &facts.endpoints].into_iter().flatten();
    let parts = [Part::OfPods, Part::Mirrored];
    let mut writes =
        outputs().flat_map(|outputs| parts.map(|part| outputs.newest_of_upstream(part))).flatten();
    let is_after = |write: Newest| lease.ends().is_none_or(|end| write.at > end);
    (matches!(manager, Manager::Waits(_)) && !writes.any(is_after)).then_some(lease)
}

/// The flags of kube-controller-manager, for one loop.
enum Flags {
    On(String),
    Off(String),
    NotKnown(String),
}

fn flags(facts: &Facts, of: &Loop, now: Timestamp) -> Flags {
    let lease = facts.leases.as_ref().ok().map(|leases| leases.iter().find(|lease| lease.is_upstreams()));
    let held = lease.map(|lease| lease.filter(|lease| lease.state(now) == LeaseState::Held));
    let Ok(pods) = &facts.upstream else {
        return Flags::NotKnown(
            "The pods of kube-controller-manager cannot be read, so its flags are not known.".to_owned(),
        );
    };
    // A pod without a command line in its specification says nothing.
    let running = pods.iter().filter(|pod| pod.started.is_some() && !pod.arguments.is_empty());
    let running: Vec<&Instance> = running.collect();
    if let Some(pod) = running.iter().find(|pod| turns_on(pod, of)) {
        return Flags::On(format!("The flags of pod {} turn it on.", pod.key));
    }
    let is_one_of_them = |lease: &Lease| {
        let host = lease.holder.rsplit_once('_').map_or(&*lease.holder, |(host, _)| host);
        running.iter().any(|pod| pod.node == host || *pod.key.name == *host)
    };
    match held {
        _ if running.is_empty() => {
            let holder = match held.flatten() {
                Some(lease) => format!(" One leads on {}.", lease.holder),
                None => String::new(),
            };
            Flags::NotKnown(format!(
                "No pod of kube-controller-manager shows its flags; it may run outside of the cluster.{holder}"
            ))
        }
        None => Flags::NotKnown(format!(
            "The flags of {} turn it off, but the lease cannot be read, so another may lead.",
            pods_in_words(&running)
        )),
        Some(Some(lease)) if !is_one_of_them(lease) => Flags::NotKnown(format!(
            "The flags of {} turn it off, but {} leads, which is none of them.",
            pods_in_words(&running),
            lease.holder
        )),
        Some(_) => Flags::Off(format!("The flags of {} turn it off.", pods_in_words(&running))),
    }
}

fn pods_in_words(pods: &[&Instance]) -> String {
    match pods {
        [pod] => format!("pod {}", pod.key),
        pods => format!("all {} pods", pods.len()),
    }
}

/// Judges the three loops.
pub(super) fn judge(facts: &Facts, now: Timestamp) -> Vec<LoopReport> {
    LOOPS.iter().map(|of| judge_one(facts, of, now)).collect()
}

fn judge_one(facts: &Facts, of: &Loop, now: Timestamp) -> LoopReport {
    let outputs = match of.kind {
        OutputKind::EndpointSlice => &facts.slices,
        OutputKind::Endpoints => &facts.endpoints,
    };
    let newest = outputs.as_ref().ok().and_then(|outputs| outputs.newest_of_upstream(of.part));
    let since = match manager(facts, now) {
        Manager::Leads(leases) => leases.iter().filter_map(|lease| lease.acquired).min(),
        _ => None,
    };
    let after = |time: Timestamp, write: &Newest| !is_within(SLACK, time, write.at) && write.at > time;
    let is_recent = |write: &&Newest| is_within(RECENT, write.at, now);
    let is_after_take_over = |write: &Newest| since.is_some_and(|since| after(since, write));
    let mut evidence = Vec::new();
    let is_off = match flags(facts, of, now) {
        Flags::On(why) => {
            evidence.push(why);
            Answer::No
        }
        Flags::Off(why) => {
            evidence.push(why);
            let started = facts.upstream.iter().flatten().filter_map(|pod| pod.started).max();
            let contradicts = |write: &&Newest| started.is_some_and(|started| after(started, write));
            match newest.as_ref().filter(contradicts) {
                Some(write) => {
                    evidence
                        .push(format!("But {}, after they started.", says(write, &of.kind.to_string(), now)));
                    Answer::No
                }
                None => Answer::Yes,
            }
        }
        Flags::NotKnown(why) => {
            evidence.push(why);
            match newest.as_ref().filter(is_recent) {
                Some(write) if since.is_none() || is_after_take_over(write) => {
                    evidence.push(format!("{}.", says(write, &of.kind.to_string(), now)));
                    return LoopReport { name: of.name, is_off: Answer::No, evidence };
                }
                _ => {}
            }
            evidence.push(old_writes(newest.as_ref(), since, is_after_take_over, of, outputs.is_ok(), now));
            Answer::NotKnown
        }
    };
    LoopReport { name: of.name, is_off, evidence }
}

/// Returns what the writes say that prove nothing.
fn old_writes(
    newest: Option<&Newest>,
    since: Option<Timestamp>,
    is_after_take_over: impl Fn(&Newest) -> bool,
    of: &Loop,
    is_read: bool,
    now: Timestamp,
) -> String {
    let kind = of.kind.to_string();
    match (newest, since) {
        _ if !is_read => format!("The {kind} objects cannot be read."),
        (Some(write), _) if is_after_take_over(write) => {
            format!(
                "{}, after kube-endpoint-manager had begun to lead: it was on then.",
                says(write, &kind, now)
            )
        }
        (_, Some(since)) => format!(
            "In the objects that were read it wrote nothing since kube-endpoint-manager leads ({}).",
            age::seconds(age::since(since, now))
        ),
        (Some(write), None) => {
            format!("{}. That says nothing about now.", says(write, &kind, now))
        }
        (None, None) => "No object that was read is one that it wrote.".to_owned(),
    }
}
