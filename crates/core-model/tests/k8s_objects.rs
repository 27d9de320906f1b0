//! Tests that the view from a `k8s-openapi` object equals the view from the object's JSON, and that
//! both ways of writing a view give the same JSON.

use std::fmt::Debug;

use k8s_openapi::api::core::v1 as corev1;
use k8s_openapi::api::discovery::v1 as discoveryv1;
use kube_endpoint_core_model::k8s::ConversionError;
use kube_endpoint_core_model::{EndpointSlice, Endpoints, Node, Pod, Service};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Checks that both ways to the view agree, errors included. Returns the view.
fn check_read<K, V>(object: &Value) -> Option<V>
where
    K: DeserializeOwned,
    V: DeserializeOwned + Debug + PartialEq + for<'a> TryFrom<&'a K, Error = ConversionError>,
{
    let from_json = serde_json::from_value::<V>(object.clone());
    let typed = serde_json::from_value::<K>(object.clone()).expect("an object of the API");
    match (from_json, V::try_from(&typed)) {
        (Ok(want), Ok(got)) => {
            assert_eq!(got, want, "{object:#}");
            Some(got)
        }
        (Err(_), Err(_)) => None,
        (json, typed) => panic!("JSON gives {json:?}, the typed object {typed:?}:\n{object:#}"),
    }
}

/// Checks that both ways to JSON agree.
fn check_written<K, V>(view: &V)
where
    K: Serialize + for<'a> From<&'a V>,
    V: Serialize,
{
    let mut written = serde_json::to_value(K::from(view)).unwrap();
    let object = written.as_object_mut().unwrap();
    assert!(object.remove("apiVersion").is_some() && object.remove("kind").is_some());
    assert_eq!(written, serde_json::to_value(view).unwrap());
}

fn check(object: &Value) {
    match object["kind"].as_str().unwrap() {
        "Pod" => drop(check_read::<corev1::Pod, Pod>(object)),
        "Node" => drop(check_read::<corev1::Node, Node>(object)),
        "Service" => drop(check_read::<corev1::Service, Service>(object)),
        "Endpoints" => {
            if let Some(view) = check_read::<corev1::Endpoints, Endpoints>(object) {
                check_written::<corev1::Endpoints, _>(&view);
            }
        }
        "EndpointSlice" => {
            if let Some(view) = check_read::<discoveryv1::EndpointSlice, EndpointSlice>(object) {
                check_written::<discoveryv1::EndpointSlice, _>(&view);
            }
        }
        "Namespace" => {}
        kind => panic!("no conversion for {kind}"),
    }
}

#[test]
fn objects_of_a_real_cluster() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../integration-tests/fixtures/shop-cluster.json");
    let list: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let items = list["items"].as_array().unwrap();
    for kind in ["Pod", "Node", "Service", "Endpoints", "EndpointSlice"] {
        assert!(items.iter().any(|item| item["kind"] == kind), "no {kind} in {path}");
    }
    items.iter().for_each(check);
}

#[test]
fn errors_name_the_object_the_field_and_the_value() {
    let named = |name: &str| -> Map<String, Value> {
        let object = json!({"metadata": {"name": name, "namespace": "shop"}});
        object.as_object().unwrap().clone()
    };
    let pod = |object: Value| {
        Pod::try_from(&serde_json::from_value::<corev1::Pod>(object).unwrap()).unwrap_err().to_string()
    };
    assert_eq!(pod(json!({"metadata": {}})), "the Pod has no metadata.name");
    assert_eq!(
        pod(json!({"metadata": {"name": "web-1", "resourceVersion": "x7"}})),
        r#"Pod "web-1": metadata.resourceVersion "x7" is not a decimal number"#
    );
    let mut slice = named("web-abcde");
    slice.insert("addressType".to_owned(), json!("IPv5"));
    let slice: discoveryv1::EndpointSlice = serde_json::from_value(slice.into()).unwrap();
    assert_eq!(
        EndpointSlice::try_from(&slice).unwrap_err().to_string(),
        r#"EndpointSlice "web-abcde": addressType is "IPv5"; expected one of IPv4, IPv6, FQDN"#
    );
    let mut service = named("web");
    service.insert("spec".to_owned(), json!({"ipFamilies": ["IPv4", ""]}));
    let service: corev1::Service = serde_json::from_value(service.into()).unwrap();
    assert_eq!(
        Service::try_from(&service).unwrap_err().to_string(),
        r#"Service "web": spec.ipFamilies is ""; expected one of IPv4, IPv6"#
    );
}

