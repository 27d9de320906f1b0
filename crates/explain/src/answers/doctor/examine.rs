//! Makes the report.

use std::collections::BTreeMap;

use kube_endpoint_core_model::{Timestamp, page_of_docs};

use super::facts::{Counts, Facts, Instance, Read, Unread};
use super::loops::{Manager, abandoned, judge, manager, runs_beside, writes};
use super::permissions::Review;
use super::report::{Changes, InstanceReport, LeaseReport, LoopReport, Missing, Report, TwoAtOnce, Versions};
use super::two_at_once::{is_manager_alone, two_at_once, two_managers};
use crate::facts::age;
use crate::facts::answer::Answer;
use crate::facts::lease::LeaseState;
use crate::models::cluster::{Helper, NotReadyPods};

/// Makes the report of the facts. `now` is the time of the reading.
pub fn examine(facts: &Facts, now: Timestamp) -> Report {
    let loops = judge(facts, now);
    let two_at_once = two_at_once(facts, &loops, now);
    let missing = missing(facts);
    // An object that was not read may be one that has to be written.
    let is_known = |counts: &&Counts| !counts.writes.is_empty() || counts.not_read.is_empty();
    let changes = facts.changes.as_ref().ok().filter(is_known).map(changes);
    let to_do = to_do(facts, &loops, &two_at_once, &missing, changes.as_ref(), now);
    let not_known = not_known(facts, &loops, &two_at_once, now);
    Report {
        versions: Versions {
            server: facts.server.clone().ok(),
            plugin: facts.plugin.clone(),
            managers: instances(&facts.managers),
            kube_controller_managers: instances(&facts.upstream),
        },
        outputs: [&facts.slices, &facts.endpoints].into_iter().flatten().map(|it| it.report()).collect(),
        leases: leases(facts, &loops, now),
        loops,
        two_at_once,
        missing_permissions: missing,
        knows_permissions: facts.own_reviews.is_ok()
            && facts.manager_reviews.as_ref().is_none_or(Result::is_ok),
        certificates: certificates(facts),
        webhooks: facts.webhooks.clone().unwrap_or_default(),
        changes,
        to_do,
        not_known,
    }
}

fn instances(pods: &Read<Vec<Instance>>) -> Vec<InstanceReport> {
    let controllers = |pod: &Instance| {
        let values: Vec<&str> = pod.values("controllers").collect();
        (!pod.arguments.is_empty() && !values.is_empty()).then(|| values.join(","))
    };
    let report = |pod: &Instance| InstanceReport {
        pod: pod.key.clone(),
        node: pod.node.clone(),
        image: pod.image.clone(),
        controllers: controllers(pod),
    };
    pods.iter().flatten().map(report).collect()
}

fn leases(facts: &Facts, loops: &[LoopReport], now: Timestamp) -> Vec<LeaseReport> {
    let report = |lease: &super::Lease| LeaseReport {
        lease: lease.key.clone(),
        holder: lease.holder.clone(),
        program: lease.program.clone(),
        state: lease.state(now),
        writes: writes(facts, lease, loops, now),
        acquired: lease.acquired,
        renewed: lease.renewed,
        since: if lease.state(now) == LeaseState::Expired { lease.ends() } else { lease.acquired },
    };
    facts.leases().into_iter().map(report).collect()
}

fn missing(facts: &Facts) -> Vec<Missing> {
    let of = |who: &'static str, reviews: &Read<Vec<Review>>| -> Vec<Missing> {
        let denied = reviews.iter().flatten().filter(|review| !review.is_allowed);
        let missing = |review: &Review| Missing {
            who,
            permission: review.permission.to_string(),
            function: review.permission.function,
        };
        denied.map(missing).collect()
    };
    let manager = facts.manager_reviews.iter().flat_map(|reviews| of("kube-endpoint-manager", reviews));
    manager.chain(of("you", &facts.own_reviews)).collect()
}

