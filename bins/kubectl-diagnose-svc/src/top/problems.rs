//! The problems of the Services of `top`, which are those of `lint`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_explain::{Code, LintOptions, LintReport, Options, Rank, Severity};
use tokio::time::Instant;

use crate::commands::current_time;
use kube_endpoint_explain_reader::{Before, Reader};

/// The most Services to check: each check reads their pods, slices and Endpoints, and all nodes.
pub(crate) const MAX_SERVICES: usize = 1000;

/// The shortest time between two checks.
const REST: Duration = Duration::from_secs(30);

/// A check takes at most one part in this many of the time.
const SHARE: u32 = 10;

/// The problems of one check.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problems {
    /// The worst problem of each checked Service, if it has one.
    services: BTreeMap<ObjectKey, Option<Worst>>,
    /// The cause of the problems of many Services, if they have one in common.
    root_cause: Option<String>,
}

/// The worst problem of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Worst {
    rank: Rank,
    code: Code,
    /// The number of other problems.
    more: usize,
}

impl Problems {
    pub(crate) fn of(report: &LintReport, now: Timestamp) -> Self {
        let root = report.root_cause(now);
        let mut services: BTreeMap<ObjectKey, Option<Worst>> =
            report.checked.iter().map(|service| (service.clone(), None)).collect();
        // The worst come first.
        for problem in report.problems.iter().filter(|problem| problem.kind == "Service") {
            let Some(place) = services.get_mut(&problem.object) else { continue };
            let root = root.as_ref().filter(|root| problem.follows_from(root.code));
            let code = root.map_or(problem.code, |root| root.code);
            match place {
                Some(worst) if root.is_some() && worst.code == code => {}
                Some(worst) => worst.more += 1,
                None => *place = Some(Worst { rank: problem.rank, code, more: 0 }),
            }
        }
        let root_cause = root.map(|root| format!("{}: {}", root.code, root.sentences().join(" ")));
        Self { services, root_cause }
    }

    /// Returns the cause of the problems of many Services, if they have one in common.
    pub(crate) fn root_cause(&self) -> Option<&str> {
        self.root_cause.as_deref()
    }

    fn worst(&self, service: &ObjectKey) -> Option<Worst> {
        self.services.get(service).copied().flatten()
    }

    /// Returns the text of a cell: the worst code, its name if there is room for names, and the
    /// number of others; `-` without a problem, and `?` for a Service that was not checked.
    pub(crate) fn text(&self, service: &ObjectKey, with_name: bool) -> String {
        let Some(checked) = self.services.get(service) else { return "?".to_owned() };
        let Some(Worst { code, more, .. }) = checked else { return "-".to_owned() };
        let name = if with_name { format!(" {}", code.name()) } else { String::new() };
        let more = if *more > 0 { format!(" +{more}") } else { String::new() };
        format!("{code}{name}{more}")
    }

    /// Returns the severity of the worst problem, if there is one.
    pub(crate) fn severity(&self, service: &ObjectKey) -> Option<Severity> {
        self.worst(service).map(|worst| worst.rank.severity)
    }

    /// Compares Services so that the one with the worst problem comes first.
    pub(crate) fn compare(&self, one: &ObjectKey, other: &ObjectKey) -> std::cmp::Ordering {
        let key = |service| {
            let worst = self.worst(service);
            (worst.is_none(), worst.map(|worst| worst.rank))
        };
        key(one).cmp(&key(other))
    }
}

/// Checks the Services again and again.
pub(crate) struct Checks {
    options: Options,
    lint_options: LintOptions,
    /// The last check. Some of its problems may only have been writes under way.
    before: Option<Before>,
    next: Instant,
}

impl Checks {
    pub(crate) fn new(options: &Options, lint_options: LintOptions) -> Self {
        Self { options: options.clone(), lint_options, before: None, next: Instant::now() }
    }