/// Returns an object with some of these fields.
fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let fields: Vec<_> = fields
        .into_iter()
        .map(|(name, value)| proptest::option::weighted(0.7, value).prop_map(move |value| (name, value)))
        .collect();
    let present = |(name, value): (&str, Option<Value>)| value.map(|value| (name.to_owned(), value));
    fields.prop_map(move |fields| Value::Object(fields.into_iter().filter_map(present).collect())).boxed()
}

/// Returns the objects of a strategy, each with all of these further fields.
fn with(
    objects: BoxedStrategy<Value>,
    fields: Vec<(&'static str, BoxedStrategy<Value>)>,
) -> BoxedStrategy<Value> {
    fields.into_iter().fold(objects, |objects, (name, value)| {
        (objects, value)
            .prop_map(move |(mut object, value)| {
                object[name] = value;
                object
            })
            .boxed()
    })
}

fn one_of(values: &'static [&'static str]) -> BoxedStrategy<Value> {
    select(values).prop_map(Value::from).boxed()
}

fn list(items: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    vec(items, 0..3).prop_map(Value::from).boxed()
}

fn word() -> BoxedStrategy<Value> {
    one_of(&["", "a", "web", "é\"x"])
}

fn name() -> BoxedStrategy<Value> {
    one_of(&["a", "b", "web-1"])
}

fn number() -> BoxedStrategy<Value> {
    select([0, 80, i32::MAX, -1].as_slice()).prop_map(Value::from).boxed()
}

fn flag() -> BoxedStrategy<Value> {
    any::<bool>().prop_map(Value::from).boxed()
}

fn time() -> BoxedStrategy<Value> {
    one_of(&["2024-01-01T00:00:00Z", "2026-05-01T12:30:01Z"])
}

fn address() -> BoxedStrategy<Value> {
    one_of(&["", "10.0.0.1", "10.0.0.010", "fd00::1", "FD00::0:1", "x"])
}

fn map() -> BoxedStrategy<Value> {
    object(vec![
        ("app", word()),
        ("topology.kubernetes.io/zone", word()),
        ("node-role.kubernetes.io/master", word()),
        ("service.kubernetes.io/topology-mode", one_of(&["Auto", "auto", "no"])),
        ("service.alpha.kubernetes.io/tolerate-unready-endpoints", word()),
    ])
}

fn reference() -> BoxedStrategy<Value> {
    object(vec![
        ("kind", word()),
        ("namespace", word()),
        ("name", word()),
        ("uid", word()),
        ("apiVersion", word()),
        ("resourceVersion", word()),
        ("fieldPath", word()),
    ])
}

fn metadata() -> BoxedStrategy<Value> {
    let owner = with(
        object(vec![("controller", flag()), ("blockOwnerDeletion", flag())]),
        vec![("apiVersion", word()), ("kind", word()), ("name", word()), ("uid", word())],
    );
    let version =
        prop_oneof![20 => one_of(&["", "0", "7", "18446744073709551615"]), 1 => one_of(&["x", "-1"])];
    let fields = object(vec![
        ("generateName", word()),
        ("namespace", word()),
        ("uid", word()),
        ("resourceVersion", version.boxed()),
        ("generation", select([0i64, 5].as_slice()).prop_map(Value::from).boxed()),
        ("creationTimestamp", time()),
        ("deletionTimestamp", time()),
        ("labels", map()),
        ("annotations", map()),
        ("ownerReferences", list(owner)),
        ("finalizers", list(word())),
        ("selfLink", word()),
    ]);
    (fields, proptest::option::weighted(0.95, name()))
        .prop_map(|(mut fields, name)| {
            if let Some(name) = name {
                fields["name"] = name;
            }
            fields
        })
        .boxed()
}

fn conditions() -> BoxedStrategy<Value> {
    let condition = with(
        object(vec![("lastTransitionTime", time()), ("reason", word())]),
        vec![
            ("type", one_of(&["Ready", "Other", ""])),
            ("status", one_of(&["True", "False", "Unknown", ""])),
        ],
    );
    list(condition)
}

