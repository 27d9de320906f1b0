//! A plan from the changed pods equals the plan from all pods, at every step of random histories.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::ClusterState;
use crate::common::random::{Edit, edit, named, nodes, pod, service};
use kube_endpoint_core_model::change::ChangedPod;
use kube_endpoint_core_model::pod::ReadyCondition;
use kube_endpoint_core_model::well_known::LABEL_HEADLESS;
use kube_endpoint_core_model::{EndpointSlice, Node, Pod, Service, Text, Timestamp};
use kube_endpoint_slice_plan::{Plan, PlanOptions, PlanState, plan_and_keep};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestCaseResult;

/// One sync, and the changes before it.
#[derive(Clone, Debug)]
struct Step {
    /// Pods, by number, with their new state, or `None` if the pod is deleted.
    pods: Vec<(usize, Option<Pod>)>,
    /// Edits of slices by other clients.
    edits: Vec<Edit>,
    service: Option<Service>,
    nodes: Option<Vec<Node>>,
    trigger_time: bool,
    /// If set, the write after this number of writes fails.
    fails: Option<usize>,
}

#[derive(Clone, Debug)]
struct History {
    service: Service,
    nodes: Vec<Node>,
    pods: Vec<Option<Pod>>,
    options: PlanOptions,
    steps: Vec<Step>,
}

/// Returns mostly Services whose pods have one set of ports and no topology hints, since others
/// have no state.
fn a_service() -> impl Strategy<Value = Service> {
    (service(), 0u8..8).prop_map(|(mut service, kind)| {
        if kind > 0 {
            service.ports.retain(|port| *port.name == *"num");
        }
        if kind > 1 {
            service.annotations = service.annotations.without("service.kubernetes.io/topology-mode");
        }
        service
    })
}

/// Returns mostly pods on a node that exists.
fn a_pod() -> impl Strategy<Value = Option<Pod>> {
    (pod(), 0u8..20).prop_map(|(pod, elsewhere)| {
        let on_first = |pod: Pod| Pod { node_name: Some("n0".into()), ..pod };
        if elsewhere == 0 { pod } else { pod.map(on_first) }
    })
}

fn rarely<T: Clone + std::fmt::Debug>(
    strategy: impl Strategy<Value = T>,
) -> impl Strategy<Value = Option<T>> {
    prop::option::weighted(0.04, strategy)
}

fn step() -> impl Strategy<Value = Step> {
    let pods = prop::collection::vec((0usize..20, a_pod()), 0..4);
    let edits = rarely(edit()).prop_map(|edit| edit.into_iter().collect());
    (pods, edits, rarely(a_service()), rarely(nodes()), any::<bool>(), rarely(0usize..3)).prop_map(
        |(pods, edits, service, nodes, trigger_time, fails)| Step {
            pods,
            edits,
            service,
            nodes,
            trigger_time,
            fails,
        },
    )
}

fn history() -> impl Strategy<Value = History> {
    let pods = prop::collection::vec(a_pod(), 20);
    let steps = prop::collection::vec(step(), 1..12);
    (a_service(), nodes(), pods, 1usize..7, 0u8..16, steps).prop_map(
        |(service, nodes, pods, max, compaction, steps)| History {
            service,
            nodes,
            pods,
            options: PlanOptions::default()
                .with_max_endpoints_per_slice(max)
                .with_slice_compaction(compaction == 0),
            steps,
        },
    )
}

/// Returns the slices after the first `fails` writes of a plan, or after all if no write fails.
fn carried_out(cluster: &ClusterState, plan: &Plan, fails: Option<usize>) -> Vec<Arc<EndpointSlice>> {
    let before = cluster.existing_slices.clone().unwrap_or_default();
    let states = cluster.states(plan);
    let after = match fails {
        Some(0) => None,
        Some(writes) => states.get(writes - 1).or(states.last()),
        None => states.last(),
    };
    let mut after = after.cloned().unwrap_or(before.clone());
    // The store keeps unchanged slices.
    for slice in &mut after {
        if let Some(same) = before.iter().find(|before| before == &slice) {
            *slice = Arc::clone(same);
        }
    }
    after
}

/// The numbers of plans from all pods and from the changed ones.
#[derive(Debug, Default)]
struct Planned {
    all: usize,
    changed: usize,
}

