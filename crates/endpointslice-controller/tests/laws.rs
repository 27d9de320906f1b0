//! Laws that hold for plans of all inputs, checked on random histories.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use common::random::{Step, steps};
use common::{World, missed, published};
use kube_endpoint_core_model::{AddressType, EndpointSlice, Text, Verdict};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

fn existing(world: &World) -> &[Arc<EndpointSlice>] {
    world.existing_slices.as_deref().unwrap_or_default()
}

/// Runs a history and checks one law in each step.
fn history(steps: &[Step], mut law: impl FnMut(&World) -> TestCaseResult) -> TestCaseResult {
    let mut before = None;
    for step in steps {
        let world = step.world(before.take());
        law(&world)?;
        before = Some(world.after(&world.plan()));
    }
    Ok(())
}

fn carried_out_once_and_for_all(world: &World) -> TestCaseResult {
    let plan = world.plan();
    let again = world.after(&plan).plan();
    prop_assert!(again.is_empty(), "first\n{plan}\nthen\n{again}");
    Ok(())
}

fn whatever_the_order(world: &World) -> TestCaseResult {
    let mut turned = world.clone();
    turned.pods.reverse();
    turned.nodes.reverse();
    turned.existing_slices.iter_mut().for_each(|slices| slices.reverse());
    prop_assert_eq!(world.plan(), turned.plan());
    Ok(())
}

fn each_endpoint_once_and_no_slice_too_large(world: &World) -> TestCaseResult {
    let plan = world.plan();
    let after = world.after(&plan);
    for slice in existing(&after) {
        prop_assert!(slice.endpoints.len() <= world.options.max_endpoints_per_slice, "{plan}");
    }
    let is_published = |name: &Text| {
        let verdict = plan.verdicts.iter().find(|verdict| verdict.pod.name == *name).map(|one| &one.verdict);
        matches!(verdict, Some(Verdict::Published { .. }))
    };
    let mut wanted = BTreeMap::new();
    for pod in world.pods.iter().filter(|pod| is_published(&pod.key.name)) {
        for family in world.service.slice_families() {
            if pod.addresses(family).next().is_some() {
                wanted.insert((AddressType::from(family), pod.key.name.clone()), 1);
            }
        }
    }
    prop_assert_eq!(published(existing(&after), false), wanted, "{}", plan);
    let endpoints: usize = existing(&after).iter().map(|slice| slice.endpoints.len()).sum();
    prop_assert_eq!(plan.endpoints(), endpoints);
    prop_assert_eq!(plan.slices(), existing(&after).len());
    prop_assert_eq!(plan.verdicts.len(), world.pods.len());
    Ok(())
}

/// Whoever is ready before and after is ready in some slice after each single write.
fn nobody_is_missed(world: &World) -> TestCaseResult {
    let plan = world.plan();
    prop_assert_eq!(missed(world, &plan), None, "after a write of\n{}", plan);
    Ok(())
}

fn compaction_adds_one_write_at_most(world: &World) -> TestCaseResult {
    let mut off = world.clone();
    off.options.slice_compaction = false;
    let mut on = world.clone();
    on.options.slice_compaction = true;
    let (without, with) = (off.plan(), on.plan());
    prop_assert!(with.write_count() <= without.write_count() + 1, "without\n{without}\nwith\n{with}");
    prop_assert!(existing(&on.after(&with)).len() <= existing(&off.after(&without)).len());
    Ok(())
}

/// Whoever is published before and after, ready or not, is in some slice after each single write, unless the plan
/// without merging hides somebody who is not ready as well.
fn compaction_hides_nobody(world: &World) -> TestCaseResult {
    let hides = |world: &World| {
        let plan = world.plan();
        let states = world.states(&plan);
        let all =
            |slices: &[Arc<EndpointSlice>]| published(slices, false).into_keys().collect::<BTreeSet<_>>();
        let after = states.last().map(|slices| all(slices)).unwrap_or_default();
        let stays: BTreeSet<_> = all(existing(world)).intersection(&after).cloned().collect();
        states.iter().any(|slices| !stays.is_subset(&all(slices))).then(|| plan.to_string())
    };
    let mut off = world.clone();
    off.options.slice_compaction = false;
    let mut on = world.clone();
    on.options.slice_compaction = true;
    if hides(&off).is_none() {
        prop_assert_eq!(hides(&on), None);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_carried_out_leaves_nothing_to_write(steps in steps()) {
        history(&steps, carried_out_once_and_for_all)?;
    }

    #[test]
    fn the_order_of_inputs_does_not_matter(steps in steps()) {
        history(&steps, whatever_the_order)?;
    }

    #[test]
    fn each_wanted_endpoint_is_published_once(steps in steps()) {
        history(&steps, each_endpoint_once_and_no_slice_too_large)?;
    }

    #[test]
    fn whoever_watches_misses_nobody(steps in steps()) {
        history(&steps, nobody_is_missed)?;
    }

    #[test]
    fn merging_slices_hides_nobody(steps in steps()) {
        history(&steps, compaction_hides_nobody)?;
    }

    #[test]
    fn merging_slices_costs_one_write(steps in steps()) {
        history(&steps, compaction_adds_one_write_at_most)?;
    }
}
