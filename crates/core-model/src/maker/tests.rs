//! Tables of makers and last writers.

use serde_json::{Value, json};

use super::*;

const OLD: &str = "2026-01-01T00:00:00Z";
const NEW: &str = "2026-01-01T00:00:01Z";
const KCM: &str = KUBE_CONTROLLER_MANAGER;

fn entry(manager: &str, time: &str, fields: Value) -> Value {
    json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "time": time,
           "fieldsType": "FieldsV1", "fieldsV1": fields})
}

fn provenance(labels: &Value, entries: &Value) -> Provenance {
    let metadata = json!({"name": "web", "uid": "u1", "resourceVersion": "7", "labels": labels,
                          "managedFields": entries});
    serde_json::from_value(metadata).unwrap()
}

fn controller(name: &str) -> Maker {
    Maker::Controller(name.into())
}

fn other(name: &str) -> Maker {
    Maker::SomebodyElse(name.into())
}

fn made_endpoints() -> Value {
    json!({LABEL_ENDPOINTS_MANAGED_BY: ENDPOINT_CONTROLLER})
}

fn subsets() -> Value {
    json!({"f:subsets": {}})
}

/// Returns the fields that a create with the label owns.
fn labelled() -> Value {
    json!({"f:metadata": {"f:labels": {".": {}, "f:endpoints.kubernetes.io/managed-by": {}}}})
}

fn labelled_subsets() -> Value {
    let mut fields = labelled();
    fields["f:subsets"] = json!({});
    fields
}

#[track_caller]
fn endpoints(what: &str, labels: &Value, entries: &Value, want: &Maker) {
    let found = provenance(labels, entries).maker(Content::Endpoints, &[KCM, KUBE_ENDPOINT_MANAGER, "me"]);
    assert_eq!(found, *want, "{what}: {entries}");
}

#[test]
fn endpoints_are_a_controllers_if_nobody_else_owns_their_subsets() {
    let made = made_endpoints();
    for name in [KCM, KUBE_ENDPOINT_MANAGER, "me"] {
        let entries = json!([entry(name, NEW, labelled_subsets())]);
        endpoints("made by a controller", &made, &entries, &controller(name));
    }
    for name in [KCM, KUBE_ENDPOINT_MANAGER] {
        let entries = json!([entry(name, NEW, labelled_subsets())]);
        endpoints("before 1.33 there is no label", &json!({}), &entries, &controller(name));
        endpoints("labels are null", &Value::Null, &entries, &controller(name));
    }
    for name in ["kubectl-create", "velero-server", "before-first-apply"] {
        let entries = json!([entry(name, NEW, labelled_subsets())]);
        endpoints("copied with its label", &made, &entries, &other(name));
        endpoints("without the label", &json!({}), &entries, &other(name));
    }
    let both = json!([entry(KCM, NEW, subsets()), entry("kubectl", OLD, subsets())]);
    endpoints("two managers own the subsets", &made, &both, &other("kubectl"));
    let handed_over = json!([entry(KCM, OLD, labelled()), entry(KUBE_ENDPOINT_MANAGER, NEW, subsets())]);
    endpoints("a controller after another one", &made, &handed_over, &controller(KUBE_ENDPOINT_MANAGER));
    let two = json!([entry(KCM, NEW, subsets()), entry("me", OLD, subsets())]);
    endpoints("two controllers", &made, &two, &controller(KCM));
    let edited = json!([entry(KCM, OLD, labelled()), entry("kubectl-edit", NEW, subsets())]);
    endpoints("a user wrote the addresses", &made, &edited, &other("kubectl-edit"));
    let note = json!({"f:metadata": {"f:annotations": {".": {}, "f:note": {}}}});
    let noted = json!([entry(KCM, OLD, subsets()), entry("kubectl-annotate", NEW, note)]);
    endpoints("a user wrote something else", &made, &noted, &controller(KCM));
    let overwritten = json!([entry("kubectl-create", OLD, labelled()), entry(KCM, NEW, subsets())]);
    endpoints("a controller has overwritten a copy", &made, &overwritten, &controller(KCM));
}