/// Returns what can be said about certificates. The plugin does not connect to the manager.
fn certificates(facts: &Facts) -> Vec<String> {
    let Ok(pods) = &facts.managers else { return Vec::new() };
    if pods.is_empty() {
        return Vec::new();
    }
    let mut files: Vec<&str> = pods.iter().flat_map(|pod| pod.values("tls-cert-file")).collect();
    files.sort_unstable();
    files.dedup();
    let serving = match &*files {
        [] => "Each replica makes its serving certificate when it starts.".to_owned(),
        files => format!(
            "The serving certificate is in the file {}, which somebody has to renew.",
            files.join(", ")
        ),
    };
    let ends = "/statusz and the metric certificate_expiration_timestamp_seconds tell when certificates end; the \
                plugin does not read them.";
    vec![serving, ends.to_owned()]
}

fn changes(counts: &Counts) -> Changes {
    let mut writes: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for ((kind, verb), count) in &counts.writes {
        let verb = format!("{verb:?}").to_lowercase();
        writes.entry(kind.to_string()).or_default().insert(verb, *count);
    }
    Changes { services: counts.services, of: counts.of, writes }
}

fn to_do(
    facts: &Facts,
    loops: &[LoopReport],
    two_at_once: &TwoAtOnce,
    missing: &[Missing],
    changes: Option<&Changes>,
    now: Timestamp,
) -> Vec<String> {
    let mut all = Vec::new();
    let manager = manager(facts, now);
    if two_managers(facts, now) {
        all.push(
            "Two kube-endpoint-managers write at once. Stop one of them, or give both the same Lease \
             (--leader-elect-resource-namespace and --leader-elect-resource-name)."
                .to_owned(),
        );
    } else if two_at_once.answer == Answer::Yes {
        all.push(
            concat!(
                "Two controllers write at once. Turn the loops of kube-controller-manager off (",
                page_of_docs!("replace-the-loops.md#turn-the-loops-off"),
                "), or stop kube-endpoint-manager."
            )
            .to_owned(),
        );
    }
    if matches!(manager, Manager::Waits(_)) && loops.iter().all(|of| of.is_off == Answer::Yes) {
        let reserved =
            facts.leases().into_iter().any(|it| it.is_managers() && it.state(now) == LeaseState::Reserved);
        all.push(if reserved {
            concat!(
                "No controller writes. Release the reserved lease (",
                page_of_docs!("replace-the-loops.md#switch"),
                ")."
            )
            .to_owned()
        } else {
            "No controller writes. Start kube-endpoint-manager, or turn the loops of kube-controller-manager on."
                .to_owned()
        });
    }
    if let Some(lease) = abandoned(facts, &manager, now) {
        let ago = lease.renewed.map(|at| format!(" {} ago", age::seconds(age::since(at, now))));
        all.push(format!(
            "No controller writes: nobody leads. {} renewed the lease {} last{}. Bring kube-controller-manager back \
             there, or start kube-endpoint-manager.",
            lease.holder,
            lease.key,
            ago.unwrap_or_default()
        ));
    }
    if missing.iter().any(|it| it.who != "you") {
        let pods = || facts.managers.iter().flatten();
        let roles = [
            pods().any(|pod| !runs_beside([pod])).then_some("deploy/base/cluster-role.yaml"),
            pods().any(|pod| runs_beside([pod])).then_some("deploy/overlays/addon/cluster-role.yaml"),
        ];
        let roles: Vec<&str> = roles.into_iter().flatten().collect();
        all.push(format!("Grant kube-endpoint-manager what it lacks ({}).", roles.join(", ")));
    }
    if let Ok(conflicts @ 1..) = facts.conflicts {
        all.push(format!(
            "{conflicts} events say that another client undoes corrections: kubectl get events -A --field-selector \
             reason=ForeignWriteConflict"
        ));
    }
    all.extend(helpers(facts, now));
    // Beside kube-controller-manager it writes few of them.
    let writes_all = matches!(manager, Manager::Leads(_)) && !facts.are_beside();
    if writes_all && changes.is_some_and(|changes| changes.total() > 0) {
        all.push(
            "Outputs are not as kube-endpoint-manager would write them: kubectl diagnose-svc diff -A"
                .to_owned(),
        );
    }
    all
}

