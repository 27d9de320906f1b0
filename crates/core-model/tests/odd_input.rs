//! Tests objects that no API server should return: each view is an error that says what is wrong,
//! or a sensible value, and never a panic.

use std::fmt::Debug;

use kube_endpoint_core_model::{EndpointSlice, Endpoints, Node, Pod, Service};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

fn error_of<T: DeserializeOwned + Debug>(object: &Value) -> String {
    serde_json::from_value::<T>(object.clone()).expect_err("an invalid object").to_string()
}

fn slice() -> Value {
    json!({"metadata": {"name": "web-x", "namespace": "shop", "resourceVersion": "7", "labels": {"a": "b"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true}, "nodeName": "n", "zone": "z",
            "targetRef": {"kind": "Pod", "name": "p"}, "hints": {"forZones": [{"name": "z"}]}}],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "appProtocol": "h2c"}]})
}

fn service() -> Value {
    json!({"metadata": {"name": "web", "namespace": "shop", "creationTimestamp": "2024-01-01T00:00:00Z",
            "annotations": {"service.kubernetes.io/topology-mode": "Auto", "other": "x"}},
        "spec": {"type": "ClusterIP", "selector": {"app": "web"}, "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"],
            "ports": [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}]}})
}

fn pod() -> Value {
    json!({"metadata": {"name": "web-1", "namespace": "shop", "resourceVersion": "7", "labels": {"app": "web"},
            "deletionTimestamp": null},
        "spec": {"nodeName": "n", "hostname": "h", "subdomain": "web",
            "containers": [{"ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}]}],
            "initContainers": [{"restartPolicy": "Always", "ports": null}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z"}]}})
}

fn node() -> Value {
    json!({"metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "z"}},
        "status": {"allocatable": {"cpu": "3920m"}, "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn endpoints() -> Value {
    json!({"metadata": {"name": "web", "namespace": "shop"},
        "subsets": [{"addresses": [{"ip": "10.0.0.1", "hostname": "h", "targetRef": {"kind": "Pod"}}],
            "notReadyAddresses": null, "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}]})
}

/// Returns `object` with the value at a JSON pointer replaced.
fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    *object.pointer_mut(pointer).expect("a place in the object") = value;
    object
}

#[test]
fn errors_say_what_was_found_and_what_would_be_right() {
    let target_port = |value| error_of::<Service>(&with(service(), "/spec/ports/0/targetPort", value));
    let errors = [
        error_of::<EndpointSlice>(&with(slice(), "/addressType", json!("DNS"))),
        error_of::<EndpointSlice>(&with(slice(), "/addressType", json!(null))),
        error_of::<EndpointSlice>(&with(slice(), "/metadata/resourceVersion", json!("x"))),
        error_of::<EndpointSlice>(&with(slice(), "/endpoints/0/addresses", json!("10.0.0.1"))),
        target_port(json!(true)),
        target_port(json!(80.5)),
        target_port(json!({"name": "http"})),
        target_port(json!(1u64 << 40)),
        error_of::<Service>(&with(service(), "/spec/ports/0/port", json!("80"))),
        error_of::<Service>(&with(service(), "/spec/ipFamilies/0", json!("IPX"))),
        error_of::<Service>(&with(service(), "/metadata/creationTimestamp", json!("yesterday"))),
        error_of::<Pod>(&with(pod(), "/status/podIPs", json!("10.0.0.1"))),
        error_of::<Pod>(&with(pod(), "/status/podIPs/0/ip", json!(10))),
        error_of::<Pod>(&json!({"spec": {}})),
        error_of::<Node>(&with(node(), "/metadata/labels", json!([]))),
        error_of::<Endpoints>(&with(endpoints(), "/subsets/0/ports/0/port", json!("http"))),
    ];
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn unusual_but_meaningful_values_are_read() {
    // The API refuses these numbers; a view does not interpret them.
    let service: Service =
        serde_json::from_value(with(service(), "/spec/ports/0/targetPort", json!(-1))).unwrap();
    assert_eq!(format!("{:?}", service.ports[0].target_port), "Number(-1)");
    let slice: EndpointSlice = serde_json::from_value(with(slice(), "/ports/0/port", json!(-1))).unwrap();
    assert_eq!(slice.ports[0].port, Some(-1));
    // The view leaves an invalid address out of the addresses and keeps it for the error message.
    let garbage = json!([{"ip": "no address"}, {"ip": null}, {}, {"ip": "10.0.0.1"}]);
    let pod: Pod = serde_json::from_value(with(pod(), "/status/podIPs", garbage)).unwrap();
    assert_eq!(pod.pod_ips.len(), 1);
    assert!(pod.has_pod_ip && pod.invalid_pod_ip().is_some());
    // Go reads null as zero.
    let endpoints: Endpoints =
        serde_json::from_value(with(endpoints(), "/subsets/0/ports/0/port", json!(null))).unwrap();
    assert_eq!(endpoints.subsets[0].ports[0].port, 0);
}

/// Returns any JSON, often values that objects contain.
fn any_json() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "",
        "IPv4",
        "FQDN",
        "10.0.0.1",
        "fd00::1%x",
        "7",
        "-7",
        "2024-01-01T00:00:00Z",
        "Running",
        "1e400",
        "99999999999E",
        "Ready",
        "é\u{0}\"",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        words.prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "metadata",
        "spec",
        "status",
        "name",
        "namespace",
        "labels",
        "ports",
        "port",
        "targetPort",
        "addresses",
        "endpoints",
        "podIPs",
        "ip",
        "conditions",
        "type",
        "subsets",
        "other",
    ]);
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((names.clone().prop_map(str::to_owned), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Collects every place in a value.
fn places(value: &Value, here: &str, all: &mut Vec<String>) {
    all.push(here.to_owned());
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| places(item, &format!("{here}/{at}"), all));
        }
        Value::Object(fields) => fields.iter().for_each(|(name, field)| {
            let name = name.replace('~', "~0").replace('/', "~1");
            places(field, &format!("{here}/{name}"), all);
        }),
        _ => {}
    }
}

/// Returns the object with other values in some of its places.
fn damaged(object: Value) -> impl Strategy<Value = Value> {
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any_json()), 1..4);
    damage.prop_map(move |damage| {
        damage.into_iter().fold(object.clone(), |object, (place, value)| {
            let mut all = Vec::new();
            places(&object, "", &mut all);
            let place: &String = place.get(&all);
            with(object, place, value)
        })
    })
}

/// Reads a view in two ways, and checks that the results agree.
fn check<T: DeserializeOwned + Debug + PartialEq>(object: &Value) -> Result<(), TestCaseError> {
    let from_text = serde_json::from_str::<T>(&object.to_string()).map_err(drop);
    let from_tree = serde_json::from_value::<T>(object.clone()).map_err(drop);
    prop_assert_eq!(from_text, from_tree);
    Ok(())
}

proptest! {
    #[test]
    fn no_json_makes_a_view_panic(object in any_json()) {
        check::<Pod>(&object)?;
        check::<Service>(&object)?;
        check::<Node>(&object)?;
        check::<EndpointSlice>(&object)?;
        check::<Endpoints>(&object)?;
    }

    #[test]
    fn no_damaged_pod_makes_its_view_panic(object in damaged(pod())) {
        check::<Pod>(&object)?;
    }

    #[test]
    fn no_damaged_service_makes_its_view_panic(object in damaged(service())) {
        check::<Service>(&object)?;
    }

    #[test]
    fn no_damaged_node_makes_its_view_panic(object in damaged(node())) {
        check::<Node>(&object)?;
    }

    #[test]
    fn no_damaged_slice_makes_its_view_panic(object in damaged(slice())) {
        check::<EndpointSlice>(&object)?;
    }

    #[test]
    fn no_damaged_endpoints_make_their_view_panic(object in damaged(endpoints())) {
        check::<Endpoints>(&object)?;
    }
}
