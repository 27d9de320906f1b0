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
        endpoints("before 1.33 there is no label", &json!({}), &entries, &controller(name));
        endpoints("labels are null", &Value::Null, &entries, &controller(name));
    }
    for name in ["kubectl-create", "velero-server", "before-first-apply", "k3s", ""] {
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
            endpoints("of a user", &made, &with("flux"), &other("flux"));
        }
    }
    let mut applied = entry("kubectl", NEW, subsets());
    applied["operation"] = "Apply".into();
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
    assert_eq!(made.maker(Content::Endpoints, &[KUBE_ENDPOINT_MANAGER]), other(KCM));
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
