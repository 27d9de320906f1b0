//! Tests decoding: dropped fields, added fields and errors.

use kube_endpoint_apiserver_rules::strategy::{before_create, decode};
use serde_json::{Value, json};

use super::{base, merge, resource};

fn message(kind: &str, body: Value) -> String {
    let status = decode(resource(kind), body).unwrap_err();
    assert_eq!((status.code, status.reason), (400, "BadRequest"));
    status.message
}

#[test]
fn wrong_types() {
    for (kind, patch, want) in [
        (
            "Service",
            r#"{"spec": {"ports": [{"port": "80"}]}}"#,
            "Service in version \"v1\" cannot be handled as a Service: json: cannot unmarshal string into Go struct \
             field ServicePort.spec.ports.port of type int32",
        ),
        (
            "Service",
            r#"{"spec": {"ports": [{"port": 3000000000}]}}"#,
            "Service in version \"v1\" cannot be handled as a Service: json: cannot unmarshal number 3000000000 into \
             Go struct field ServicePort.spec.ports.port of type int32",
        ),
        (
            "Service",
            r#"{"spec": {"ports": {}}}"#,
            "Service in version \"v1\" cannot be handled as a Service: json: cannot unmarshal object into Go struct \
             field ServiceSpec.spec.ports of type []v1.ServicePort",
        ),
        (
            "EndpointSlice",
            r#"{"endpoints": [{"conditions": {"ready": "yes"}}]}"#,
            "EndpointSlice in version \"v1\" cannot be handled as a EndpointSlice: json: cannot unmarshal string into \
             Go struct field EndpointConditions.endpoints.conditions.ready of type bool",
        ),
        (
            "Pod",
            r#"{"metadata": {"labels": {"a": 1}}}"#,
            "Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal number into Go struct field \
             ObjectMeta.metadata.labels of type string",
        ),
        (
            "Pod",
            r#"{"metadata": {"creationTimestamp": "then"}}"#,
            "Pod in version \"v1\" cannot be handled as a Pod: parsing time \"then\" as \
             \"2006-01-02T15:04:05Z07:00\": cannot parse \"then\" as \"2006\"",
        ),
        (
            "Pod",
            r#"{"spec": {"containers": [{"resources": {"limits": {"cpu": "a"}}}]}}"#,
            "Pod in version \"v1\" cannot be handled as a Pod: quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ] {
        assert_eq!(message(kind, merge(base(kind), patch)), want);
    }
}

/// Protobuf bodies have `fieldsV1` as JSON text, which the server parses by itself; it parses a
/// stored object as a whole.
#[test]
fn any_value_nests_as_deeply_as_a_body_may() {
    let nested = |depth: usize| {
        let value = (0..depth).fold(json!(0), |value, _| json!([value]));
        json!({"metadata": {"name": "a", "managedFields": [{"fieldsV1": value}]}})
    };
    let object = decode(resource("Endpoints"), nested(123)).unwrap().object;
    assert_eq!(serde_json::from_str::<Value>(&object.to_string()).unwrap(), object);
    assert!(message("Endpoints", nested(124)).ends_with("json: exceeded max depth"));
}

#[test]
fn other_kinds_and_versions() {
    assert_eq!(
        message("Service", json!({"apiVersion": "v1", "kind": "Pod"})),
        "Pod in version \"v1\" cannot be handled as a Service: converting (v1.Pod) to (core.Service): unknown \
         conversion"
    );
    assert_eq!(
        message("Event", json!({"apiVersion": "events.k8s.io/v1"})),
        "the API version in the data (events.k8s.io/v1) does not match the expected API version (v1)"
    );
    assert!(
        message("Pod", json!({"apiVersion": "v9", "kind": "Pod"})).contains("no kind \"Pod\" is registered")
    );
    assert!(
        message("Pod", json!([])).starts_with("the object provided is unrecognized (must be of type Pod)")
    );
    let object = decode(resource("EndpointSlice"), base("EndpointSlice")).unwrap().object;
    assert_eq!(
        (&object["apiVersion"], &object["kind"]),
        (&json!("discovery.k8s.io/v1"), &json!("EndpointSlice"))
    );
}

#[test]
fn unknown_fields_are_dropped_with_a_warning() {
    let patch = r#"{"more": 1, "spec": {"ports": [{"port": 1, "prot": 2}], "x": {}}}"#;
    let service = resource("Service");
    let decided = decode(service, merge(base("Service"), patch)).unwrap();
    assert_eq!(
        decided.warnings,
        [r#"unknown field "spec.ports[0].prot""#, r#"unknown field "spec.x""#, r#"unknown field "more""#]
    );
    assert!(decided.object.get("more").is_none());
}

#[test]
fn zero_values_are_printed_as_go_prints_them() {
    let decoded = |kind: &str, patch: &str| decode(resource(kind), merge(base(kind), patch)).unwrap().object;
    // Go prints empty lists of an EndpointSlice and omits those of a Service.
    let slice = decoded("EndpointSlice", r#"{"endpoints": [], "ports": null}"#);
    assert_eq!((slice.get("endpoints"), slice.get("ports")), (Some(&Value::Null), Some(&Value::Null)));
    let service = decoded(
        "Service",
        r#"{"spec": {"selector": {"app": null}, "ports": [], "publishNotReadyAddresses": false}}"#,
    );
    assert_eq!(service["spec"], json!({}));
    assert_eq!(service["status"], json!({"loadBalancer": {}}));
    // Go prints empty structs and omits zero numbers and empty strings.
    let pod = decoded("Pod", r#"{"spec": {"hostname": "", "priority": 0, "hostPID": false}}"#);
    assert_eq!(pod["spec"]["containers"][0]["resources"], json!({}));
    assert_eq!(pod["spec"]["priority"], 0);
    assert!(pod["spec"].get("hostname").is_none() && pod["spec"].get("hostPID").is_none());
    // A pointer to false is not the same as nil.
    let slice = decoded(
        "EndpointSlice",
        r#"{"endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": false}}]}"#,
    );
    assert_eq!(slice["endpoints"][0]["conditions"], json!({"ready": false}));
}

#[test]
fn times_are_canonical_and_quantities_are_texts() {
    let decoded = |kind: &str, patch: &str| decode(resource(kind), merge(base(kind), patch)).unwrap().object;
    let pod = decoded(
        "Pod",
        r#"{"metadata": {"creationTimestamp": "2024-01-01T00:00:00.9+01:00"},
            "spec": {"overhead": {"cpu": 1.5, "memory": "1024Mi", "x": "1u"}}}"#,
    );
    assert_eq!(pod["metadata"]["creationTimestamp"], "2023-12-31T23:00:00Z");
    assert_eq!(pod["spec"]["overhead"], json!({"cpu": "1.5", "memory": "1024Mi", "x": "1u"}));
    let lease = decoded("Lease", r#"{"spec": {"renewTime": "2024-01-01T00:00:00.123456+01:00"}}"#);
    assert_eq!(lease["spec"]["renewTime"], "2023-12-31T23:00:00.123456Z");
}

#[test]
fn reviews_are_decoded() {
    let review = json!({"spec": {"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let object = decode(resource("SubjectAccessReview"), review).unwrap().object;
    assert_eq!(
        object,
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
            "spec": {"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods"}}
        })
    );
}

#[test]
fn invalid_reviews_are_rejected() {
    let refusal = |kind: &str, spec: Value| {
        let object = decode(resource(kind), json!({"spec": spec})).unwrap().object;
        before_create(resource(kind), object).unwrap_err()
    };
    let status = refusal("TokenReview", json!({}));
    assert_eq!(
        (status.code, status.message.as_str()),
        (400, "token is required for TokenReview in authentication")
    );
    let status = refusal("SubjectAccessReview", json!({}));
    assert_eq!(status.code, 422);
    assert_eq!(
        status.message,
        ".authorization.k8s.io \"\" is invalid: [spec.resourceAttributes: Invalid value: null: \
         exactly one of nonResourceAttributes or resourceAttributes must be specified, spec.user: Invalid value: \"\": \
         at least one of user or group must be specified]"
    );
}
