//! Tests objects at the limits of the API and beyond them: the product decodes or refuses each,
//! without a crash, without much memory and with an error that fits a line of the log.
#![allow(clippy::print_stdout)]

use std::fmt::Debug;

use kube_endpoint_core_model::{EndpointSlice, Endpoints, Node, Pod, Service};
use kube_endpoint_fuzz_targets::TARGETS;
use parking_lot::{Mutex, MutexGuard};
use peak_alloc::PeakAlloc;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// One test runs at a time: the allocations of another would count in its measurement.
static MEASURING: Mutex<()> = Mutex::new(());

/// Returns the result of a call, and the maximum of the bytes that it had allocated at a time.
fn peak<T>(call: impl FnOnce() -> T) -> (T, usize) {
    ALLOCATED.reset_peak_usage();
    let before = ALLOCATED.current_usage();
    let result = call();
    (result, ALLOCATED.peak_usage().saturating_sub(before))
}

/// Waits until no other test runs.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    MEASURING.lock()
}

/// Decodes a view. Checks that it never holds more than `factor` times the size of the text.
#[track_caller]
fn decode<T: DeserializeOwned + Debug>(text: &str, factor: usize) -> Result<T, String> {
    let (decoded, bytes) = peak(|| serde_json::from_str::<T>(text));
    assert!(bytes <= factor * text.len() + 10_000, "{bytes} bytes for a text of {}", text.len());
    decoded.map_err(|error| error.to_string())
}

fn targets_accept(bytes: &[u8]) {
    for (name, target) in TARGETS {
        // A stack overflow ends the process: this line names the input.
        println!("{name}: {:.100?}", String::from_utf8_lossy(&bytes[..bytes.len().min(100)]));
        target(bytes);
    }
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "namespace": "shop", "resourceVersion": "7", "uid": "u"})
}

/// etcd's limit of a request is 1.5 MiB.
#[test]
fn endpoints_of_a_megabyte_and_a_half() {
    let _alone = alone();
    let address = |number: usize| {
        json!({"ip": format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255), "nodeName": "node-1",
            "targetRef": {"kind": "Pod", "namespace": "shop", "name": format!("web-{number}"), "uid": format!("uid-{number}")}})
    };
    let addresses: Vec<Value> = (0..12_500).map(address).collect();
    let object =
        json!({"metadata": metadata("web"), "subsets": [{"addresses": addresses, "ports": [{"port": 80}]}]});
    let text = object.to_string();
    assert!((1_400_000..1_600_000).contains(&text.len()), "{}", text.len());
    let endpoints: Endpoints = decode(&text, 4).unwrap();
    assert_eq!(endpoints.subsets[0].addresses.len(), 12_500);
    let (packed, bytes) =
        peak(|| kube_endpoint_core_model::repack::repack(endpoints.subsets.listed().unwrap()));
    assert_eq!(packed[0].addresses.len(), 12_500);
    assert!(bytes < 4 * text.len(), "{bytes}");
    assert_eq!(
        serde_json::from_str::<Endpoints>(&serde_json::to_string(&endpoints).unwrap()).unwrap(),
        endpoints
    );
}

#[test]
fn a_thousand_ports() {
    let _alone = alone();
    let ports: Vec<Value> = (1..=1000)
        .map(|number| json!({"name": format!("port-{number}"), "port": number, "targetPort": number, "protocol": "TCP"}))
        .collect();
    let text = json!({"metadata": metadata("web"), "spec": {"selector": {"app": "web"}, "ports": ports}})
        .to_string();
    assert_eq!(decode::<Service>(&text, 4).unwrap().ports.len(), 1000);
    let slice = json!({"metadata": metadata("web"), "addressType": "IPv4", "endpoints": [], "ports": ports})
        .to_string();
    assert_eq!(decode::<EndpointSlice>(&slice, 4).unwrap().ports.len(), 1000);
    let subsets = json!([{"addresses": [{"ip": "10.0.0.1"}], "ports": ports}]);
    let text = json!({"metadata": metadata("web"), "subsets": subsets}).to_string();
    let endpoints = decode::<Endpoints>(&text, 4).unwrap();
    assert_eq!(
        kube_endpoint_core_model::repack::repack(endpoints.subsets.listed().unwrap())[0].ports.len(),
        1000
    );
    let containers: Vec<Value> = ports
        .iter()
        .map(|port| json!({"ports": [{"name": port["name"], "containerPort": port["port"]}]}))
        .collect();
    let text = json!({"metadata": metadata("web-1"), "spec": {"containers": containers}}).to_string();
    assert_eq!(decode::<Pod>(&text, 8).unwrap().ports.len(), 1000);
}

