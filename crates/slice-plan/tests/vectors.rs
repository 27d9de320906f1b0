//! Compares plans with the recorded results of upstream's reconciler (Kubernetes 1.36.2) for the
//! same inputs.

use std::collections::BTreeMap;
use std::io::Read;

use crate::common::ClusterState;
use kube_endpoint_core_model::{Endpoint, EndpointSlice};
use serde::Deserialize;
use serde_json::{Value, json};

/// Vectors for which the plan has fewer writes than upstream, with the same result.
const WRITES_LESS: &[&str] = &["1-1-1", "1-19-1", "1-53-2", "1-107-1"];

/// Vectors for which the plan with the gate `SafeWriteOrder` has more writes, and may pack
/// differently, to keep every ready pod published: ready pods move between slices in a cycle, so
/// that upstream's updates, in any order, remove some pod from one slice before they add it to
/// another. The plan creates a slice first.
const SAFER: &[&str] = &["1-4-1", "1-62-1", "1-88-2"];

/// All vectors with such cycles; in some of them a create replaces an update.
const CYCLES: &[&str] = &["1-4-1", "1-32-2", "1-62-1", "1-88-2", "1-98-2"];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Vector {
    pub(crate) id: String,
    max_endpoints_per_slice: usize,
    #[serde(flatten)]
    cluster: Value,
    expect: Expect,
}

#[derive(Deserialize)]
struct Expect {
    creates: usize,
    updates: usize,
    deletes: usize,
    #[serde(default)]
    error: Option<String>,
    events: Option<Vec<String>>,
    groups: Option<Vec<Value>>,
}