#[test]
fn each_operation_and_each_subresource_owns_fields() {
    let made = made_endpoints();
    for operation in ["Apply", "Update"] {
        for subresource in [Value::Null, "".into(), "status".into()] {
            let with = |name: &str| {
                let mut entry = entry(name, NEW, subsets());
                entry["operation"] = operation.into();
                entry["subresource"] = subresource.clone();
                json!([entry])
            };
            endpoints("of a controller", &made, &with(KCM), &controller(KCM));
            endpoints("of a user", &made, &with("kustomize-controller"), &other("kustomize-controller"));
        }
    }
    let mut applied = entry("kubectl", NEW, subsets());
    applied["operation"] = "Apply".into();
    let apply = json!([{"manager": "me", "operation": "Apply", "fieldsV1": subsets()}]);
    endpoints("controllers do not apply", &made, &apply, &other("me"));
    endpoints(
        "applied with equal content",
        &made,
        &json!([entry(KCM, OLD, subsets()), applied]),
        &other("kubectl"),
    );
}

#[test]
fn without_content_the_owners_of_the_label_or_of_anything_decide() {
    let made = made_endpoints();
    let note = json!({"f:metadata": {"f:annotations": {".": {}, "f:note": {}}}});
    let noted = |by: &str| json!([entry(by, OLD, labelled()), entry("kubectl-annotate", NEW, note.clone())]);
    endpoints("no pod is ready", &made, &noted(KCM), &controller(KCM));
    endpoints("a user made them empty", &made, &noted("kubectl-create"), &other("kubectl-create"));
    let unlabelled = json!([entry(KCM, OLD, note.clone())]);
    endpoints("before 1.33", &json!({}), &unlabelled, &controller(KCM));
    let both = json!([entry(KCM, OLD, note.clone()), entry("kubectl", OLD, note)]);
    endpoints("before 1.33, with a note of a user", &json!({}), &both, &other("kubectl"));
}

#[test]
fn an_object_may_not_tell_who_made_it() {
    let made = made_endpoints();
    endpoints("no managedFields", &made, &json!([]), &Maker::Unknown);
    endpoints("null", &made, &Value::Null, &Maker::Unknown);
    endpoints("reset by a client", &made, &json!([{}]), &Maker::Unknown);
    for empty in [json!({}), Value::Null] {
        endpoints("an empty fieldsV1", &made, &json!([entry(KCM, NEW, empty.clone())]), &Maker::Unknown);
        let beside = json!([entry("kubectl", NEW, empty), entry(KCM, OLD, subsets())]);
        endpoints("an empty fieldsV1 beside another", &made, &beside, &controller(KCM));
    }
    let odd = json!({"f:metadata": 7, "f:other": ["x"], "f:subsets": null});
    endpoints("odd fields", &made, &json!([entry("kubectl", NEW, odd)]), &other("kubectl"));
    assert_eq!(Provenance::default().maker(Content::Endpoints, &CONTROLLERS), Maker::Unknown);
}

#[test]
fn a_label_that_names_another_manager_is_believed() {
    let theirs = json!({LABEL_ENDPOINTS_MANAGED_BY: "mine"});
    endpoints("taken over", &theirs, &json!([entry(KCM, NEW, subsets())]), &other("mine"));
}

