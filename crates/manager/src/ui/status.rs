//! Makes the status object from the data of the other modules, for the namespaces that a reader may
//! see.

use kube_endpoint_core_model::time::rfc3339;
use kube_endpoint_core_model::{Text, Timestamp};
use kube_endpoint_status_page::{
    Controller, Fill, HistoryView, Leader, Namespaces, ShownProblem, ShownProblems, Status, Totals,
};

use super::Identity;
use super::history::Sample;
use super::namespaces::Visible;
use super::problems::Problems;
use super::survey::Survey;

/// The inputs of a status.
pub(super) struct Inputs<'a> {
    pub(super) now: Timestamp,
    pub(super) identity: &'a Identity,
    pub(super) synced: bool,
    pub(super) leading: bool,
    pub(super) shutting_down: bool,
    pub(super) dry_run: bool,
    /// The holder of the Lease that a standby saw last.
    pub(super) leader: Option<String>,
    pub(super) controllers: &'a [(&'static str, Sample)],
    pub(super) history: HistoryView,
    /// `None` if there is no survey yet.
    pub(super) survey: Option<&'a Survey>,
    pub(super) visible: Option<&'a Visible>,
    pub(super) problems: Option<&'a Problems>,
    pub(super) max_endpoints_per_slice: usize,
}

/// The limit of the problems.
const FROM_CACHES: &str = "The problems are those that the manager's caches can tell. The explanation of a Service reads the \
                           cluster and may name a more exact cause.";

/// Makes a status. Totals and problems are those of the namespaces that the reader may see.
pub(super) fn status(inputs: Inputs<'_>) -> Status {
    let Inputs { identity, leading, .. } = inputs;
    let controllers = inputs.controllers.iter().map(|(name, sample)| Controller {
        name,
        leading,
        queue_depth: sample.queue_depth,
        failing: sample.failing.failing,
        retried_slowly: sample.failing.retried_slowly,
        syncs: sample.activity.syncs,
        errors: sample.activity.errors,
        writes: sample.activity.writes,
    });
    let leader = |lease: &String| Leader {
        lease: lease.clone(),
        holder: if leading { identity.holder.clone() } else { inputs.leader.clone() },
        is_self: leading,
        controllers: inputs.controllers.iter().map(|(name, _)| *name).collect(),
    };
    // The status counts nothing until the API server has told what the reader may see.
    let shown = inputs.survey.zip(inputs.visible).map(|(survey, visible)| {
        let mut totals = Totals::default();
        let (mut shown, mut hidden) = (0, 0);
        for (namespace, of_namespace) in &survey.namespaces {
            if visible.shows(namespace) {
                shown += 1;
                totals.add(of_namespace);
            }
            hidden += usize::from(visible.hides(namespace));
        }
        let not_checked = survey.namespaces.len() - shown - hidden;
        (totals, Namespaces { shown, hidden, not_checked })
    });
    let totals = shown.as_ref().map(|(totals, _)| totals);
    Status {
        time: rfc3339(inputs.now),
        version: identity.version.clone(),
        replica: identity.replica.clone(),
        identity: identity.holder.clone(),
        leaders: identity.lease.iter().map(leader).collect(),
        synced: inputs.synced,
        shutting_down: inputs.shutting_down,
        dry_run: inputs.dry_run,
        controllers: controllers.collect(),
        fill: totals.map(|totals| Fill {
            max_endpoints_per_slice: inputs.max_endpoints_per_slice,
            classes: totals.fill,
        }),
        totals: totals.map(|totals| (*totals).into()),
        problems: inputs
            .problems
            .zip(inputs.visible)
            .map(|(problems, visible)| shown_problems(problems, visible)),
        namespaces: shown.map(|(_, namespaces)| namespaces),
        history: Some(inputs.history),
        notes: inputs.problems.iter().map(|_| FROM_CACHES.to_owned()).collect(),
    }
}

fn shown_problems(problems: &Problems, visible: &Visible) -> ShownProblems {
    // A problem of the cluster names no Service.
    let shows = |namespace: &Text| namespace.is_empty() || visible.shows(namespace);
    let items = problems.items.iter().filter(|problem| shows(&problem.object.namespace));
    let items =
        items.map(|it| ShownProblem::new(it.kind, &it.object, it.code, it.severity, it.message.clone()));
    let by_namespace = problems.by_namespace.iter().filter(|(namespace, _)| shows(namespace));
    ShownProblems::new(problems.as_of, by_namespace.map(|(_, count)| count).sum(), items)
}

#[cfg(test)]
mod tests {
    use kube_endpoint_controller_runtime::{ActivityCounts, FailingCounts, Latencies};
    use kube_endpoint_core_model::ObjectKey;
    use kube_endpoint_explain::{Code, Rank, Severity, TrafficLost};

    use super::*;
    use crate::ui::history::History;
    use crate::ui::problems::Problem;

    fn survey() -> Survey {
        let totals =
            |services, slices| Totals { services, slices, endpoints: 10, ready: 7, fill: [slices; 10] };
        let namespaces = [("bank", totals(5, 1)), ("new", totals(1, 1)), ("shop", totals(3, 2))];
        Survey { namespaces: namespaces.map(|(name, totals)| (name.into(), totals)).into() }
    }

