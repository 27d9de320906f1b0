//! Tests what is converted, the names, and the reasons for a refusal.

use kube_endpoint_core_model::well_known::MIRRORING_CONTROLLER;

use super::*;

const MIRRORED_AT_MOST: usize = DEFAULT_MAX_ENDPOINTS_PER_SUBSET;

fn service(mut spec: Value) -> Value {
    spec["clusterIP"] = "10.96.0.9".into();
    json!({"metadata": {"name": "db", "namespace": "shop", "uid": "s"}, "spec": spec})
}

fn endpoints(subsets: Value) -> Value {
    json!({"metadata": {"name": "db", "namespace": "shop", "uid": "e", "resourceVersion": "7",
        "labels": {"team": "data"}, "annotations": {"note": "by hand", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
        "managedFields": written_by("kubectl-create")}, "subsets": subsets})
}

fn written_by(manager: &str) -> Value {
    json!([{"manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:subsets": {}}}])
}

fn addresses(subnet: &str, count: usize) -> Value {
    (0..count).map(|at| json!({"ip": format!("{subnet}.{}.{}", at / 250, at % 250)})).collect()
}

fn run(
    service: Option<&Value>,
    endpoints: Option<&Value>,
    existing: &Value,
    manager: &str,
) -> Result<Conversion, Refusal> {
    let read = |value: &Value| serde_json::from_value(value.clone()).unwrap();
    let service: Option<Service> = service.map(|value| serde_json::from_value(value.clone()).unwrap());
    let metadata = endpoints.map(|endpoints| endpoints["metadata"].clone()).unwrap_or_else(|| json!({}));
    let endpoints: Option<Endpoints> = endpoints.map(read);
    let existing: Vec<ObjectMeta> = serde_json::from_value(existing.clone()).unwrap();
    convert(&Inputs {
        key: &ObjectKey::new("shop", "db"),
        endpoints: endpoints.as_ref(),
        provenance: &serde_json::from_value(metadata).unwrap(),
        service: service.as_ref(),
        existing: &existing,
        manager,
    })
}

fn converted(subsets: Value) -> Conversion {
    let service = service(json!({"ports": [{"port": 5432}]}));
    run(Some(&service), Some(&endpoints(subsets)), &json!([]), MANAGER).unwrap()
}

#[test]
fn a_slice_has_what_the_mirrored_one_has_and_a_fixed_name() {
    let converted = converted(json!([
        {"addresses": [{"ip": "10.9.0.1", "hostname": "a", "nodeName": "n"}, {"ip": "fd00::1"}],
            "notReadyAddresses": [{"ip": "10.9.0.2"}], "ports": [{"name": "sql", "port": 5432, "protocol": "TCP"}]},
        {"addresses": [{"ip": "10.9.0.3"}], "ports": [{"name": "sql", "port": 5433, "protocol": "TCP"}]},
    ]));
    insta::assert_snapshot!(serde_saphyr::to_string(&converted.to_list().unwrap()).unwrap());
    insta::assert_snapshot!([converted.notes.clone(), converted.steps()].concat().join("\n"));
}

#[test]
fn a_name_of_another_slice_is_left_out_and_old_slices_are_named() {
    let of = |name: &str, service: &str, manager: &str| {
        json!({"name": name, "namespace": "shop", "labels": {
        LABEL_SERVICE_NAME: service, LABEL_MANAGED_BY: manager}})
    };
    let existing = json!([
        of("db-ipv4-1", "db", "me"),
        of("db-ipv4-2", "db", MANAGER),
        of("db-ipv4-3", "other", MANAGER),
        of("db-ipv4-5", "db", MANAGER),
    ]);
    let service = service(json!({"ports": [{"port": 1}]}));
    let port = |number: u16| json!([{"port": number}]);
    let subsets = json!([
        {"addresses": [{"ip": "10.9.0.1"}], "ports": port(1)},
        {"addresses": [{"ip": "10.9.0.2"}], "ports": port(2)},
    ]);
    let endpoints = endpoints(subsets);
    let again = || run(Some(&service), Some(&endpoints), &existing, MANAGER).unwrap();
    let converted = again();
    let names: Vec<&str> = converted.slices.iter().map(|slice| &*slice.metadata.name).collect();
    assert_eq!(names, ["db-ipv4-2", "db-ipv4-4"]);
    assert_eq!(
        converted.notes[0],
        "These EndpointSlices of kubectl-diagnose-svc are not among those below, and clients use them, too; delete them if nobody needs \
         them: db-ipv4-5."
    );
    assert_eq!(again(), converted);
}

#[test]
fn every_address_of_a_large_subset_is_converted() {
    let subsets = json!([{"addresses": addresses("10.1", 2400), "notReadyAddresses": addresses("10.2", 2), "ports": [{"port": 1}]}]);
    let converted = converted(subsets);
    let sizes: Vec<usize> = converted.slices.iter().map(|slice| slice.endpoints.len()).collect();
    assert_eq!(sizes, [LARGEST, LARGEST, 402]);
    let left_out = 2402 - MIRRORED_AT_MOST;
    let note = &converted.notes[0];
    assert!(note.contains(&format!("leaves {left_out} out, which the slices hold")), "{note}");
    assert!(note.contains(" and 1392 more)"), "{note}");
}