    /// Returns true if it is time for the next check.
    pub(crate) fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    /// Checks the Services of a namespace, or of all.
    ///
    /// # Errors
    ///
    /// An error if the Services cannot be read.
    pub(crate) async fn run(
        mut self,
        reader: &Reader,
        namespace: Option<String>,
    ) -> (Self, anyhow::Result<Problems>) {
        let began = Instant::now();
        let (options, lint_options) = (&self.options, &self.lint_options);
        let (namespace, before) = (namespace.as_deref(), self.before.as_ref());
        let linted = Box::pin(reader.lint(namespace, options, lint_options, before, current_time)).await;
        self.next = Instant::now() + REST.max(began.elapsed() * (SHARE - 1));
        let problems = linted.context("problems cannot be looked for").map(|linted| {
            let (before, now) = (self.before.replace(linted.before()), linted.at);
            Problems::of(&linted.lasting(before.as_ref(), Code::may_be_under_way), now)
        });
        (self, problems)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use kube_endpoint_explain::{Objects, lint};
    use serde_json::json;

    use super::*;

    /// Returns the problems of these Services: `shop/checkout` and `pay/ledger` select no pod, and
    /// `shop/cart` has none.
    pub(crate) fn problems() -> Problems {
        let service = |namespace: &str, name: &str, spec: serde_json::Value| json!({"kind": "Service", "metadata": {"name": name, "namespace": namespace}, "spec": spec});
        let ports = json!([{"port": 80}]);
        let objects = Objects::read([
            service("shop", "cart", json!({"type": "ExternalName", "externalName": "example.com"})),
            service("shop", "checkout", json!({"selector": {"app": "x"}, "ports": ports})),
            service(
                "pay",
                "ledger",
                json!({"selector": {"app": "x"}, "ports": ports, "trafficDistribution": "Odd"}),
            ),
        ])
        .unwrap();
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let report = lint(&objects, now, &Options::default(), &LintOptions::default());
        Problems::of(&report.lasting(&[], Code::may_be_under_way), now)
    }

    /// Returns the problems of a cluster whose controllers do not run: `shop/cart`, `shop/checkout`
    /// and `pay/ledger` have a pod each, and no slices.
    pub(crate) fn unserved() -> Problems {
        let object = |kind: &str, namespace: &str, name: &str, rest: serde_json::Value| {
            let mut object = json!({"kind": kind, "metadata": {"name": name, "namespace": namespace,
                "labels": {"app": name}, "creationTimestamp": "2026-01-01T00:00:00Z"}});
            object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            object
        };
        let services =
            [("shop", "cart", "10.0.0.1"), ("shop", "checkout", "10.0.0.2"), ("pay", "ledger", "10.0.0.3")];
        let objects = services.into_iter().flat_map(|(namespace, name, address)| {
            [
                object(
                    "Service",
                    namespace,
                    name,
                    json!({"spec": {"selector": {"app": name}, "ports": [{"port": 80}]}}),
                ),
                object(
                    "Pod",
                    namespace,
                    name,
                    json!({"spec": {"nodeName": "a"}, "status": {"podIP": address,
                    "podIPs": [{"ip": address}], "conditions": [{"type": "Ready", "status": "True",
                        "lastTransitionTime": "2026-01-01T00:00:05Z"}]}}),
                ),
            ]
        });
        let node = json!({"kind": "Node", "metadata": {"name": "a"}});
        let objects = Objects::read(objects.chain([node])).unwrap();
        let now = "2026-01-01T00:10:00Z".parse().unwrap();
        Problems::of(&lint(&objects, now, &Options::default(), &LintOptions::default()), now)
    }

    #[test]
    fn an_unserved_cluster_has_one_cause_and_each_service_its_code() {
        let problems = unserved();
        assert!(
            problems.root_cause().unwrap().starts_with("EP073: no endpoint controller writes"),
            "{problems:?}"
        );
        let text = |namespace: &str, name: &str| problems.text(&ObjectKey::new(namespace, name), false);
        assert_eq!([text("shop", "cart"), text("pay", "ledger")], ["EP073", "EP073"]);
    }

    #[test]
    fn the_worst_code_is_shown_with_the_number_of_others() {
        let problems = problems();
        let text = |namespace: &str, name: &str| {
            [false, true].map(|with_name| problems.text(&ObjectKey::new(namespace, name), with_name))
        };
        assert_eq!(text("shop", "cart"), ["-", "-"]);
        assert_eq!(text("shop", "checkout"), ["EP030", "EP030 no-pod-matches"]);
        assert_eq!(text("pay", "ledger"), ["EP030 +1", "EP030 no-pod-matches +1"]);
        assert_eq!(text("pay", "queue"), ["?", "?"]);
    }
}