    fn problems() -> Problems {
        let problem = |namespace: &str, number: usize| Problem {
            kind: "Service",
            object: ObjectKey::new(namespace, format!("s{number}")),
            code: Code::PortNameNotFound,
            severity: Severity::Error,
            message: "no pod has a port named \"htpp\"".to_owned(),
            rank: Rank {
                severity: Severity::Error,
                traffic_lost: TrafficLost::All,
                pods_hit: 1,
                is_of_service: false,
            },
        };
        let items =
            (0..600).map(|number| problem("bank", number)).chain([problem("shop", 1), problem("shop", 2)]);
        Problems {
            as_of: "2026-01-01T00:00:05Z".parse().unwrap(),
            items: items.collect(),
            by_namespace: [("bank".into(), 600), ("shop".into(), 2)].into(),
            ..Problems::default()
        }
    }

    /// Returns the status for a reader.
    fn of(
        survey: Option<&Survey>,
        visible: Option<&Visible>,
        problems: Option<&Problems>,
    ) -> serde_json::Value {
        let now = "2026-01-01T00:00:07Z".parse().unwrap();
        let latencies = Latencies::of([5, 5, 80]);
        let activity = ActivityCounts { syncs: 10, errors: 1, writes: 12, latencies };
        let failing = FailingCounts { failing: 3, retried_slowly: 1 };
        let sample = Sample { queue_depth: 4, failing, activity };
        let mut history = History::new(vec!["endpoints-controller"]);
        history.add(now, std::slice::from_ref(&sample));
        let identity = Identity {
            version: "0.1.0".to_owned(),
            replica: "manager-0".to_owned(),
            lease: Some("kube-system/kube-endpoint-manager".to_owned()),
            holder: Some("pod_uid".to_owned()),
        };
        let status = status(Inputs {
            now,
            identity: &identity,
            synced: true,
            leading: false,
            shutting_down: false,
            dry_run: false,
            leader: Some("other_uid".to_owned()),
            controllers: &[("endpoints-controller", sample)],
            history: history.view(now, now),
            survey,
            visible,
            problems,
            max_endpoints_per_slice: 100,
        });
        let mut status = serde_json::to_value(status).unwrap();
        // The last two buckets are enough.
        for path in [
            "/queueDepth/endpoints-controller",
            "/writes/endpoints-controller",
            "/latencyMillis/p50",
            "/latencyMillis/p99",
        ] {
            let values =
                status.pointer_mut(&format!("/history{path}")).and_then(|it| it.as_array_mut()).unwrap();
            assert_eq!(values.len(), 90, "{path}");
            values.drain(..88);
        }
        status
    }

    fn some(shown: &[&str], hidden: &[&str]) -> Visible {
        let set = |names: &[&str]| names.iter().map(|name| (*name).into()).collect();
        Visible::Some { shown: set(shown), hidden: set(hidden) }
    }

    #[test]
    fn a_reader_sees_what_is_in_their_namespaces() {
        let status = of(Some(&survey()), Some(&some(&["shop"], &["bank"])), Some(&problems()));
        assert!(!status.to_string().contains("bank"));
        insta::assert_snapshot!(serde_json::to_string_pretty(&status).unwrap());
    }

    /// It names no namespace.
    #[test]
    fn what_concerns_all_services_is_shown_to_each_reader() {
        let mut problems = problems();
        let cause = Problem {
            kind: "Cluster",
            object: ObjectKey::new("", "endpoint-controllers"),
            code: Code::ClusterUnserved,
            message: "no endpoint controller writes".to_owned(),
            ..problems.items[0].clone()
        };
        problems.items.insert(0, cause);
        problems.by_namespace.insert("".into(), 1);
        let status = of(Some(&survey()), Some(&some(&["shop"], &["bank"])), Some(&problems));
        let items = status["problems"]["items"].as_array().unwrap();
        let codes: Vec<&str> = items.iter().map(|item| item["code"].as_str().unwrap()).collect();
        assert_eq!(codes, ["EP073", "EP012", "EP012"]);
        assert_eq!(status["problems"]["total"], 3);
    }

    #[test]
    fn totals_are_those_of_the_namespaces_that_are_shown() {
        let check = |visible: &Visible, services: u64, namespaces: [u64; 3], problems_of: [u64; 2]| {
            let status = of(Some(&survey()), Some(visible), Some(&problems()));
            let [shown, hidden, not_checked] =
                ["shown", "hidden", "notChecked"].map(|name| status["namespaces"][name].as_u64().unwrap());
            assert_eq!(status["totals"]["services"], services, "{visible:?}");
            assert_eq!([shown, hidden, not_checked], namespaces, "{visible:?}");
            let problems = &status["problems"];
            assert_eq!(
                [problems["total"].as_u64(), problems["shown"].as_u64()].map(Option::unwrap),
                problems_of
            );
            assert_eq!(problems["items"].as_array().unwrap().len() as u64, problems_of[1]);
        };
        check(&Visible::All, 9, [3, 0, 0], [602, 500]);
        check(&some(&["shop", "gone"], &["bank"]), 3, [1, 1, 1], [2, 2]);
        check(&some(&[], &["bank", "new", "shop"]), 0, [0, 3, 0], [0, 0]);
    }

    #[test]
    fn what_is_not_known_is_null() {
        let all = ["totals", "fill", "namespaces", "problems"];
        let check = |status: serde_json::Value, unknown: &[&str]| {
            let nulls: Vec<_> = all.into_iter().filter(|name| status[name].is_null()).collect();
            assert_eq!(nulls, unknown);
        };
        check(of(None, Some(&Visible::All), Some(&problems())), &["totals", "fill", "namespaces"]);
        check(of(Some(&survey()), None, Some(&problems())), &all);
        check(of(Some(&survey()), Some(&Visible::All), None), &["problems"]);
    }
}
