//! Tests each rule of the normal form on a small snapshot, and all rules on the recordings.

use serde_json::{Value, json};

use super::super::{Compare, Scenario, Snapshot, Step, recordings};
use super::*;

const NAMESPACE: &str = "conf-1";

fn compare(json: Value) -> Compare {
    serde_json::from_value(json).unwrap()
}

fn with_slices(slices: Value) -> Snapshot {
    Snapshot { slices: serde_json::from_value(slices).unwrap(), ..inputs() }
}

fn with_endpoints(endpoints: Value) -> Snapshot {
    Snapshot { endpoints: serde_json::from_value(endpoints).unwrap(), ..inputs() }
}

/// Returns a Service `web` created at noon and a pod `p1`.
fn inputs() -> Snapshot {
    let metadata = |name: &str, uid: &str| {
        json!({"metadata": {"name": name, "uid": uid,
        "creationTimestamp": "2024-01-01T12:00:00Z"}})
    };
    Snapshot {
        services: vec![metadata("web", "uid-1")],
        pods: vec![metadata("p1", "uid-2")],
        ..Snapshot::default()
    }
}

fn normal(snapshot: &Snapshot, weakened: Value) -> Value {
    normal_form(snapshot, NAMESPACE, &compare(weakened))
}

/// Checks the slices of the normal form without any weakening.
fn check_slices(slices: Value, want: Value) {
    assert_eq!(normal(&with_slices(slices), json!({}))["slices"], want);
}

fn slice(endpoints: Value) -> Value {
    json!({"metadata": {"labels": {"kubernetes.io/service-name": "web"}}, "addressType": "IPv4",
        "ports": [{"port": 80}], "endpoints": endpoints})
}

fn group(sizes: Value, endpoints: Value) -> Value {
    json!({"service": "web", "addressType": "IPv4", "labels": {"kubernetes.io/service-name": "web"}, "owners": [],
        "ports": [{"name": "", "port": 80}], "annotations": [{}], "sizes": sizes, "endpoints": endpoints})
}

#[test]
fn slices_that_differ_in_head_are_apart() {
    for (pointer, value) in [
        ("/addressType", json!("IPv6")),
        ("/ports/0/port", json!(81)),
        ("/metadata/labels/kubernetes.io~1service-name", json!("other")),
    ] {
        let mut other = slice(json!([]));
        *other.pointer_mut(pointer).unwrap() = value;
        let form = normal(&with_slices(json!([slice(json!([])), other])), json!({}));
        assert_eq!(form["slices"].as_array().unwrap().len(), 2, "{pointer}");
    }
}

#[test]
fn names_versions_and_the_order_of_ports_do_not_count() {
    let made = |name: &str, ports: Value| {
        let mut made = slice(json!([]));
        made["metadata"]["name"] = json!(name);
        made["metadata"]["generateName"] = json!("web-");
        made["metadata"]["resourceVersion"] = json!(name);
        made["ports"] = ports;
        made
    };
    let form = normal(
        &with_slices(json!([
            made("1", json!([{"name": "b", "port": 1}, {"name": "a", "port": 2}])),
            made("2", json!([{"name": "a", "port": 2}, {"name": "b", "port": 1}]))
        ])),
        json!({}),
    );
    assert_eq!(form["slices"][0]["sizes"], json!([0, 0]));
    assert_eq!(form["slices"][0]["ports"], json!([{"name": "a", "port": 2}, {"name": "b", "port": 1}]));
}

#[test]
fn empty_fields_are_dropped_and_false_is_kept() {
    check_slices(
        json!([slice(
            json!([{"addresses": ["b", "a"], "hostname": "", "deprecatedTopology": {}, "nodeName": null,
            "hints": {}, "conditions": {"ready": false}}])
        )]),
        json!([group(json!([1]), json!([{"addresses": ["a", "b"], "conditions": {"ready": false}}]))]),
    );
}

#[test]
fn annotations_are_distinct_sets_with_the_trigger_time_as_a_symbol() {
    let noted = |annotations: Value| {
        let mut made = slice(json!([]));
        made["metadata"]["annotations"] = annotations;
        made
    };
    let snapshot = with_slices(json!([
        noted(json!({TRIGGER_TIME: "2024-01-01T12:00:00Z"})),
        noted(json!({TRIGGER_TIME: "2024-01-01T12:00:01Z", "x": "2024-01-01T12:00:00Z"})),
        noted(json!({TRIGGER_TIME: "2024-01-01T12:00:00Z", "empty": ""})),
        noted(json!(null)),
    ]));
    assert_eq!(
        normal(&snapshot, json!({}))["slices"][0]["annotations"],
        json!([
            {TRIGGER_TIME: "2024-01-01T12:00:01Z", "x": "2024-01-01T12:00:00Z"},
            {TRIGGER_TIME: "service.creationTimestamp"},
            {},
        ])
    );
    assert_eq!(
        normal(&snapshot, json!({"trigger": "ignore"}))["slices"][0]["annotations"],
        json!([{"x": "2024-01-01T12:00:00Z"}, {}])
    );
}

