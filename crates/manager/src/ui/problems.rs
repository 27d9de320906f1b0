//! Looks for problems of the Services in the caches.

use std::collections::{BTreeMap, BTreeSet};

use kube_endpoint_core_model::{ObjectKey, Text, Timestamp};
use kube_endpoint_explain::{
    Code, Known, Lint, LintOptions, LintReport, Objects, Options, Rank, Remedy, Severity, lint,
};
use kube_endpoint_informer::{Cluster, Kind};

use super::objects::{self, STEP, keys_of};

/// The number of objects that completes a batch of namespaces. It bounds the memory of a check.
const BATCH: usize = 10_000;

/// The most problems to keep, the worst ones. The counts contain all.
const KEPT: usize = 20_000;

/// The problems that a check found.
#[derive(Clone, Debug, Default)]
pub(super) struct Problems {
    /// The time at which the check read the caches.
    pub(super) as_of: Timestamp,
    /// The problems, the worst first.
    pub(super) items: Vec<Problem>,
    /// The number of problems of each namespace that has some.
    pub(super) by_namespace: BTreeMap<Text, usize>,
    /// Outputs that differ from those that the controllers should write. A write may be under way,
    /// so they are problems only if the check before found them, too.
    pub(super) behind: BTreeSet<(ObjectKey, Code)>,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) kind: &'static str,
    pub(super) object: ObjectKey,
    pub(super) code: Code,
    pub(super) severity: Severity,
    pub(super) message: String,
    /// The place among other problems.
    pub(super) rank: Rank,
}

impl From<Lint> for Problem {
    fn from(lint: Lint) -> Self {
        Self {
            kind: lint.kind,
            object: lint.object,
            code: lint.code,
            severity: lint.severity,
            message: lint.message,
            rank: lint.rank,
        }
    }
}

impl Problems {
    /// Reads the caches and looks for problems. `before` has the results of the check before. This
    /// takes long if there are many Services: call it on a thread for blocking work.
    pub(super) fn of(
        cluster: &Cluster,
        options: &Options,
        known: Known,
        now: Timestamp,
        before: Option<&Self>,
    ) -> Self {
        let options = options.clone().with_known(known);
        let mut found = Self { as_of: now, ..Self::default() };
        // The Services of all namespaces that wait, and their problems.
        let mut late = LintReport::default();
        let mut batch = Batch::new(cluster, known);
        let unreadable = Kind::ALL.into_iter().flat_map(|kind| cluster.unreadable(kind));
        let unreadable: BTreeSet<Text> = unreadable.map(|(namespace, _)| namespace).collect();
        let mut namespace = next_namespace(cluster, None);
        while let Some(name) = namespace {
            // Without some objects, outputs would seem to be missing.
            if !unreadable.contains(&name) {
                batch.add(cluster, &name);
            }
            if batch.size >= BATCH {
                found.add(&batch.objects, &options, before, &mut late);
                batch = Batch::new(cluster, known);
            }
            namespace = next_namespace(cluster, Some(&name));
        }
        found.add(&batch.objects, &options, before, &mut late);
        // A reader may not see all namespaces, so the cause does not tell how many Services wait.
        late.waiting.hide_number();
        found.take(late.with_root_cause(now));
        found.items.sort_by(worst_first);
        found.items.truncate(KEPT);
        found
    }

    /// Adds the problems of a batch of namespaces. `late` collects those that may have one cause in
    /// the whole cluster.
    fn add(&mut self, objects: &Objects, options: &Options, before: Option<&Self>, late: &mut LintReport) {
        let mut report = lint(objects, self.as_of, options, &LintOptions::default());
        late.waiting.add(std::mem::take(&mut report.waiting));
        for mut problem in std::mem::take(&mut report.problems) {
            if problem.code.may_be_under_way() {
                let key = (problem.object.clone(), problem.code);
                let was_behind = before.is_some_and(|before| before.behind.contains(&key));
                self.behind.insert(key);
                if !was_behind {
                    continue;
                }
            }
            if problem.follows_from(Code::ClusterUnserved) {
                // Many may wait.
                problem.remedy = Remedy::default();
                late.problems.push(problem);
            } else {
                report.problems.push(problem);
            }
        }
        self.take(report);
        if self.items.len() > 2 * KEPT {
            self.items.sort_by(worst_first);
            self.items.truncate(KEPT);
        }
    }

