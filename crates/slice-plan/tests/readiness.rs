//! Services with at most one ready endpoint: random histories of leaders.

use std::sync::Arc;

use kube_endpoint_core_model::change::ChangedPod;
use kube_endpoint_core_model::pod::{PrefixedCondition, RareFields};
use kube_endpoint_core_model::readiness::chosen_pods_in;
use kube_endpoint_core_model::{AddressType, EndpointSlice, Pick, ReadyPods, Role, Timestamp};
use kube_endpoint_slice_plan::plan_and_keep;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::common::build::{unready, web};
use crate::common::random::{Step, steps};
use crate::common::{ClusterState, published};

const LEADER: &str = "shop.example/leader";

/// How the leader of a step is chosen.
#[derive(Clone, Debug)]
enum Leader {
    /// By the holder of a Lease: a pod, by number, or nobody.
    Lease(Option<usize>),
    /// By a condition that changed to true at these seconds, by number of the pod.
    Newest(Vec<Option<i64>>),
}

fn leader() -> impl Strategy<Value = Leader> {
    prop_oneof![
        proptest::option::weighted(0.9, 0..12_usize).prop_map(Leader::Lease),
        proptest::collection::vec(proptest::option::of(0..4_i64), 1..6).prop_map(Leader::Newest),
    ]
}

fn choose(cluster: &mut ClusterState, leader: &Leader) {
    cluster.ready_pods = Some(match leader {
        Leader::Lease(number) => {
            let pod = number.and_then(|number| cluster.pods.get(number % cluster.pods.len().max(1)));
            ReadyPods::Leader(pod.map(|pod| pod.key.name.clone()))
        }
        Leader::Newest(times) => {
            for (pod, time) in cluster.pods.iter_mut().zip(times.iter().cycle()) {
                let condition = time.map(|time| PrefixedCondition {
                    kind: LEADER.into(),
                    is_true: true,
                    last_transition: Some(Timestamp::from_second(time).unwrap()),
                });
                let conditions = condition.into_iter().collect();
                Arc::make_mut(pod).rare = RareFields { conditions, ..RareFields::default() }.boxed();
            }
            ReadyPods::Condition { kind: LEADER.into(), pick: Pick::Newest }
        }
    });
}

/// Returns the families in which more than one endpoint is ready.
fn with_two(slices: &[Arc<EndpointSlice>]) -> Vec<AddressType> {
    let ready = published(slices, true);
    let count = |family: AddressType| -> usize {
        ready.iter().filter(|((of, _), _)| *of == family).map(|(_, count)| count).sum()
    };
    [AddressType::IPv4, AddressType::IPv6].into_iter().filter(|family| count(*family) > 1).collect()
}

/// Carries out the plans of each step until one is not to be repeated. Checks that no write leaves
/// two ready endpoints, and that the last plan publishes the leader.
fn history(steps: &[(Step, Leader)]) -> TestCaseResult {
    let mut before = None;
    for (step, leader) in steps {
        let mut cluster = step.cluster(before.take());
        choose(&mut cluster, leader);
        let publishes_all = cluster.service.publish_not_ready_addresses;
        for attempt in 0.. {
            prop_assert!(attempt < 2, "a third plan for one leader");
            let plan = cluster.plan();
            let had_two = with_two(cluster.existing_slices.as_deref().unwrap_or_default());
            for slices in cluster.states(&plan) {
                let two = with_two(&slices);
                let new: Vec<_> = two.iter().filter(|family| !had_two.contains(family)).collect();
                prop_assert!(publishes_all || new.is_empty(), "{new:?} after a write of\n{plan}");
            }
            cluster = cluster.after(&plan);
            if !plan.again {
                let slices = cluster.existing_slices.as_deref().unwrap_or_default();
                prop_assert!(publishes_all || with_two(slices).is_empty(), "{plan}");
                let rest = cluster.plan();
                prop_assert!(rest.is_empty() && !rest.again, "first\n{plan}\nthen\n{rest}");
                break;
            }
        }
        before = Some(cluster);
    }
    Ok(())
}

/// Six pods in two slices. The first pod leads.
fn six_pods() -> ClusterState {
    let mut cluster = web(&["a"]).pods(&[("a", 6)]);
    cluster.options.max_endpoints_per_slice = 3;
    leads(&mut cluster, 0);
    cluster.synced()
}

fn leads(cluster: &mut ClusterState, pod: usize) {
    cluster.ready_pods = Some(ReadyPods::Leader(Some(cluster.pods[pod].key.name.clone())));
}

#[test]
fn a_leader_in_the_same_slice_takes_one_write() {
    let mut cluster = six_pods();
    leads(&mut cluster, 1);
    let plan = cluster.plan();
    assert!(!plan.again && plan.write_count() == 1, "{plan}");
    insta::assert_snapshot!(plan);
}