#[test]
fn endpoints_are_sorted_throughout() {
    let snapshot = with_endpoints(json!([{
        "metadata": {"name": "web", "labels": {"a": "", "b": "1"}, "annotations": {TRIGGER_TIME: "x", "e": ""}},
        "subsets": [
            {"notReadyAddresses": [{"ip": "1", "hostname": ""}], "ports": [{"port": 2, "name": "b"}, {"port": 1}]},
            {"addresses": [{"ip": "2", "targetRef": {"uid": "uid-2"}}, {"ip": "1"}], "notReadyAddresses": null},
        ],
    }]));
    let mut want = json!({"web": {
        "labels": {"a": "", "b": "1"},
        "annotations": {TRIGGER_TIME: "x"},
        "subsets": [
            {"addresses": [{"ip": "1"}, {"ip": "2", "targetRef": {"uid": "uid:Pod/p1"}}]},
            {"notReadyAddresses": [{"ip": "1"}], "ports": [{"port": 1, "name": ""}, {"port": 2, "name": "b"}]},
        ],
    }});
    assert_eq!(normal(&snapshot, json!({}))["endpoints"], want);
    want["web"]["annotations"] = json!({});
    want["web"]["subsets"][0]["addresses"] = json!(2);
    want["web"]["subsets"][1]["notReadyAddresses"] = json!(1);
    assert_eq!(normal(&snapshot, json!({"trigger": "ignore", "addresses": "counts"}))["endpoints"], want);
}

#[test]
fn events_of_endpoint_controllers_are_distinct_and_sorted() {
    let event = |reason: &str, component: &str, source: &str| {
        json!({"type": "Normal", "reason": reason,
        "involvedObject": {"kind": "Service", "name": "web"}, "reportingComponent": component,
        "source": {"component": source}})
    };
    let snapshot = Snapshot {
        events: vec![
            event("B", "endpoint-slice-controller", ""),
            event("A", "", "endpoint-controller"),
            event("B", "endpoint-slice-controller", "other"),
            event("C", "kubelet", "endpoint-controller"),
        ],
        ..Snapshot::default()
    };
    assert_eq!(
        normal(&snapshot, json!({}))["events"],
        json!(["Normal A Service/web", "Normal B Service/web"])
    );
}

#[test]
fn hints_can_be_counted() {
    let endpoint = |address: &str, zone: Value, hints: Value| {
        json!({"addresses": [address], "zone": zone,
        "hints": {"forZones": hints}})
    };
    let snapshot = with_slices(json!([slice(json!([
        endpoint("a", json!("z1"), json!([{"name": "z1"}])),
        endpoint("b", json!("z1"), json!([{"name": "z1"}, {"name": "z2"}])),
        endpoint("c", json!("z1"), json!([{"name": "z1"}])),
        {"addresses": ["d"]},
    ]))]));
    let form = normal(&snapshot, json!({"hints": "counts"}));
    assert_eq!(form["slices"][0]["hintCounts"], json!({"z1->z1": 2, "z1->z1,z2": 1, "-->-": 1}));
    assert!(!form.to_string().contains("forZones"));
    assert!(normal(&snapshot, json!({})).to_string().contains("forZones"));
}

#[test]
fn sizes_and_endpoints_can_be_weakened_but_no_slice_may_be_too_large() {
    let of = |count: usize| slice(vec![json!({"addresses": ["a"]}); count].into());
    let weakened = json!({"sizes": "ignore", "endpoints": "counts"});
    let form = normal(&with_slices(json!([of(100), of(1)])), weakened.clone());
    assert_eq!(form, normal(&with_slices(json!([of(50), of(51)])), weakened.clone()));
    assert_eq!(form["slices"][0]["endpoints"], json!(101));
    assert_eq!(form["slices"][0].get("sizes"), None);
    assert_ne!(form, normal(&with_slices(json!([of(101)])), weakened));
}

#[test]
fn an_expectation_in_any_order_is_put_in_order() {
    let snapshot = with_slices(json!([slice(json!([{"addresses": ["b"]}, {"addresses": ["a"]}]))]));
    let form = normal(&snapshot, json!({}));
    let mut shuffled = form.clone();
    shuffled["slices"][0]["endpoints"].as_array_mut().unwrap().reverse();
    assert_ne!(form, shuffled);
    in_order(&mut shuffled);
    assert_eq!(form, shuffled);
}