    /// Adds problems, and counts them by namespace. Those that concern all Services count for the
    /// namespace without a name.
    fn take(&mut self, report: LintReport) {
        for problem in report.problems {
            *self.by_namespace.entry(problem.object.namespace.clone()).or_default() += 1;
            self.items.push(problem.into());
        }
    }
}

/// Compares as lint does.
fn worst_first(one: &Problem, two: &Problem) -> std::cmp::Ordering {
    (one.rank, &one.object, one.code).cmp(&(two.rank, &two.object, two.code))
}

/// Returns the next namespace after another one that has Services, slices or Endpoints.
fn next_namespace(cluster: &Cluster, after: Option<&Text>) -> Option<Text> {
    let after = match after {
        None => ObjectKey::default(),
        // No key of another namespace lies between the keys of this namespace and this one.
        Some(name) => ObjectKey::new(format!("{name}\0"), ""),
    };
    let first = [
        cluster.services_after(&after, 1),
        cluster.slice_owners_after(&after, 1),
        cluster.endpoints_after(&after, 1),
    ];
    first.into_iter().flatten().map(|key| key.namespace).min()
}

/// Whole namespaces for one check.
struct Batch {
    objects: Objects,
    /// True if the caches hold nodes.
    knows_nodes: bool,
    size: usize,
}

impl Batch {
    fn new(cluster: &Cluster, known: Known) -> Self {
        let mut objects = Objects::new();
        if known.nodes {
            objects::add_nodes(cluster, &mut objects);
        }
        Self { objects, knows_nodes: known.nodes, size: 0 }
    }

