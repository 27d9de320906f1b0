//! Tests that the view from a `k8s-openapi` object equals the view from the object's JSON, and that
//! both ways of writing a view give the same JSON.

use std::fmt::Debug;

use k8s_openapi::api::core::v1 as corev1;
use k8s_openapi::api::discovery::v1 as discoveryv1;
use kube_endpoint_core_model::k8s::ConversionError;
use kube_endpoint_core_model::{EndpointSlice, Endpoints, Node, Pod, Service};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::arbitrary_objects::object;

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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn any_object_reads_and_writes_alike(mut object in object()) {
        object["metadata"]["name"] = "web".into();
        check(&object);
    }
}
