//! Properties of all plans, checked on random histories.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::common::random::{Step, steps};
use crate::common::{ClusterState, missed, published};
use kube_endpoint_core_model::{AddressType, EndpointSlice, Text, Verdict, slice_labels};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

fn existing(cluster: &ClusterState) -> &[Arc<EndpointSlice>] {
    cluster.existing_slices.as_deref().unwrap_or_default()
}

/// Carries out the plan of each step in turn, and checks a property in each.
fn history(steps: &[Step], mut check: impl FnMut(&ClusterState) -> TestCaseResult) -> TestCaseResult {
    let mut before = None;
    for step in steps {
        let cluster = step.cluster(before.take());
        check(&cluster)?;
        before = Some(cluster.after(&cluster.plan()));
    }
    Ok(())
}

fn is_complete(cluster: &ClusterState) -> TestCaseResult {
    let plan = cluster.plan();
    let again = cluster.after(&plan).plan();
    prop_assert!(again.is_empty(), "first\n{plan}\nthen\n{again}");
    Ok(())
}

fn ignores_the_order_of_inputs(cluster: &ClusterState) -> TestCaseResult {
    let mut reversed = cluster.clone();
    reversed.pods.reverse();
    reversed.nodes.reverse();
    reversed.existing_slices.iter_mut().for_each(|slices| slices.reverse());
    prop_assert_eq!(cluster.plan(), reversed.plan());
    Ok(())
}

fn publishes_each_endpoint_once(cluster: &ClusterState) -> TestCaseResult {
    let plan = cluster.plan();
    let after = cluster.after(&plan);
    for slice in existing(&after) {
        prop_assert!(slice.endpoints.len() <= cluster.options.max_endpoints_per_slice, "{plan}");
    }
    let is_published = |name: &Text| {
        let verdict = plan.verdicts.iter().find(|verdict| verdict.pod.name == *name).map(|one| &one.verdict);
        matches!(verdict, Some(Verdict::Published { .. }))
    };
    let mut wanted = BTreeMap::new();
    for pod in cluster.pods.iter().filter(|pod| is_published(&pod.key.name)) {
        for family in cluster.service.slice_families() {
            if pod.addresses(family).next().is_some() {
                wanted.insert((AddressType::from(family), pod.key.name.clone()), 1);
            }
        }
    }
    prop_assert_eq!(published(existing(&after), false), wanted, "{}", plan);
    let endpoints: usize = existing(&after).iter().map(|slice| slice.endpoints.len()).sum();
    prop_assert_eq!(plan.endpoints(), endpoints);
    prop_assert_eq!(plan.slices(), existing(&after).len());
    prop_assert_eq!(plan.verdicts.len(), cluster.pods.len());
    Ok(())
}

/// Checks that every pod that is ready before and after the sync is ready in some slice after each
/// single write.
fn keeps_ready_pods_published(cluster: &ClusterState) -> TestCaseResult {
    let plan = cluster.plan();
    prop_assert_eq!(missed(cluster, &plan), None, "after a write of\n{}", plan);
    Ok(())
}

/// Checks that no single write makes a pod ready that was not ready before the sync and is not
/// ready after it.
fn makes_only_ready_pods_ready(cluster: &ClusterState) -> TestCaseResult {
    let plan = cluster.plan();
    let states = cluster.states(&plan);
    let Some(last) = states.last() else { return Ok(()) };
    let (before, after) = (published(existing(cluster), true), published(last, true));
    for pod in states.iter().flat_map(|state| published(state, true).into_keys()) {
        prop_assert!(before.contains_key(&pod) || after.contains_key(&pod), "{:?} in\n{}", pod, plan);
    }
    Ok(())
}

/// Checks the label: kube-proxy ignores slices with it, and reads those of headless Services
/// without it for nothing.
fn labels_slices_of_headless_services_only(cluster: &ClusterState) -> TestCaseResult {
    let mut cluster = cluster.clone();
    cluster.options.headless_label_repair = true;
    let plan = cluster.plan();
    for slice in existing(&cluster.after(&plan)) {
        let is_right = slice_labels::headless_label_is_right(&slice.metadata.labels, &cluster.service);
        prop_assert!(is_right, "{:?} {}\n{plan}", cluster.service.cluster_ip, slice.metadata.name);
    }
    Ok(())
}

fn merging_adds_at_most_one_write(cluster: &ClusterState) -> TestCaseResult {
    let mut off = cluster.clone();
    off.options.slice_compaction = false;
    let mut on = cluster.clone();
    on.options.slice_compaction = true;
    let (without, with) = (off.plan(), on.plan());
    prop_assert!(with.write_count() <= without.write_count() + 1, "without\n{without}\nwith\n{with}");
    prop_assert!(existing(&on.after(&with)).len() <= existing(&off.after(&without)).len());
    Ok(())
}

/// Checks that every pod that is published before and after the sync, ready or not, is in some
/// slice after each single write, unless this also fails for the plan without merging.
fn merging_keeps_pods_published(cluster: &ClusterState) -> TestCaseResult {
    let interrupted = |cluster: &ClusterState| {
        let plan = cluster.plan();
        let states = cluster.states(&plan);
        let all =
            |slices: &[Arc<EndpointSlice>]| published(slices, false).into_keys().collect::<BTreeSet<_>>();
        let after = states.last().map(|slices| all(slices)).unwrap_or_default();
        let stays: BTreeSet<_> = all(existing(cluster)).intersection(&after).cloned().collect();
        states.iter().any(|slices| !stays.is_subset(&all(slices))).then(|| plan.to_string())
    };
    let mut off = cluster.clone();
    off.options.slice_compaction = false;
    let mut on = cluster.clone();
    on.options.slice_compaction = true;
    if interrupted(&off).is_none() {
        prop_assert_eq!(interrupted(&on), None);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_carried_out_leaves_nothing_to_write(steps in steps()) {
        history(&steps, is_complete)?;
    }

    #[test]
    fn the_order_of_inputs_does_not_matter(steps in steps()) {
        history(&steps, ignores_the_order_of_inputs)?;
    }

    #[test]
    fn each_wanted_endpoint_is_published_once(steps in steps()) {
        history(&steps, publishes_each_endpoint_once)?;
    }

    #[test]
    fn ready_pods_stay_published_during_a_sync(steps in steps()) {
        history(&steps, keeps_ready_pods_published)?;
    }

    #[test]
    fn no_write_makes_a_pod_ready_that_is_not(steps in steps()) {
        history(&steps, makes_only_ready_pods_ready)?;
    }

    #[test]
    fn slices_have_the_headless_label_if_their_service_is_headless(steps in steps()) {
        history(&steps, labels_slices_of_headless_services_only)?;
    }

    #[test]
    fn merging_slices_keeps_pods_published(steps in steps()) {
        history(&steps, merging_keeps_pods_published)?;
    }

    #[test]
    fn merging_slices_adds_at_most_one_write(steps in steps()) {
        history(&steps, merging_adds_at_most_one_write)?;
    }
}