#[test]
fn slices_need_the_label_and_no_other_owner_of_endpoints_or_ports() {
    let check = |what: &str, label: Option<&str>, entries: &Value, want: &Maker| {
        let labels = label.map_or(json!({}), |label| json!({LABEL_MANAGED_BY: label}));
        let found = provenance(&labels, entries).maker(Content::Slice, &CONTROLLERS);
        assert_eq!(found, *want, "{what}");
    };
    let all = || json!({"f:addressType": {}, "f:endpoints": {}, "f:ports": {}});
    for label in [ENDPOINTSLICE_CONTROLLER, MIRRORING_CONTROLLER] {
        check("made", Some(label), &json!([entry(KCM, NEW, all())]), &controller(KCM));
        check("copied", Some(label), &json!([entry("kubectl-create", NEW, all())]), &other("kubectl-create"));
        for field in ["f:endpoints", "f:ports"] {
            let entries = json!([entry(KCM, OLD, all()), entry("kubectl-edit", NEW, json!({field: {}}))]);
            check("edited", Some(label), &entries, &other("kubectl-edit"));
        }
    }
    // As kube-apiserver 1.36 records the slice of a Service without pods.
    let placeholder = json!({"f:addressType": {}, "f:metadata": {
        "f:annotations": {".": {}, "f:endpoints.kubernetes.io/last-change-trigger-time": {}}, "f:generateName": {},
        "f:labels": {".": {}, "f:endpointslice.kubernetes.io/managed-by": {}, "f:kubernetes.io/service-name": {}},
        "f:ownerReferences": {".": {}, "k:{\"uid\":\"f72c2e74-53af-4f74-9c8b-d70bea768af8\"}": {}},
    }});
    let note = json!({"f:metadata": {"f:annotations": {"f:note": {}}}});
    let noted = json!([entry(KCM, OLD, placeholder), entry("kubectl-annotate", NEW, note)]);
    check("a placeholder with a note of a user", Some(ENDPOINTSLICE_CONTROLLER), &noted, &controller(KCM));
    check("no label", None, &json!([entry(KCM, NEW, all())]), &Maker::Unknown);
    check("another label", Some("me"), &json!([entry(KCM, NEW, all())]), &other("me"));
    check("no managedFields", Some(MIRRORING_CONTROLLER), &json!([]), &Maker::Unknown);
}

#[test]
fn the_callers_managers_are_the_controllers() {
    let made = provenance(&made_endpoints(), &json!([entry(KCM, NEW, subsets())]));
    assert_eq!(made.maker(Content::Endpoints, &[KUBE_ENDPOINT_MANAGER]), Maker::Uncertain(KCM.into()));
    assert_eq!((&**made.uid(), made.version().to_string()), ("u1", "7".to_owned()));
}

#[test]
fn the_newest_entry_that_owns_the_content_is_the_last_writer() {
    let check = |entries: Value, want: Maker| {
        let found = provenance(&json!({}), &entries)
            .last_writer(Content::Endpoints, &[KCM, KUBE_ENDPOINT_MANAGER, "me"]);
        assert_eq!(found, want, "{entries}");
    };
    check(json!([]), Maker::Unknown);
    check(json!([entry("kubectl", NEW, json!({"f:metadata": {"f:labels": {"f:a": {}}}}))]), Maker::Unknown);
    for name in [KCM, KUBE_ENDPOINT_MANAGER, "me"] {
        check(json!([entry(name, NEW, subsets())]), controller(name));
        check(json!([entry(name, NEW, subsets()), entry("kubectl", OLD, subsets())]), controller(name));
        check(json!([entry(name, OLD, subsets()), entry("kubectl", NEW, subsets())]), other("kubectl"));
        check(json!([entry("kubectl", NEW, subsets()), entry(name, NEW, subsets())]), controller(name));
    }
    let labels = json!({"f:metadata": {"f:labels": {".": {}, "f:note": {}}}});
    check(json!([entry(KCM, OLD, subsets()), entry("kubectl", NEW, labels)]), controller(KCM));
    check(json!([entry("kubectl-edit", NEW, subsets())]), other("kubectl-edit"));
    // A distribution in one binary.
    let signs = [
        json!({"f:labels": {"f:endpoints.kubernetes.io/managed-by": {}}}),
        json!({"f:annotations": {".": {}, "f:endpoints.kubernetes.io/last-change-trigger-time": {}}}),
    ];
    for metadata in signs {
        let fields = json!({"f:metadata": metadata, "f:subsets": {}});
        check(json!([entry("k3s", NEW, fields)]), controller("k3s"));
    }
    // An entry without a time counts as the oldest.
    check(json!([{"manager": "x", "fieldsV1": {"f:subsets": {}}}, entry("y", OLD, subsets())]), other("y"));
}

