//! Compares plans with the recorded results of upstream's controller for random inputs.
#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking, as a test does")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::sync::Arc;

use crate::common::apply;
use flate2::read::GzDecoder;
use kube_endpoint_core_model::{Endpoint, EndpointSlice, Endpoints, Service};
use kube_endpoint_mirroring::plan::{PlanInputs, PlanOptions, plan};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    id: String,
    max_endpoints_per_subset: usize,
    service: Option<Service>,
    endpoints: Option<Endpoints>,
    existing_slices: Option<Vec<Arc<EndpointSlice>>>,
    expect: Expect,
}

#[derive(Deserialize)]
struct Expect {
    creates: usize,
    updates: usize,
    deletes: usize,
    events: Option<Vec<String>>,
    groups: Option<Vec<Value>>,
}

fn lines() -> Vec<Line> {
    let packed = include_bytes!("vectors/mirroring-1.jsonl.gz");
    let lines = BufReader::new(GzDecoder::new(&packed[..])).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
}

/// Merges slices that differ only in their endpoints, into the form of the recorded results.
fn groups(slices: &[Arc<EndpointSlice>]) -> Vec<Value> {
    let mut groups: BTreeMap<String, (Value, Vec<usize>, Vec<&Endpoint>)> = BTreeMap::new();
    for slice in slices {
        let owners: Vec<_> = slice.metadata.owner_references.iter().map(|owner| owner.uid.clone()).collect();
        let mut ports = slice.ports.clone();
        ports.sort();
        let head = json!({
            "addressType": slice.address_type, "ports": ports, "labels": slice.metadata.labels,
            "annotations": slice.metadata.annotations, "ownerUids": owners,
        });
        let (_, sizes, endpoints) = groups.entry(head.to_string()).or_insert((head, vec![], vec![]));
        sizes.push(slice.endpoints.len());
        endpoints.extend(&slice.endpoints);
    }
    let whole = groups.into_values().map(|(mut head, mut sizes, endpoints)| {
        sizes.sort_by(|a, b| b.cmp(a));
        head["sizes"] = json!(sizes);
        head["endpoints"] = endpoints.into_iter().map(|endpoint| json!(endpoint)).collect();
        head
    });
    sorted(whole.collect())
}

/// Sorts lists, whose order has no meaning in the recordings, and replaces null annotations by
/// empty ones.
fn sorted(mut groups: Vec<Value>) -> Vec<Value> {
    for group in &mut groups {
        if group["annotations"].is_null() {
            group["annotations"] = json!({});
        }
        for list in ["endpoints", "ports"] {
            if let Some(list) = group[list].as_array_mut() {
                list.sort_by_key(Value::to_string);
            }
        }
    }
    groups.sort_by_key(Value::to_string);
    groups
}

/// Vectors for which the plan has fewer writes than upstream, with the same result: the Endpoints
/// have a label that the controller sets on slices, and upstream considers it missing at every
/// sync.
const WRITES_LESS: [&str; 1] = ["1-100-2"];

#[test]
fn every_result_is_upstreams_with_at_most_as_many_writes() {
    let lines = lines();
    assert_eq!(lines.len(), 350);
    let mut less = Vec::new();
    for line in &lines {
        let options = PlanOptions::default()
            .with_max_endpoints_per_subset(line.max_endpoints_per_subset)
            .with_headless_label_repair(false);
        let existing = line.existing_slices.clone().unwrap_or_default();
        let plan = plan(
            &PlanInputs::new(line.service.as_ref(), line.endpoints.as_ref())
                .with_existing_slices(&existing)
                .with_options(&options),
        );
        let after = groups(&apply(existing, &plan));
        let want = sorted(line.expect.groups.clone().unwrap_or_default());
        let mut events: Vec<String> = plan.events.iter().map(ToString::to_string).collect();
        events.sort();
        let writes = plan.writes.len();
        let upstream = line.expect.creates + line.expect.updates + line.expect.deletes;
        assert_eq!(after, want, "{}", line.id);
        assert_eq!(events, line.expect.events.clone().unwrap_or_default(), "{}", line.id);
        assert!(writes <= upstream, "{}: {writes} writes, upstream {upstream}", line.id);
        if writes < upstream {
            less.push(line.id.as_str());
        }
    }
    assert_eq!(less, WRITES_LESS);
}