fn play(history: &History, planned: &mut Planned) -> TestCaseResult {
    let live = |pods: &[Option<Pod>]| -> Vec<Arc<Pod>> {
        let named = pods.iter().cloned().enumerate().filter_map(|(at, pod)| named(at, pod?));
        let mut pods: Vec<_> = named.map(Arc::new).collect();
        pods.sort_by(|one, two| one.key.name.cmp(&two.key.name));
        pods
    };
    let mut pods = history.pods.clone();
    let mut cluster = ClusterState {
        service: history.service.clone(),
        nodes: history.nodes.clone(),
        pods: live(&pods),
        existing_slices: Some(Vec::new()),
        trigger_time: None,
        options: history.options.clone(),
        hinted: Default::default(),
        ready_pods: None,
    };
    let mut state: Option<PlanState> = None;
    for step in &history.steps {
        let mut changed: BTreeMap<Text, ChangedPod> = BTreeMap::new();
        for (number, new) in &step.pods {
            pods[*number] = new.clone();
            let name: Text = format!("p{number}").into();
            let now = new.clone().and_then(|pod| named(*number, pod)).map(Arc::new);
            changed.insert(name.clone(), ChangedPod { name, now, ..ChangedPod::default() });
        }
        let changed: Vec<ChangedPod> = changed.into_values().collect();
        cluster.pods = live(&pods);
        cluster.trigger_time = step.trigger_time.then_some(Timestamp::UNIX_EPOCH);
        if let Some(service) = &step.service {
            cluster.service = service.clone();
        }
        if let Some(nodes) = &step.nodes {
            cluster.nodes = nodes.clone();
            state = None;
        }
        if !step.edits.is_empty() {
            let existing = cluster.existing_slices.get_or_insert_default();
            let mut edited: Vec<EndpointSlice> = existing.iter().map(|slice| (**slice).clone()).collect();
            step.edits
                .iter()
                .for_each(|edit| edit.apply(&mut edited, history.options.max_endpoints_per_slice));
            edited.sort_by(|one, two| one.metadata.name.cmp(&two.metadata.name));
            *existing = edited.into_iter().map(Arc::new).collect();
        }

        let (want, after_all) = cluster.with_inputs(plan_and_keep);
        prop_assert_eq!(&want, &cluster.plan());
        let from_changed = state.take().and_then(|state| {
            cluster.with_inputs(|inputs| state.plan(&inputs.clone().with_pods(&[]), &changed))
        });
        let from_changed = from_changed.map(|(got, after)| {
            let mut want = want.clone();
            want.verdicts.retain(|one| changed.iter().any(|changed| changed.name == one.pod.name));
            prop_assert_eq!(&got, &want, "got\n{}want\n{}", got, want);
            Ok(after)
        });
        match from_changed.transpose()? {
            Some(after) => {
                planned.changed += 1;
                state = Some(after);
            }
            None => {
                planned.all += 1;
                state = after_all;
            }
        }
        cluster.existing_slices = Some(carried_out(&cluster, &want, step.fails));
        cluster.hinted = want.hinted.clone();
        if step.fails.is_some() {
            state = None;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_plan_from_the_changed_pods_is_the_plan_from_all_pods(history in history()) {
        play(&history, &mut Planned::default())?;
    }
}

/// Makes a Service with an address type and one port, `count` ready pods, and slices with room for
/// four endpoints. Returns the cluster with its slices, and the state.
fn settled(count: usize) -> (ClusterState, PlanState) {
    let service: Service = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "svc"},
        "spec": {"selector": {"app": "web"}, "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"],
            "ports": [{"name": "num", "port": 80, "protocol": "TCP", "targetPort": 81}]}
    }))
    .unwrap();
    let mut cluster = ClusterState {
        service,
        nodes: vec![Node { name: "n0".into(), zone: Some("zone-a".into()), ready: true, ..Node::default() }],
        pods: (0..count).map(|number| Arc::new(ready_pod(number, true))).collect(),
        existing_slices: Some(Vec::new()),
        trigger_time: None,
        options: PlanOptions::default().with_max_endpoints_per_slice(4),
        hinted: Default::default(),
        ready_pods: None,
    };
    let (plan, state) = cluster.with_inputs(plan_and_keep);
    assert!(state.is_none(), "slices were created");
    cluster.existing_slices = Some(carried_out(&cluster, &plan, None));
    let (plan, state) = cluster.with_inputs(plan_and_keep);
    assert!(plan.is_empty());
    (cluster, state.unwrap())
}