#[test]
fn without_content_the_owner_of_the_label_counts_and_then_any_owner() {
    let check = |entries: Value, want: Option<Maker>| {
        let found = provenance(&json!({}), &entries);
        let write = found.last_write_or_making(Content::Endpoints, &CONTROLLERS);
        assert_eq!(write.map(|write| write.writer), want, "{entries}");
    };
    let label = || json!({"f:metadata": {"f:labels": {".": {}, "f:endpoints.kubernetes.io/managed-by": {}}}});
    let note = || json!({"f:metadata": {"f:annotations": {"f:note": {}}}});
    // A Service without pods.
    let noted = json!([entry(KUBE_ENDPOINT_MANAGER, OLD, label()), entry("kubectl-annotate", NEW, note())]);
    assert_eq!(provenance(&json!({}), &noted).last_write(Content::Endpoints, &CONTROLLERS), None);
    assert_eq!(provenance(&json!({}), &noted).changed(), NEW.parse().ok());
    check(noted, Some(controller(KUBE_ENDPOINT_MANAGER)));
    check(json!([entry(KCM, NEW, note())]), Some(controller(KCM)));
    check(json!([entry("kubectl-annotate", NEW, note())]), Some(other("kubectl-annotate")));
    check(json!([entry(KCM, OLD, subsets()), entry("me", NEW, label())]), Some(controller(KCM)));
    check(json!([]), None);
    assert_eq!(Provenance::default().changed(), None);
}

/// Returns the metadata that a real API server answered, 1.36.2, with another field manager.
fn recorded(kind: &str, name: &str, manager: &str) -> Value {
    let path =
        format!("{}/../../integration-tests/fixtures/protobuf/{kind}.list.json", env!("CARGO_MANIFEST_DIR"));
    let list: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut items = list["items"].as_array().unwrap().iter();
    let found = items.find(|item| item["metadata"]["name"] == name).unwrap();
    let mut metadata = found["metadata"].clone();
    for entry in metadata["managedFields"].as_array_mut().unwrap() {
        assert_eq!(entry["manager"], KCM, "{kind} {name}");
        entry["manager"] = manager.into();
    }
    metadata
}

/// Objects of the endpointslice, the mirroring and the endpoints controller. The last of the first
/// and of the third have no content.
const RECORDED: [(&str, &str, Content); 6] = [
    ("endpointslices", "cart-8xkwp", Content::Slice),
    ("endpointslices", "db-72psq", Content::Slice),
    ("endpointslices", "payments-mp6rl", Content::Slice),
    ("endpointslices", "nobody-vffrb", Content::Slice),
    ("endpoints", "frontend", Content::Endpoints),
    ("endpoints", "nobody", Content::Endpoints),
];

fn maker_of(metadata: &Value, content: Content, controllers: &[&str]) -> Maker {
    serde_json::from_value::<Provenance>(metadata.clone()).unwrap().maker(content, controllers)
}

#[test]
fn real_objects_are_recognised_under_the_name_of_each_distribution() {
    for (kind, name, content) in RECORDED {
        for manager in CONTROLLERS {
            let metadata = recorded(kind, name, manager);
            assert_eq!(maker_of(&metadata, content, &CONTROLLERS), controller(manager), "{name}");
        }
        let unknown = recorded(kind, name, "hyperkube");
        assert_eq!(maker_of(&unknown, content, &CONTROLLERS), Maker::Uncertain("hyperkube".into()), "{name}");
        assert_eq!(maker_of(&unknown, content, &["hyperkube"]), controller("hyperkube"), "{name}");
        for tool in ["kubectl-create", "velero-server", "Helm", "helm", "argocd-controller"] {
            let copied = maker_of(&recorded(kind, name, tool), content, &CONTROLLERS);
            assert_eq!(copied, other(tool), "{name}");
        }
    }
}

