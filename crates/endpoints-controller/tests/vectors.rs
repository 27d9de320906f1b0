//! Compares plans with the recorded results of upstream's controller for random inputs.

use std::io::{BufRead, BufReader};
use std::sync::Arc;

use flate2::read::GzDecoder;
use kube_endpoint_core_model::well_known::ANNOTATION_TRIGGER_TIME;
use kube_endpoint_core_model::{Endpoints, Pod, Service, Writes};
use kube_endpoint_endpoints_controller::plan::{PlanInputs, PlanOptions, plan};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    id: String,
    service: Service,
    pods: Vec<Arc<Pod>>,
    existing_endpoints: Option<Endpoints>,
    expect: Expect,
}

#[derive(Deserialize)]
struct Expect {
    action: String,
    endpoints: Option<Endpoints>,
}

fn lines() -> Vec<Line> {
    let packed = include_bytes!("vectors/endpoints-1.jsonl.gz");
    let lines = BufReader::new(GzDecoder::new(&packed[..])).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
}

fn planned(line: &Line, options: &PlanOptions) -> (&'static str, Option<Endpoints>) {
    let inputs = PlanInputs::new(&line.service, &line.pods)
        .with_existing(line.existing_endpoints.as_ref())
        .with_options(options);
    let Writes { mut create, mut update, delete } = plan(&inputs).writes;
    assert!(create.len() + update.len() <= 1 && delete.is_empty(), "{}", line.id);
    match (create.pop(), update.pop()) {
        (Some(created), _) => ("create", Some(created)),
        (None, Some(updated)) => ("update", Some(updated)),
        (None, None) => ("none", None),
    }
}

/// Sorts subsets and addresses, whose order has no meaning; removes the trigger time, which is not
/// recorded; and sets the namespace, which upstream leaves empty in objects that it creates.
fn comparable(mut endpoints: Endpoints) -> Endpoints {
    endpoints.metadata.annotations = endpoints.metadata.annotations.without(ANNOTATION_TRIGGER_TIME);
    endpoints.metadata.namespace = "ns".into();
    let subsets = endpoints.subsets.listed_mut().unwrap();
    for subset in &mut *subsets {
        subset.addresses.sort();
        subset.not_ready_addresses.sort();
        subset.ports.sort();
    }
    subsets.sort();
    endpoints
}

#[test]
fn with_upstreams_options_every_result_is_upstreams() {
    let lines = lines();
    assert_eq!(lines.len(), 300);
    for line in lines {
        let (action, got) = planned(&line, &PlanOptions::upstream());
        assert_eq!(action, line.expect.action, "{}", line.id);
        assert_eq!(got.map(comparable), line.expect.endpoints.map(comparable), "{}", line.id);
    }
}

/// With the default options the plan does not write these: the Service itself has the headless
/// label, and upstream writes an object that equals the existing one.
const WRITES_LESS: [&str; 11] = [
    "1-9-1", "1-9-2", "1-19-1", "1-30-1", "1-35-1", "1-36-2", "1-57-2", "1-71-1", "1-72-1", "1-72-2",
    "1-81-2",
];

#[test]
fn with_default_options_the_result_is_the_same_or_nothing_is_written() {
    let mut less = Vec::new();
    for line in lines() {
        let (ours, upstream) =
            (planned(&line, &PlanOptions::default()), planned(&line, &PlanOptions::upstream()));
        if ours == upstream {
            continue;
        }
        assert_eq!((ours.0, upstream.0), ("none", "update"), "{}", line.id);
        let (there, written) = (line.existing_endpoints.unwrap(), line.expect.endpoints.unwrap());
        assert_eq!(comparable(there), comparable(written), "{}", line.id);
        less.push(line.id);
    }
    assert_eq!(less, WRITES_LESS);
}