    fn add(&mut self, cluster: &Cluster, namespace: &Text) {
        let Self { objects, knows_nodes, size } = self;
        let mut lacks_selector = false;
        keys_of(
            namespace,
            |after| cluster.services_after(after, STEP),
            |key| {
                *size += 1;
                if let Some(service) = cluster.service(key) {
                    lacks_selector |= !objects::add_endpoint_selector(cluster, objects, &service);
                    objects.add_service(service);
                }
            },
        );
        if lacks_selector {
            objects::add_endpoint_selectors(cluster, objects, namespace);
        }
        objects::for_each_pod(cluster, namespace, |pod| {
            *size += 1;
            if let Some(node) = pod.node_name.as_ref().filter(|_| !*knows_nodes) {
                objects::assume_ready(objects, node);
            }
            objects.add_pod(std::sync::Arc::clone(pod));
        });
        keys_of(
            namespace,
            |after| cluster.slice_owners_after(after, STEP),
            |key| {
                *size += 1;
                cluster.slices_of(key).into_iter().for_each(|slice| objects.add_slice(slice, None));
            },
        );
        keys_of(
            namespace,
            |after| cluster.endpoints_after(after, STEP),
            |key| {
                *size += 1;
                cluster
                    .endpoints(key)
                    .into_iter()
                    .for_each(|endpoints| objects.add_endpoints(endpoints, None));
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use kube_endpoint_core_model::{EndpointSlice, Service};
    use kube_endpoint_informer::StreamEvent;
    use serde_json::json;

    use super::*;

    /// Returns a cluster with this many Services in each namespace. Their selectors match no pod.
    fn cluster(namespaces: usize, services: usize) -> Cluster {
        let cluster = Cluster::new(Kind::ALL);
        for namespace in (0..namespaces).map(|number| format!("n{number}")) {
            for number in 0..services {
                let name = format!("s{number}");
                let service = json!({"metadata": {"name": name, "namespace": namespace, "resourceVersion": "1"},
                    "spec": {"clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "selector": {"app": name},
                        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}});
                cluster.apply::<Service>(StreamEvent::Applied(serde_json::from_value(service).unwrap()));
            }
        }
        cluster
    }

    fn found(cluster: &Cluster) -> Problems {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        Problems::of(cluster, &Options::default(), Known::ALL, now, None)
    }

    #[test]
    fn every_namespace_is_checked_and_counted() {
        let found = found(&cluster(3, 1200));
        let counts: Vec<_> = found.by_namespace.iter().map(|(name, count)| (&**name, *count)).collect();
        assert_eq!(counts, [("n0", 1200), ("n1", 1200), ("n2", 1200)]);
        assert_eq!(found.items.len(), 3600);
        assert!(found.items.is_sorted_by(|one, two| worst_first(one, two).is_le()));
        let first = &found.items[0];
        assert_eq!((first.kind, first.object.to_string()), ("Service", "n0/s0".to_owned()));
    }

    #[test]
    fn only_the_worst_problems_are_kept_and_all_are_counted() {
        let found = found(&cluster(25, 900));
        assert_eq!(found.items.len(), KEPT);
        assert_eq!(found.by_namespace.values().sum::<usize>(), 22_500);
    }

    #[test]
    fn what_is_not_written_is_a_problem_if_it_was_found_before() {
        let cluster = cluster(1, 1);
        let behind = |found: &Problems| {
            let codes = found.items.iter().map(|problem| problem.code.id());
            codes.filter(|code| ["EP050", "EP057"].contains(code)).map(str::to_owned).collect::<Vec<_>>()
        };
        let first = found(&cluster);
        assert_eq!(behind(&first), [""; 0]);
        let again = |before: &Problems| {
            Problems::of(&cluster, &Options::default(), Known::ALL, first.as_of, Some(before))
        };
        assert_eq!(behind(&again(&first)), ["EP050", "EP057"]);
        assert_eq!(behind(&again(&Problems::default())), [""; 0]);
    }

    /// No controller has written slices of Services of several batches.
    #[test]
    fn an_unserved_cluster_is_one_problem() {
        let cluster = cluster(3, 2);
        for namespace in (0..3).map(|number| format!("n{number}")) {
            let key = ObjectKey::new(namespace, "s0");
            let service = json!({"metadata": {"name": "s0", "namespace": key.namespace, "resourceVersion": "2",
                    "creationTimestamp": "2025-12-31T23:50:00Z"},
                "spec": {"clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "selector": {"app": "s0"},
                    "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}});
            cluster.apply::<Service>(StreamEvent::Applied(serde_json::from_value(service).unwrap()));
        }
        let find = |before: Option<&Problems>| {
            let now = "2026-01-01T00:00:00Z".parse().unwrap();
            Problems::of(&cluster, &Options::default(), Known::ALL, now, before)
        };
        let found = find(Some(&find(None)));
        let mut codes: BTreeMap<&str, usize> = BTreeMap::new();
        found.items.iter().for_each(|problem| *codes.entry(problem.code.id()).or_default() += 1);
        // No pod matches the selectors.
        assert_eq!(codes, [("EP030", 6), ("EP073", 1)].into());
        assert_eq!(found.by_namespace[""], 1);
        let cause = found.items.iter().find(|problem| problem.code == Code::ClusterUnserved).unwrap();
        assert_eq!(cause.message, "no endpoint controller writes");
    }

    #[test]
    fn leftovers_of_a_namespace_without_services_are_found() {
        let cluster = cluster(1, 1);
        let slice = json!({"metadata": {"name": "gone-1", "namespace": "z", "labels": {
                "kubernetes.io/service-name": "gone",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
            "addressType": "IPv4", "endpoints": [], "ports": []});
        cluster.apply::<EndpointSlice>(StreamEvent::Applied(serde_json::from_value(slice).unwrap()));
        let kinds: Vec<_> = found(&cluster).items.iter().map(|it| (it.kind, it.object.to_string())).collect();
        assert!(kinds.contains(&("EndpointSlice", "z/gone-1".to_owned())), "{kinds:?}");
    }
}