#[test]
fn without_the_form_of_a_controller_s_object_only_a_controller_s_own_name_proves_enough() {
    let check = |what: &str, (kind, name, content): (&str, &str, Content), change: &dyn Fn(&mut Value)| {
        for manager in ["k3s", "hyperkube"] {
            let mut metadata = recorded(kind, name, manager);
            change(&mut metadata);
            assert_eq!(maker_of(&metadata, content, &CONTROLLERS), other(manager), "{what}: {name}");
        }
        let mut metadata = recorded(kind, name, KCM);
        change(&mut metadata);
        assert_eq!(maker_of(&metadata, content, &CONTROLLERS), controller(KCM), "{what}: {name}");
    };
    for object in RECORDED {
        check("applied by kubectl", object, &|it| {
            it["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = "{}".into();
        });
        check("applied on the server", object, &|it| it["managedFields"][0]["operation"] = "Apply".into());
        check("the status", object, &|it| it["managedFields"][0]["subresource"] = "status".into());
    }
    for slice in &RECORDED[..4] {
        check("no owner", *slice, &|it| it["ownerReferences"] = Value::Null);
        check("another owner", *slice, &|it| it["ownerReferences"][0]["kind"] = "StatefulSet".into());
        check("of another Service", *slice, &|it| it["ownerReferences"][0]["name"] = "other".into());
        check("no controlling owner", *slice, &|it| it["ownerReferences"][0]["controller"] = Value::Null);
        check("a name of its own", *slice, &|it| it["name"] = "by-hand".into());
        check("no generated name", *slice, &|it| it["generateName"] = Value::Null);
        check("another prefix", *slice, &|it| it["generateName"] = "x-".into());
    }
    for endpoints in &RECORDED[4..] {
        check("an owner", *endpoints, &|it| {
            it["ownerReferences"] =
                json!([{"apiVersion": "example.com/v1", "kind": "Database", "name": "db", "uid": "1"}]);
        });
        check("no label and no time", *endpoints, &|it| {
            it["labels"] = Value::Null;
            it["annotations"] = Value::Null;
        });
    }
    // Before Kubernetes 1.33 the time of a change is the only sign.
    let mut old = recorded("endpoints", "frontend", "k3s");
    old["labels"] = Value::Null;
    assert_eq!(maker_of(&old, Content::Endpoints, &CONTROLLERS), controller("k3s"));
}

#[test]
fn of_several_owners_the_one_that_is_certainly_no_controller_decides() {
    let check = |second: &str, want: Maker| {
        let mut metadata = recorded("endpointslices", "cart-8xkwp", "k3s");
        let ports = json!({"f:ports": {}});
        metadata["managedFields"].as_array_mut().unwrap().push(entry(second, NEW, ports));
        assert_eq!(maker_of(&metadata, Content::Slice, &CONTROLLERS), want);
    };
    check(KCM, controller("k3s"));
    check("hyperkube", Maker::Uncertain("hyperkube".into()));
    check("kubectl-edit", other("kubectl-edit"));
}

#[test]
fn the_server_shortens_a_long_prefix() {
    let service = "s".repeat(63);
    let mut metadata = recorded("endpointslices", "cart-8xkwp", "k3s");
    metadata["labels"]["kubernetes.io/service-name"] = service.as_str().into();
    metadata["ownerReferences"][0]["name"] = service.as_str().into();
    metadata["generateName"] = format!("{service}-").into();
    metadata["name"] = format!("{}8xkwp", &service[..58]).into();
    assert_eq!(maker_of(&metadata, Content::Slice, &CONTROLLERS), controller("k3s"));
}