fn pod() -> BoxedStrategy<Value> {
    let port = with(
        object(vec![("name", word()), ("protocol", one_of(&["TCP", "UDP", ""]))]),
        vec![("containerPort", number())],
    );
    let container = || {
        let policy = one_of(&["Always", "Never", ""]);
        with(object(vec![("ports", list(port.clone())), ("restartPolicy", policy)]), vec![("name", name())])
    };
    let spec = with(
        object(vec![
            ("nodeName", word()),
            ("hostname", word()),
            ("subdomain", word()),
            ("initContainers", list(container())),
        ]),
        vec![("containers", list(container()))],
    );
    let status = object(vec![
        ("phase", one_of(&["Pending", "Running", "Succeeded", "Failed", "Unknown", "New", ""])),
        ("podIP", address()),
        ("podIPs", list(with(object(vec![]), vec![("ip", address())]))),
        ("conditions", conditions()),
    ]);
    object(vec![("spec", spec), ("status", status)])
}

fn node() -> BoxedStrategy<Value> {
    let allocatable = object(vec![("cpu", one_of(&["4", "3920m", "much", ""])), ("memory", word())]);
    object(vec![("status", object(vec![("conditions", conditions()), ("allocatable", allocatable)]))])
}

fn service() -> BoxedStrategy<Value> {
    let target = prop_oneof![number(), word()].boxed();
    let port = with(
        object(vec![
            ("name", word()),
            ("protocol", one_of(&["TCP", "UDP", ""])),
            ("targetPort", target),
            ("appProtocol", word()),
        ]),
        vec![("port", number())],
    );
    let family = prop_oneof![20 => one_of(&["IPv4", "IPv6"]), 1 => one_of(&["", "IPv5"])].boxed();
    let spec = object(vec![
        ("selector", map()),
        ("type", one_of(&["ClusterIP", "ExternalName", "NodePort", "New", ""])),
        ("clusterIP", one_of(&["", "None", "10.96.0.1", "fd00::1"])),
        ("ipFamilies", list(family)),
        ("ports", list(port)),
        ("publishNotReadyAddresses", flag()),
        ("trafficDistribution", one_of(&["", "PreferClose"])),
    ]);
    object(vec![("spec", spec)])
}

fn endpoint_slice() -> BoxedStrategy<Value> {
    let conditions = object(vec![("ready", flag()), ("serving", flag()), ("terminating", flag())]);
    let hint = || list(with(object(vec![]), vec![("name", name())]));
    let endpoint = with(
        object(vec![
            ("conditions", conditions),
            ("hostname", word()),
            ("targetRef", reference()),
            ("deprecatedTopology", map()),
            ("nodeName", word()),
            ("zone", word()),
            ("hints", object(vec![("forZones", hint()), ("forNodes", hint())])),
        ]),
        vec![("addresses", list(address()))],
    );
    let port =
        object(vec![("name", word()), ("protocol", word()), ("port", number()), ("appProtocol", word())]);
    let kind = prop_oneof![20 => one_of(&["IPv4", "IPv6", "FQDN"]), 1 => one_of(&["", "ipv4"])].boxed();
    with(object(vec![("endpoints", list(endpoint)), ("ports", list(port))]), vec![("addressType", kind)])
}

fn endpoints() -> BoxedStrategy<Value> {
    let address = || {
        let fields = object(vec![("hostname", word()), ("nodeName", word()), ("targetRef", reference())]);
        list(with(fields, vec![("ip", address())]))
    };
    let port = with(
        object(vec![("name", word()), ("protocol", word()), ("appProtocol", word())]),
        vec![("port", number())],
    );
    let subset =
        object(vec![("addresses", address()), ("notReadyAddresses", address()), ("ports", list(port))]);
    object(vec![("subsets", list(subset))])
}

fn any_object() -> impl Strategy<Value = Value> {
    let kinds = [
        ("Pod", "v1", pod()),
        ("Node", "v1", node()),
        ("Service", "v1", service()),
        ("Endpoints", "v1", endpoints()),
        ("EndpointSlice", "discovery.k8s.io/v1", endpoint_slice()),
    ];
    let kinds: Vec<_> = kinds
        .into_iter()
        .map(|(kind, version, object)| {
            let fields = vec![
                ("metadata", metadata()),
                ("kind", Just(kind.into()).boxed()),
                ("apiVersion", Just(version.into()).boxed()),
            ];
            with(object, fields)
        })
        .collect();
    proptest::strategy::Union::new(kinds)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn any_object_reads_and_writes_alike(object in any_object()) {
        check(&object);
    }
}