#[test]
fn a_leader_in_another_slice_takes_two_plans() {
    let mut cluster = six_pods();
    leads(&mut cluster, 5);
    let first = cluster.plan();
    assert!(first.again && first.write_count() == 1, "{first}");
    let after = cluster.after(&first);
    assert!(published(after.existing_slices.as_deref().unwrap(), true).is_empty());
    let second = after.plan();
    assert!(!second.again && second.write_count() == 1, "{second}");
    insta::assert_snapshot!(second);
}

/// It may become ready before the second write, and after a crash both would count as chosen.
#[test]
fn a_leader_that_is_not_ready_is_no_longer_chosen_before_another_is() {
    let mut cluster = six_pods().pod(0, unready).synced();
    leads(&mut cluster, 5);
    let first = cluster.plan();
    assert!(first.again && first.write_count() == 1, "{first}");
    let after = cluster.after(&first);
    assert!(chosen_pods_in(after.existing_slices.as_deref().unwrap()).is_empty());
    let second = after.plan();
    assert!(!second.again && second.write_count() == 1, "{second}");
}

#[test]
fn without_a_leader_no_endpoint_is_ready() {
    let mut cluster = six_pods();
    cluster.ready_pods = Some(ReadyPods::Leader(None));
    let plan = cluster.plan();
    assert!(published(cluster.after(&plan).existing_slices.as_deref().unwrap(), true).is_empty());
    assert!(!plan.again && plan.write_count() == 1, "{plan}");
}

#[test]
fn a_service_that_publishes_pods_that_are_not_ready_takes_one_plan() {
    let mut cluster = six_pods().service(|service| service.publish_not_ready_addresses = true).synced();
    leads(&mut cluster, 5);
    let plan = cluster.plan();
    assert!(!plan.again, "{plan}");
    let slices = cluster.after(&plan).existing_slices.unwrap();
    assert_eq!(published(&slices, true).len(), 6);
    let serving =
        slices.iter().flat_map(|slice| &slice.endpoints).filter(|it| it.conditions.serving == Some(true));
    assert_eq!(serving.count(), 1);
}

/// Followers may be many, so the next plan needs only the pods that changed, and no second plan.
#[test]
fn a_leader_in_another_slice_leaves_its_followers_in_one_plan() {
    let follow = |cluster: &mut ClusterState, pod: usize| {
        cluster.ready_pods = Some(Role::Follower.beside(Some(cluster.pods[pod].key.name.clone())));
    };
    let ready = |cluster: &ClusterState| published(cluster.existing_slices.as_deref().unwrap(), true).len();
    let mut cluster = six_pods();
    follow(&mut cluster, 0);
    let mut cluster = cluster.synced();
    assert_eq!(ready(&cluster), 5);
    follow(&mut cluster, 5);
    let plan = cluster.plan();
    assert!(!plan.again && plan.write_count() == 2, "{plan}");
    let cluster = cluster.after(&plan);
    assert_eq!(ready(&cluster), 5);

    let (_, state) = cluster.with_inputs(plan_and_keep);
    let state = state.unwrap();
    let changed = |pod: usize| {
        let pod = cluster.pods[pod].clone();
        vec![ChangedPod { name: pod.key.name.clone(), now: Some(pod), ..ChangedPod::default() }]
    };
    for pod in [0, 5] {
        let changed = changed(pod);
        let (plan, _) = cluster.with_inputs(|inputs| state.clone().plan(inputs, &changed)).unwrap();
        assert_eq!(plan.write_count(), 0, "a pod that leads or follows as before: {plan}");
    }
    let mut other = cluster.clone();
    follow(&mut other, 0);
    assert!(other.with_inputs(|inputs| state.plan(inputs, &[])).is_none());
}

/// With `All`, each pod decides for itself, so the next plan needs only the pods that changed.
#[test]
fn a_state_is_kept_while_the_condition_is_the_same() {
    let mut cluster = web(&["a"]).pods(&[("a", 3)]);
    cluster.ready_pods = Some(ReadyPods::Condition { kind: LEADER.into(), pick: Pick::All });
    let cluster = cluster.synced();
    let (_, state) = cluster.with_inputs(plan_and_keep);
    let state = state.unwrap();
    assert!(cluster.with_inputs(|inputs| state.clone().plan(inputs, &[])).is_some());
    let mut other = cluster;
    other.ready_pods = None;
    assert!(other.with_inputs(|inputs| state.plan(inputs, &[])).is_none());
    other.ready_pods = Some(ReadyPods::Leader(None));
    assert!(other.with_inputs(plan_and_keep).1.is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_write_leaves_two_ready_endpoints(steps in leaders()) {
        history(&steps)?;
    }
}

fn leaders() -> impl Strategy<Value = Vec<(Step, Leader)>> {
    (steps(), proptest::collection::vec(leader(), 1..8))
        .prop_map(|(steps, leaders)| steps.into_iter().zip(leaders.into_iter().cycle()).collect())
}