fn ready_pod(number: usize, is_true: bool) -> Pod {
    let address = std::net::IpAddr::from([10, 0, 0, number as u8]);
    let pod = Pod {
        node_name: Some("n0".into()),
        pod_ip: Some(address),
        pod_ips: Box::new([address]),
        has_pod_ip: true,
        ready: Some(ReadyCondition { is_true, last_transition: None }),
        ..Pod::default()
    };
    Pod {
        key: kube_endpoint_core_model::ObjectKey::new("ns", format!("p{number:02}")),
        uid: format!("uid-{number}").into(),
        ..pod
    }
}

/// Plans from these changes of ten pods. Returns the number of updates, or `None` if the plan needs
/// all pods.
fn updates(changes: &[(usize, Option<Pod>)], edit: fn(&mut ClusterState)) -> Option<usize> {
    let (mut cluster, state) = settled(10);
    edit(&mut cluster);
    let changed = changes.iter().map(|(number, now)| ChangedPod {
        name: format!("p{number:02}").into(),
        now: now.clone().map(Arc::new),
        ..ChangedPod::default()
    });
    let changed: Vec<ChangedPod> = changed.collect();
    let (plan, _) = cluster.with_inputs(|inputs| state.plan(inputs, &changed))?;
    Some(plan.write_count())
}

#[test]
fn changes_of_single_slices_are_planned_from_the_changed_pods() {
    let check = |changes: &[(usize, Option<Pod>)], want: Option<usize>| {
        assert_eq!(updates(changes, |_| ()), want, "{changes:?}");
    };
    let (ready, unready) = (|number| Some(ready_pod(number, true)), |number| Some(ready_pod(number, false)));
    let moved = |number, to| Some(Pod { key: ready_pod(number, true).key, ..ready_pod(to, true) });
    check(&[], Some(0));
    check(&[(3, ready(3))], Some(0));
    check(&[(3, unready(3))], Some(1));
    check(&[(3, unready(3)), (4, unready(4))], Some(2));
    check(&[(3, None)], Some(1));
    check(&[(3, None), (10, ready(10))], Some(1));
    // The pod goes into the slice with room.
    check(&[(10, ready(10))], Some(1));
    check(&[(10, ready(10)), (11, ready(11))], Some(1));
    check(&[(3, moved(3, 30))], Some(1));
    // The plan has to create or delete a slice.
    check(&[(10, ready(10)), (11, ready(11)), (12, ready(12))], None);
    check(&[(8, None), (9, None)], None);
    // A node is missing.
    check(&[(3, Some(Pod { node_name: None, ..ready_pod(3, true) }))], None);
}

#[test]
fn a_state_counts_only_for_what_it_was_made_from() {
    let check = |edit: fn(&mut ClusterState), kept: bool| {
        assert_eq!(updates(&[(3, Some(ready_pod(3, false)))], edit).is_some(), kept);
    };
    fn edited(cluster: &mut ClusterState, edit: impl FnOnce(&mut EndpointSlice)) {
        edit(Arc::make_mut(&mut cluster.existing_slices.as_mut().unwrap()[1]));
    }
    check(|_| (), true);
    check(|cluster| cluster.service.resource_version.0 += 1, true);
    check(|cluster| cluster.service.ports[0].port += 1, false);
    check(|cluster| cluster.service.labels = [("a", "b")].into_iter().collect(), false);
    check(|cluster| cluster.options.max_endpoints_per_slice = 5, false);
    check(|cluster| edited(cluster, |slice| slice.metadata.resource_version.0 += 1), true);
    check(
        |cluster| edited(cluster, |slice| slice.metadata.annotations = [("a", "b")].into_iter().collect()),
        true,
    );
    check(
        |cluster| edited(cluster, |slice| slice.metadata.labels = [("a", "b")].into_iter().collect()),
        false,
    );
    let headless = |cluster: &mut ClusterState| {
        edited(cluster, |slice| slice.metadata.labels = slice.metadata.labels.with(LABEL_HEADLESS, ""));
    };
    check(headless, false);
    check(|cluster| edited(cluster, |slice| slice.metadata.owner_references.clear()), false);
    check(|cluster| edited(cluster, |slice| slice.endpoints[0].conditions.ready = None), false);
    check(|cluster| edited(cluster, |slice| slice.ports.clear()), false);
    check(|cluster| drop(cluster.existing_slices.as_mut().unwrap().pop()), false);
}

/// The histories above would prove nothing if all of them were planned from all pods.
#[test]
fn most_plans_of_a_history_are_made_from_the_changed_pods() {
    let mut planned = Planned::default();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..150 {
        let history = history().new_tree(&mut runner).unwrap().current();
        play(&history, &mut planned).unwrap();
    }
    assert!(planned.changed * 4 > planned.all, "{planned:?}");
}