pub(crate) fn vectors() -> Vec<Vector> {
    let mut text = String::new();
    let packed = &include_bytes!("vectors/endpointslice-1.jsonl.gz")[..];
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the cluster of a vector. The gate `HeadlessLabelRepair` is off: with it, some plans
/// write more than upstream.
pub(crate) fn cluster(vector: &Vector, safe_write_order: bool) -> ClusterState {
    let mut cluster: ClusterState = serde_json::from_value(vector.cluster.clone()).unwrap();
    cluster.options.headless_label_repair = false;
    cluster.options.safe_write_order = safe_write_order;
    cluster.options.max_endpoints_per_slice = vector.max_endpoints_per_slice;
    cluster
}

/// Merges slices with equal address type, ports and labels, into the form of the recorded results.
fn groups(slices: &[std::sync::Arc<EndpointSlice>], count_hints: bool) -> Vec<Value> {
    let mut groups: BTreeMap<String, (Value, Vec<usize>, Vec<&Endpoint>)> = BTreeMap::new();
    for slice in slices {
        let mut ports: Vec<Value> = slice.ports.iter().map(|port| json!(port)).collect();
        ports.sort_by_key(Value::to_string);
        let head =
            json!({"addressType": slice.address_type, "ports": ports, "labels": slice.metadata.labels});
        let (_, sizes, endpoints) =
            groups.entry(head.to_string()).or_insert_with(|| (head, Vec::new(), Vec::new()));
        sizes.push(slice.endpoints.len());
        endpoints.extend(&slice.endpoints);
    }
    let group = |(mut head, mut sizes, endpoints): (Value, Vec<usize>, Vec<&Endpoint>)| {
        sizes.sort_unstable_by(|one, two| two.cmp(one));
        let mut hint_counts: BTreeMap<String, usize> = BTreeMap::new();
        let shown = endpoints.into_iter().map(|endpoint| {
            let mut shown = endpoint.clone();
            if count_hints {
                let hints = shown.hints.take().unwrap_or_default();
                let to: Vec<&str> = hints.for_zones.iter().map(|hint| &*hint.name).collect();
                let to = if to.is_empty() { "-".to_owned() } else { to.join(",") };
                *hint_counts.entry(format!("{}->{to}", shown.zone.as_deref().unwrap_or("-"))).or_default() +=
                    1;
            }
            json!(shown)
        });
        head["endpoints"] = sorted(shown.collect());
        head["sizes"] = json!(sizes);
        if !hint_counts.is_empty() {
            head["hintCounts"] = json!(hint_counts);
        }
        head
    };
    let mut groups: Vec<Value> = groups.into_values().map(group).collect();
    groups.sort_by_key(Value::to_string);
    groups
}

fn sorted(mut values: Vec<Value>) -> Value {
    values.sort_by_key(Value::to_string);
    Value::Array(values)
}

/// Sorts the recorded groups as ours are sorted; null lists become empty.
fn recorded(groups: Option<Vec<Value>>) -> Vec<Value> {
    let mut groups = groups.unwrap_or_default();
    for group in &mut groups {
        for list in ["endpoints", "ports"] {
            group[list] = sorted(group[list].as_array().cloned().unwrap_or_default());
        }
    }
    groups.sort_by_key(Value::to_string);
    groups
}

/// Compares a plan with upstream. Returns the number of writes that it saves, or the differences.
fn compare(vector: Vector, safe_write_order: bool) -> Result<usize, String> {
    let cluster = cluster(&vector, safe_write_order);
    let plan = cluster.plan();
    let after = cluster.after(&plan);
    let ours = groups(
        after.existing_slices.as_deref().unwrap_or_default(),
        cluster.service.topology_hints_enabled(),
    );
    let theirs = recorded(vector.expect.groups);
    let mut problems = Vec::new();
    if ours != theirs {
        for (name, one, two) in [("ours", &ours, &theirs), ("upstream", &theirs, &ours)] {
            for group in one.iter().filter(|group| !two.contains(group)) {
                problems.push(format!("only {name}: {group}"));
            }
        }
    }
    let events: Vec<String> = plan.events.iter().map(ToString::to_string).collect();
    let wanted = vector.expect.events.unwrap_or_default();
    let by_text = |events: &[String]| -> Vec<String> {
        let mut events = events.to_vec();
        events.sort_unstable();
        events
    };
    if by_text(&events) != by_text(&wanted) {
        problems.push(format!("events {events:?}, upstream {wanted:?}"));
    }
    if plan.errors.is_empty() == vector.expect.error.is_some_and(|error| !error.is_empty()) {
        problems.push(format!("errors {:?}", plan.errors));
    }
    let theirs = vector.expect.creates + vector.expect.updates + vector.expect.deletes;
    if plan.write_count() > theirs {
        problems.push(format!("{} writes, upstream {theirs}", plan.write_count()));
    }
    if problems.is_empty() { Ok(theirs - plan.write_count()) } else { Err(problems.join("\n  ")) }
}

/// Checks that all vectors have upstream's result except for those in `but`, which must differ.
fn check(safe_write_order: bool, but: &[&str]) {
    let (mut differ, mut fewer, mut named) = (Vec::new(), Vec::new(), Vec::new());
    for vector in vectors() {
        let id = vector.id.clone();
        match compare(vector, safe_write_order) {
            Err(_) if but.contains(&&*id) => named.push(id),
            Err(problems) => differ.push(format!("{id}:\n  {problems}")),
            Ok(0) => {}
            Ok(_) => fewer.push(id),
        }
    }
    assert!(differ.is_empty(), "{} differ\n{}", differ.len(), differ.join("\n"));
    assert_eq!(fewer, WRITES_LESS);
    assert_eq!(named, but);
}

#[test]
fn every_plan_has_upstreams_result() {
    check(false, &[]);
}

#[test]
fn with_the_safe_write_order_only_cycles_have_another_result() {
    check(true, SAFER);
}

#[test]
fn every_plan_keeps_ready_pods_published_and_is_complete() {
    for vector in vectors() {
        let cluster = cluster(&vector, true);
        let plan = cluster.plan();
        assert_eq!(crate::common::missed(&cluster, &plan), None, "{}\n{plan}", vector.id);
        let mut after = cluster.after(&plan);
        after.trigger_time = None;
        let again = after.plan();
        assert!(again.is_empty(), "{}\n{plan}\n{again}", vector.id);
    }
}

#[test]
fn without_the_safe_write_order_only_cycles_remove_a_ready_pod_for_a_moment() {
    let unsafe_ones: Vec<String> = vectors()
        .into_iter()
        .filter(|vector| {
            let cluster = cluster(vector, false);
            crate::common::missed(&cluster, &cluster.plan()).is_some()
        })
        .map(|vector| vector.id)
        .collect();
    assert_eq!(unsafe_ones, CYCLES);
}

#[test]
fn the_number_of_vectors_is_unchanged() {
    assert_eq!(vectors().len(), 331);
}