/// The two are the last ones, and the limit of a slice is between them.
#[test]
fn the_endpoints_of_one_address_are_in_one_slice() {
    let target = |at: usize| json!({"ip": "10.1.9.9", "targetRef": {"kind": "Pod", "namespace": "shop", "name": format!("p{at}"), "uid": format!("u{at}")}});
    let mut all = addresses("10.1", LARGEST - 1);
    all.as_array_mut().unwrap().extend([target(1), target(2)]);
    let converted = converted(json!([{"addresses": all, "ports": [{"port": 1}]}]));
    let sizes: Vec<usize> = converted.slices.iter().map(|slice| slice.endpoints.len()).collect();
    assert_eq!(sizes, [LARGEST - 1, 2]);
}

#[test]
fn what_must_not_be_converted_is_refused() {
    let plain = service(json!({"ports": [{"port": 1}]}));
    let written = endpoints(json!([{"addresses": [{"ip": "10.9.0.1"}], "ports": [{"port": 1}]}]));
    let mut refusals = Vec::new();
    let mut check = |service: Option<&Value>, endpoints: Option<&Value>, manager: &str| {
        refusals.push(run(service, endpoints, &json!([]), manager).unwrap_err().to_string());
    };
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut endpoints = written.clone();
        change(&mut endpoints);
        endpoints
    };
    check(Some(&plain), None, MANAGER);
    check(None, Some(&written), MANAGER);
    check(Some(&plain), Some(&written), "a b");
    check(Some(&plain), Some(&written), "");
    check(Some(&plain), Some(&written), MIRRORING_CONTROLLER);
    check(Some(&service(json!({"selector": {"app": "db"}}))), Some(&written), MANAGER);
    check(Some(&service(json!({"type": "ExternalName", "externalName": "x"}))), Some(&written), MANAGER);
    let deleted = |it: &mut Value| it["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    check(Some(&plain), Some(&changed(&deleted)), MANAGER);
    let mut ending = plain.clone();
    deleted(&mut ending);
    check(Some(&ending), Some(&written), MANAGER);
    let lock = changed(&|it| {
        it["metadata"]["annotations"]["control-plane.alpha.kubernetes.io/leader"] = "{}".into();
    });
    check(Some(&plain), Some(&lock), MANAGER);
    check(None, Some(&lock), MANAGER);
    let skipped = changed(&|it| it["metadata"]["labels"][LABEL_SKIP_MIRROR] = "true".into());
    check(Some(&plain), Some(&skipped), MANAGER);
    let made = changed(&|it| {
        it["metadata"]["managedFields"] = written_by("kube-controller-manager");
        it["metadata"]["labels"][LABEL_ENDPOINTS_MANAGED_BY] = "endpoint-controller".into();
    });
    check(Some(&plain), Some(&made), MANAGER);
    let unknown = changed(&|it| {
        it["metadata"]["managedFields"] = json!([]);
        it["metadata"]["labels"][LABEL_ENDPOINTS_MANAGED_BY] = "endpoint-controller".into();
    });
    check(Some(&plain), Some(&unknown), MANAGER);
    let invalid = json!([{"addresses": [{"ip": "db.example.com"}, {"ip": "10.9.0.1"}, {"ip": "10.0.0"}], "ports": [{"port": 1}]}]);
    check(Some(&plain), Some(&endpoints(invalid)), MANAGER);
    let same_name = json!([{"addresses": [{"ip": "10.9.0.1"}],
        "ports": [{"name": "dns", "port": 53, "protocol": "TCP"}, {"name": "dns", "port": 53, "protocol": "UDP"}]}]);
    check(Some(&plain), Some(&endpoints(same_name)), MANAGER);
    check(Some(&plain), Some(&endpoints(json!([]))), MANAGER);
    insta::assert_snapshot!(refusals.join("\n"));
}

#[test]
fn the_api_server_writes_its_own() {
    let key = ObjectKey::new("default", "kubernetes");
    let metadata = json!({"name": "kubernetes", "namespace": "default"});
    let service: Service = serde_json::from_value(json!({"metadata": metadata})).unwrap();
    let endpoints: Endpoints = serde_json::from_value(json!({"metadata": metadata})).unwrap();
    let inputs = Inputs {
        key: &key,
        endpoints: Some(&endpoints),
        provenance: &Provenance::default(),
        service: Some(&service),
        existing: &[],
        manager: MANAGER,
    };
    assert_eq!(convert(&inputs), Err(Refusal::OfTheApiServer(key.clone())));
}

/// A label that says who wrote them, or that nobody mirrors them, would be wrong on the slices.
#[test]
fn a_copied_label_is_no_obstacle_and_does_not_reach_the_slices() {
    let mut copied = endpoints(json!([{"addresses": [{"ip": "10.9.0.1"}], "ports": [{"port": 1}]}]));
    copied["metadata"]["labels"] = json!({LABEL_ENDPOINTS_MANAGED_BY: "endpoint-controller", LABEL_SKIP_MIRROR: "false",
        LABEL_HEADLESS: "", "team": "data"});
    let service = service(json!({"ports": [{"port": 1}]}));
    let converted = run(Some(&service), Some(&copied), &json!([]), "me").unwrap();
    let labels: Vec<(String, String)> = converted.slices[0]
        .metadata
        .labels
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(
        labels,
        [label(LABEL_MANAGED_BY, "me"), label(LABEL_SERVICE_NAME, "db"), label("team", "data")]
    );
    assert!(converted.notes[0].contains("so that kube-proxy ignores them"), "{:?}", converted.notes);
}
