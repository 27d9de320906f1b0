//! Judges whether two controllers write at once.

use kube_endpoint_core_model::Timestamp;

use super::facts::Facts;
use super::loops::{LOOPS, Manager, manager, manager_runs};
use super::report::{LoopReport, TwoAtOnce};
use crate::facts::answer::Answer;
use crate::facts::lease::{Lease, LeaseState, MANAGER_LEASE};

/// The end of the version of kube-endpoint-manager's own API server.
const EMBEDDED: &str = "+embedded";

/// Returns true if nothing shows a kube-controller-manager, although this program read everything
/// that could: its pods, its Lease, and all outputs, and kube-endpoint-manager wrote some of them.
/// Returns true for the API server of kube-endpoint-manager itself, too.
pub(super) fn is_manager_alone(facts: &Facts) -> bool {
    let (Ok(slices), Ok(endpoints)) = (&facts.slices, &facts.endpoints) else { return false };
    let has_no_pod = facts.upstream.as_ref().is_ok_and(Vec::is_empty);
    let has_no_lease =
        facts.leases.as_ref().is_ok_and(|leases| !leases.iter().any(|lease| lease.is_upstreams()));
    let wrote = [slices, endpoints].iter().any(|it| it.newest_of_manager(facts.addon_led_until()).is_some());
    has_no_pod
        && has_no_lease
        && slices.are_of_manager_alone()
        && endpoints.are_of_manager_alone()
        && (wrote || is_embedded(facts))
}

fn is_embedded(facts: &Facts) -> bool {
    facts.server.as_ref().is_ok_and(|version| version.ends_with(EMBEDDED))
}

/// Returns the words for a cluster in which [`is_manager_alone`].
fn alone(facts: &Facts) -> String {
    let server = if is_embedded(facts) {
        "The server is that of kube-endpoint-manager --embedded, and nothing"
    } else {
        "Nothing"
    };
    format!(
        "{server} shows a kube-controller-manager: it has no pod in kube-system, no lease, and wrote none of the objects."
    )
}

/// Returns true if two kube-endpoint-managers hold Leases that do not divide the cluster: Leases of
/// the same name, or one of the default name, whose holder works on all objects, beside one of a
/// part.
fn are_two_managers(leads: &[&Lease]) -> bool {
    let is_part_of = |one: &Lease, all: &Lease| {
        let part = one.key.name.strip_prefix(&*all.key.name);
        part.is_some_and(|part| part.is_empty() || part.starts_with('.'))
    };
    leads.iter().any(|all| {
        *all.key.name == *MANAGER_LEASE && leads.iter().any(|one| one.key != all.key && is_part_of(one, all))
            || leads.iter().any(|one| one.key != all.key && one.key.name == all.key.name)
    })
}

/// Returns true if two kube-endpoint-managers write at once, or two add-ons do.
pub(super) fn two_managers(facts: &Facts, now: Timestamp) -> bool {
    matches!(manager(facts, now), Manager::Leads(leads) if are_two_managers(&leads))
        || addons(facts, now).len() > 1
}

/// Returns the Leases with which add-ons lead.
fn addons(facts: &Facts, now: Timestamp) -> Vec<&Lease> {
    let leases = facts.leases().into_iter();
    leases.filter(|lease| facts.is_beside(lease) && lease.state(now) == LeaseState::Held).collect()
}

/// Judges whether two controllers write at once.
pub(super) fn two_at_once(facts: &Facts, loops: &[LoopReport], now: Timestamp) -> TwoAtOnce {
    let mut found = two_of_the_loops(facts, loops, now);
    let addons = addons(facts, now);
    found.evidence.extend(addons.iter().map(|lease| {
        format!(
            "{} leads with the lease {}, and writes the slices of EndpointSelectors alone.",
            lease.holder, lease.key
        )
    }));
    if addons.len() > 1 {
        found.answer = Answer::Yes;
    }
    found
}

/// Judges whether two controllers write what the three loops write.
fn two_of_the_loops(facts: &Facts, loops: &[LoopReport], now: Timestamp) -> TwoAtOnce {
    let leads = match manager(facts, now) {
        Manager::Leads(leads) => leads,
        Manager::Waits(why) => return TwoAtOnce { answer: Answer::No, evidence: vec![why] },
        Manager::NotKnown(why) if is_manager_alone(facts) => {
            // A second one without leader election would look the same.
            let manager = "It seems to run without leader election, so another one beside it would not show.";
            let evidence = vec![why, manager.to_owned(), alone(facts)];
            return TwoAtOnce { answer: Answer::No, evidence };
        }
        Manager::NotKnown(why) => return TwoAtOnce { answer: Answer::NotKnown, evidence: vec![why] },
    };
    let mut evidence: Vec<String> =
        leads.iter().map(|lease| format!("{} leads with the lease {}.", lease.holder, lease.key)).collect();
    if are_two_managers(&leads) {
        evidence.push(
            "These leases do not divide the Services, so their holders write the same objects.".to_owned(),
        );
        return TwoAtOnce { answer: Answer::Yes, evidence };
    }
    let with = |answer: Answer| {
        let loops = LOOPS.iter().zip(loops).filter(|(of, _)| manager_runs(facts, of));
        loops.filter(|(_, of)| of.is_off == answer).map(|(of, _)| of.name).collect::<Vec<_>>()
    };
    let (on, not_known) = (with(Answer::No), with(Answer::NotKnown));
    let answer = if !on.is_empty() {
        evidence.push(format!("kube-controller-manager runs {}.", on.join(", ")));
        Answer::Yes
    } else if !not_known.is_empty() && is_manager_alone(facts) {
        evidence.push(alone(facts));
        Answer::No
    } else if !not_known.is_empty() {
        evidence.push(format!("kube-controller-manager may run {}.", not_known.join(", ")));
        Answer::NotKnown
    } else {
        evidence.push("kube-controller-manager runs none of these loops.".to_owned());
        Answer::No
    };
    TwoAtOnce { answer, evidence }
}