/// Tells about pods of kube-proxy and of the DNS servers that are not ready.
fn helpers(facts: &Facts, now: Timestamp) -> Vec<String> {
    let of = |helper| NotReadyPods::of(facts.helpers.as_ref().ok()?, helper, now);
    let tell = |found: NotReadyPods| {
        let (program, harm) = match found.program {
            Helper::KubeProxy => ("kube-proxy", "clients on their nodes may be sent to pods that are gone"),
            Helper::Dns => ("the cluster's DNS", "names may not be found"),
        };
        let are = if found.pods.len() == 1 { "is" } else { "are" };
        format!(
            "{} of {} pods of {program} {are} not ready ({}): {harm}. kubectl -n kube-system describe pod {}",
            found.pods.len(),
            found.of,
            found.nodes.join(", "),
            found.pods.join(" ")
        )
    };
    [Helper::KubeProxy, Helper::Dns].into_iter().filter_map(of).map(tell).collect()
}

fn not_known(facts: &Facts, loops: &[LoopReport], two_at_once: &TwoAtOnce, now: Timestamp) -> Vec<String> {
    let mut all = Vec::new();
    // Where kube-endpoint-manager is not installed and one loop is on, the others do not matter.
    // Neither do they where nothing shows a kube-controller-manager.
    let runs_loops = |pods: &Vec<Instance>| !pods.is_empty() && !runs_beside(pods);
    let is_installed = facts.managers.as_ref().map_or(true, runs_loops)
        || facts.leases().into_iter().any(|lease| lease.is_managers() && !facts.is_beside(lease));
    let matters =
        (is_installed || loops.iter().all(|of| of.is_off != Answer::No)) && !is_manager_alone(facts);
    let matters = matters && !facts.are_beside();
    // A controller that does not lead runs no loop, whatever its flags are.
    let matters = matters && abandoned(facts, &manager(facts, now), now).is_none();
    let open = loops.iter().filter(|of| matters && of.is_off == Answer::NotKnown);
    let open: Vec<&str> = open.map(|of| of.name).collect();
    if !open.is_empty() {
        all.push(format!(
            "kube-controller-manager may run {}. Its flag --controllers on the control-plane nodes tells.",
            open.join(", ")
        ));
    }
    if two_at_once.answer == Answer::NotKnown {
        all.push("Two controllers may write at once.".to_owned());
    }
    let mut unread = |what: &str, why: Option<&Unread>| match why {
        None => {}
        Some(Unread::Forbidden(permission)) => {
            all.push(format!("{what}: you lack the permission to {permission}."));
        }
        Some(Unread::Failed(why)) => all.push(format!("{what}: {why}.")),
    };
    unread("Version of the server", facts.server.as_ref().err());
    unread("Writers of EndpointSlices", facts.slices.as_ref().err());
    unread("Writers of Endpoints", facts.endpoints.as_ref().err());
    unread("Leases", facts.leases.as_ref().err());
    unread("Leases of other namespaces", facts.leases_elsewhere.as_ref().err());
    unread("Pods of kube-controller-manager", facts.upstream.as_ref().err());
    unread("Pods of kube-proxy and of DNS servers", facts.helpers.as_ref().err());
    unread("Pods of kube-endpoint-manager", facts.managers.as_ref().err());
    let reviews = facts.manager_reviews.as_ref().and_then(|reviews| reviews.as_ref().err());
    unread("Permissions of kube-endpoint-manager", reviews);
    let pods_exist = facts.managers.as_ref().is_ok_and(|pods| !pods.is_empty());
    let no_user = "its pods do not tell as which user it runs, or it works on single namespaces";
    let no_user = Unread::Failed(no_user.to_owned());
    let reviews = (pods_exist && facts.manager_reviews.is_none()).then_some(&no_user);
    unread("Permissions of kube-endpoint-manager", reviews);
    unread("Your permissions", facts.own_reviews.as_ref().err());
    unread("Webhooks", facts.webhooks.as_ref().err());
    unread("Events", facts.conflicts.as_ref().err());
    unread("What would change", facts.changes.as_ref().err());
    all.extend(
        facts
            .changes
            .iter()
            .flat_map(|counts| &counts.not_read)
            .map(|why| format!("What would change: {why}")),
    );
    all
}