/// Returns a possible cluster whose normal form is the step's expectation.
fn snapshot_of(step: &Step) -> Snapshot {
    let uid = |symbol: &str| symbol.strip_prefix("uid:").unwrap_or(symbol).to_owned();
    let restored = |value: &Value| -> Value {
        let text = value.to_string().replace("\"$NS\"", &format!("\"{NAMESPACE}\"")).replace("\"uid:", "\"");
        serde_json::from_str(&text.replace("service.creationTimestamp", "2024-01-01T12:00:00Z")).unwrap()
    };
    let mut snapshot = Snapshot::default();
    for symbol in step.expect.to_string().split("uid:").skip(1) {
        let symbol: String = symbol.chars().take_while(|c| !" \"".contains(*c)).collect();
        let Some((kind, name)) = symbol.split_once('/') else { continue };
        let object =
            json!({"metadata": {"name": name, "uid": symbol, "creationTimestamp": "2024-01-01T12:00:00Z"}});
        match kind {
            "Service" => snapshot.services.push(object),
            "Pod" => snapshot.pods.push(object),
            // These are in the expectation, too, and come below.
            _ => {}
        }
    }
    for (name, object) in step.expect["endpoints"].as_object().unwrap() {
        let object = restored(object);
        snapshot.endpoints.push(json!({"metadata": {"name": name, "uid": format!("Endpoints/{name}"),
            "labels": object["labels"], "annotations": object["annotations"]}, "subsets": object["subsets"]}));
    }
    for group in step.expect["slices"].as_array().unwrap() {
        let group = restored(group);
        let owners: Vec<Value> = items(&group["owners"])
            .map(|owner| {
                let words: Vec<&str> = owner.as_str().unwrap().split(' ').collect();
                let path: Vec<&str> = words[0].rsplitn(3, '/').collect();
                json!({"apiVersion": path[2], "kind": path[1], "name": path[0], "uid": uid(words[1]),
                    "controller": words[2] == "controller=True",
                    "blockOwnerDeletion": words[3] == "blockOwnerDeletion=True"})
            })
            .collect();
        let mut endpoints = group["endpoints"].as_array().unwrap().clone();
        let sizes = group.get("sizes").cloned().unwrap_or_else(|| json!([endpoints.len()]));
        for (i, size) in sizes.as_array().unwrap().iter().enumerate() {
            let rest = endpoints.split_off(size.as_u64().unwrap() as usize);
            let annotations = group["annotations"].as_array().unwrap();
            snapshot.slices.push(json!({"addressType": group["addressType"], "ports": group["ports"],
                "metadata": {"labels": group["labels"], "ownerReferences": owners, "name": format!("slice-{i}"),
                    "annotations": annotations[i.min(annotations.len() - 1)]},
                "endpoints": std::mem::replace(&mut endpoints, rest)}));
        }
    }
    for event in items(&step.expect["events"]) {
        let words: Vec<&str> = event.as_str().unwrap().split([' ', '/']).collect();
        snapshot
            .events
            .push(json!({"type": words[0], "reason": words[1], "reportingComponent": "endpoint-x",
            "involvedObject": {"kind": words[2], "name": words[3]}}));
    }
    snapshot
}

#[test]
fn every_expectation_is_the_normal_form_of_some_cluster() {
    let mut checked = 0;
    for file in recordings().unwrap() {
        let scenario = Scenario::read(&file).unwrap();
        for step in &scenario.steps {
            // This cannot turn counts and left-out sizes back into objects.
            if step.compare.hints.is_some()
                || step.compare.endpoints.is_some()
                || step.compare.sizes.is_some()
            {
                continue;
            }
            let mut want = step.expect.clone();
            in_order(&mut want);
            let got = normal_form(&snapshot_of(step), NAMESPACE, &step.compare);
            assert_eq!(got, want, "{}: {}", scenario.name, step.name);
            checked += 1;
        }
    }
    assert!(checked > 95, "only {checked} steps were checked");
}

#[test]
fn expectations_are_recorded_in_order_already() {
    for file in recordings().unwrap() {
        let scenario = Scenario::read(&file).unwrap();
        for step in scenario.steps.iter().filter(|step| step.compare.hints.is_none()) {
            let mut ordered = step.expect.clone();
            in_order(&mut ordered);
            assert_eq!(ordered, step.expect, "{}: {}", scenario.name, step.name);
        }
    }
}