/// Names of 253 characters, keys of 253 + 1 + 63, values of 63, and annotations of 256 KiB.
#[test]
fn the_longest_names_labels_and_annotations() {
    let _alone = alone();
    let name = ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61)].join(".");
    let labels: serde_json::Map<String, Value> =
        (0..500).map(|number| (format!("{name}/{number:063}"), json!("v".repeat(63)))).collect();
    let annotations = json!({"a": "x".repeat(256 << 10)});
    let mut object = json!({"metadata": {"name": name, "namespace": "n".repeat(63), "labels": labels,
        "annotations": annotations}, "spec": {"selector": labels}});
    let text = object.to_string();
    let service: Service = decode(&text, 3).unwrap();
    assert_eq!(service.labels.iter().count(), 500);
    assert_eq!(decode::<Pod>(&text, 2).unwrap().labels.iter().count(), 500);
    assert_eq!(decode::<Node>(&text, 2).unwrap().name.len(), 253);
    object["subsets"] = json!([]);
    let endpoints: Endpoints = decode(&object.to_string(), 3).unwrap();
    assert_eq!(endpoints.metadata.annotations.iter().next().unwrap().1.len(), 256 << 10);
}

/// JSON and YAML, of objects and of lists, in parts that a view reads and in parts that it skips.
#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    let _alone = alone();
    let depth = 100_000;
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{}1{}", open.repeat(depth), close.repeat(depth));
        for text in [
            deep.clone(),
            format!(r#"{{"metadata":{{"name":"a"}},"spec":{deep}}}"#),
            format!(r#"{{"metadata":{{"name":"a","managedFields":{deep}}}}}"#),
            format!(r#"{{"metadata":{{"name":"a"}},"other":{deep}}}"#),
            format!("services\n{deep}\n{deep}"),
            format!("pods\n{{\"kind\":\"PodList\",\"metadata\":{{}},\"items\":[{deep}]}}\n===\n{deep}\n"),
            format!("POST /api/v1/namespaces/default/services\n\n{deep}"),
            format!("POST /api/v1/namespaces/default/services\ncontent-type: application/yaml\n\n{deep}"),
            format!(
                "PATCH /api/v1/namespaces/default/services/a\ncontent-type: application/merge-patch+json\n\n{deep}"
            ),
            format!(
                "PATCH /api/v1/namespaces/default/services/a\ncontent-type: application/strategic-merge-patch+json\n\n{deep}"
            ),
            format!(
                "PATCH /api/v1/namespaces/default/services/a\ncontent-type: application/json-patch+json\n\n{deep}"
            ),
        ] {
            targets_accept(text.as_bytes());
        }
    }
    targets_accept("- ".repeat(10_000).as_bytes());
    targets_accept("? ".repeat(10_000).as_bytes());
    let block: String = (0..2_000).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
    targets_accept(block.as_bytes());
}

#[test]
fn odd_bytes_numbers_and_keys() {
    let _alone = alone();
    let pod = |name: &[u8]| [br#"{"metadata":{"name":""#.as_slice(), name, br#""}}"#].concat();
    for bytes in [
        pod(b"\xff\xfe\xc0\x80"),
        pod(b"\x00"),
        pod(br"\u0000\ud800"),
        pod(br"\ud83d\ude00"),
        br#"{"metadata":{"name":"a","name":"b"},"metadata":{"name":"c"}}"#.to_vec(),
        br#"{"metadata":{"name":"a","generation":1e999,"resourceVersion":"99999999999999999999999"}}"#
            .to_vec(),
        br#"{"metadata":{"name":"a"},"spec":{"ports":[{"port":1e308,"targetPort":-0.0}]}}"#.to_vec(),
        format!(r#"{{"metadata":{{"name":"a"}},"spec":{{"ports":[{{"port":{}}}]}}}}"#, "9".repeat(100_000))
            .into_bytes(),
        br#"{"metadata":{"name":"a"},"status":{"allocatable":{"cpu":"9e2147483647"}}}"#.to_vec(),
        br#"{"metadata":{"name":"a"},"status":{"allocatable":{"cpu":"1e-2147483648"}}}"#.to_vec(),
    ] {
        targets_accept(&bytes);
        for head in ["pods", "services", "endpointslices"] {
            targets_accept(&[head.as_bytes(), b"\n", &bytes, b"\n===\n", &bytes, b"\n"].concat());
        }
    }
}

/// Anchors that refer to each other stand for a text of exponential size.
#[test]
fn a_yaml_document_of_aliases_does_not_fill_memory() {
    let _alone = alone();
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        text += &format!("a{level}: &a{level} [{aliases}]\n");
    }
    for head in ["", "POST /api/v1/namespaces/default/services\ncontent-type: application/yaml\n\n"] {
        let ((), bytes) = peak(|| targets_accept(format!("{head}{text}").as_bytes()));
        assert!(bytes < 200 << 20, "{bytes}");
    }
}
