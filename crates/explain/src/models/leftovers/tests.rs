//! Tests which objects are left over, by their metadata and by the existing objects.

use std::sync::Arc;

use kube_endpoint_core_model::well_known::{
    ANNOTATION_LEADER, ENDPOINT_CONTROLLER, ENDPOINTSLICE_CONTROLLER, SELECTOR_CONTROLLER,
};
use kube_endpoint_core_model::{EndpointSlice, Service};
use serde_json::json;

use super::*;

fn slice(manager: &str, service: &str, owners: &Value) -> Value {
    json!({"name": "web-1", "namespace": "n", "uid": "u1", "resourceVersion": "7",
        "labels": {LABEL_MANAGED_BY: manager, LABEL_SERVICE_NAME: service}, "ownerReferences": owners,
        "managedFields": written_by("kube-controller-manager", "f:endpoints")})
}

/// Returns the managedFields of an object whose field was written by this manager.
fn written_by(manager: &str, field: &str) -> Value {
    json!([{"manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": {field: {}}}])
}

fn owner(kind: &str, uid: &str) -> Value {
    json!([{"apiVersion": "v1", "kind": kind, "name": "web", "uid": uid}])
}

fn endpoints(extra: &Value) -> Value {
    let mut metadata = json!({"name": "web", "namespace": "n", "uid": "u1", "resourceVersion": "7",
        "labels": {LABEL_ENDPOINTS_MANAGED_BY: ENDPOINT_CONTROLLER},
        "managedFields": written_by("kube-endpoint-manager", "f:subsets")});
    for (key, value) in extra.as_object().into_iter().flatten() {
        metadata[key] = value.clone();
    }
    metadata
}

/// Judges in a namespace with a Service and Endpoints of these uids.
#[track_caller]
fn check(kind: OutputKind, metadata: &Value, service: Option<&str>, endpoints: Option<&str>, want: &str) {
    let managed = Managed::read(kind, metadata).unwrap().unwrap();
    let look = |reference: &Reference| {
        assert!(managed.references().contains(reference), "{reference} is not announced");
        let uid = if reference.is_service { service } else { endpoints };
        match uid {
            Some("?") => Presence::Unknown("you may not read it".to_owned()),
            Some(uid) if *reference.key.name == *"web" => Presence::Present(uid.into()),
            _ => Presence::Absent,
        }
    };
    let text = match managed.judge(look) {
        Judgement::Leftover(reason) => format!("leftover: {reason}"),
        Judgement::InUse => "in use".to_owned(),
        Judgement::Kept(why) => format!("kept: {why}"),
        Judgement::Unchecked(why) => format!("unchecked: {why}"),
    };
    assert_eq!(text, want);
}

#[test]
fn a_slice_is_judged_by_its_service_and_its_owners() {
    let of = |owners: &Value| slice(ENDPOINTSLICE_CONTROLLER, "web", owners);
    let kind = OutputKind::EndpointSlice;
    let owned = of(&owner("Service", "s1"));
    check(kind, &owned, Some("s1"), None, "in use");
    check(kind, &owned, None, None, "leftover: the Service web does not exist");
    check(
        kind,
        &owned,
        Some("s2"),
        None,
        "leftover: its owner, Service web (uid s1), does not exist; the Service web that exists has another uid",
    );
    check(
        kind,
        &owned,
        Some("?"),
        None,
        "unchecked: whether it is in use cannot be found out: you may not read it",
    );
    check(kind, &of(&json!([])), Some("s1"), None, "in use");
    check(kind, &of(&json!([])), None, None, "leftover: the Service web does not exist");
    check(
        kind,
        &of(&owner("Gateway", "g1")),
        None,
        None,
        "kept: it is owned by an object that is neither a Service nor Endpoints",
    );
    check(
        kind,
        &slice(ENDPOINTSLICE_CONTROLLER, "", &owner("Service", "s1")),
        None,
        None,
        "leftover: its owner, Service web (uid s1), does not exist",
    );
    check(kind, &slice(ENDPOINTSLICE_CONTROLLER, "", &json!([])), None, None, "in use");
}

#[test]
fn a_mirrored_slice_is_judged_by_its_endpoints_too() {
    let kind = OutputKind::EndpointSlice;
    let owned = slice(MIRRORING_CONTROLLER, "web", &owner("Endpoints", "e1"));
    check(kind, &owned, Some("s1"), Some("e1"), "in use");
    check(kind, &owned, None, Some("e1"), "leftover: the Service web does not exist");
    check(kind, &owned, Some("s1"), None, "leftover: its owner, Endpoints web (uid e1), does not exist");
    check(
        kind,
        &owned,
        Some("s1"),
        Some("?"),
        "unchecked: whether it is in use cannot be found out: you may not read it",
    );
}

#[test]
fn one_owner_that_exists_is_enough() {
    let mut two = owner("Service", "s1");
    two.as_array_mut().unwrap().extend(owner("Endpoints", "e1").as_array().unwrap().clone());
    let slice = slice(MIRRORING_CONTROLLER, "web", &two);
    check(OutputKind::EndpointSlice, &slice, Some("s2"), Some("e1"), "in use");
}

#[test]
fn endpoints_are_judged_by_the_service_of_their_name() {
    let kind = OutputKind::Endpoints;
    check(kind, &endpoints(&json!({})), Some("s1"), None, "in use");
    check(kind, &endpoints(&json!({})), None, None, "leftover: the Service web does not exist");
    let lock = endpoints(&json!({"annotations": {ANNOTATION_LEADER: "{}"}}));
    check(kind, &lock, None, None, "kept: it is the lock of a leader election");
    let deleted = endpoints(&json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
    check(kind, &deleted, None, None, "kept: it is being deleted, and finalizers hold it");
}

#[test]
fn what_a_controller_did_not_make_is_kept() {
    let gone = "the Service web does not exist";
    let kind = OutputKind::Endpoints;
    for name in ["kubectl-create", "velero-server"] {
        let copied = endpoints(&json!({"managedFields": written_by(name, "f:subsets")}));
        let wrote = format!("kept: {gone}, but {name}, which is no controller, wrote what it publishes");
        check(kind, &copied, None, None, &wrote);
        check(kind, &copied, Some("s1"), None, "in use");
    }
    let unknown = format!("kept: {gone}, but its managedFields do not tell who wrote it");
    check(kind, &endpoints(&json!({"managedFields": null})), None, None, &unknown);
    // These are from before Kubernetes 1.33.
    let unlabelled = endpoints(&json!({"labels": {}}));
    check(kind, &unlabelled, None, None, &format!("leftover: {gone}"));
    let mut copied = slice(ENDPOINTSLICE_CONTROLLER, "web", &owner("Service", "s1"));
    copied["managedFields"] = written_by("kubectl-create", "f:ports");
    let kind = OutputKind::EndpointSlice;
    let wrote = format!("kept: {gone}, but kubectl-create, which is no controller, wrote what it publishes");
    check(kind, &copied, None, None, &wrote);
    // The mirroring controller looks at the label alone.
    copied["labels"][LABEL_MANAGED_BY] = MIRRORING_CONTROLLER.into();
    let controller = "cleanup keeps it, but the EndpointSlice-mirroring controller, which its label names, deletes or changes it";
    check(kind, &copied, None, None, &format!("{wrote}; {controller}"));
    copied["managedFields"] = Value::Null;
    check(kind, &copied, None, None, &format!("{unknown}; {controller}"));
}

#[test]
fn endpoints_of_a_service_without_a_selector_are_judged_by_the_other_slices() {
    let service = |annotations: &Value| -> Service {
        serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "n", "annotations": annotations},
            "spec": {"clusterIP": "10.96.0.9", "ipFamilies": ["IPv4", "IPv6"],
                "ports": [{"name": "http", "port": 80, "protocol": "TCP"}, {"name": "dns", "port": 53, "protocol": "UDP"}]}}))
        .unwrap()
    };
    let slice = |name: &str,
                 manager: &str,
                 family: &str,
                 ports: &[&str],
                 ready: bool|
     -> Arc<EndpointSlice> {
        let ports: Vec<Value> = ports
            .iter()
            .map(|name| json!({"name": name, "port": 80, "protocol": if *name == "dns" { "UDP" } else { "TCP" }}))
            .collect();
        let address = if family == "IPv4" { "10.1.0.1" } else { "fd00::1" };
        Arc::new(
            serde_json::from_value(json!({"metadata": {"name": name, "namespace": "n",
            "labels": {LABEL_SERVICE_NAME: "web", LABEL_MANAGED_BY: manager}},
            "addressType": family, "ports": ports,
            "endpoints": [{"addresses": [address], "conditions": {"ready": ready}}]}))
            .unwrap(),
        )
    };
    let mirrored =
        |name: &str, family: &str| slice(name, MIRRORING_CONTROLLER, family, &["http", "dns"], true);
    let of_others = |family: &str, ports: &[&str]| slice("own", "me", family, ports, true);
    let mut texts = Vec::new();
    let mut check = |annotations: &Value, slices: &[Arc<EndpointSlice>]| {
        let managed = Managed::read(OutputKind::Endpoints, &endpoints(&json!({}))).unwrap().unwrap();
        assert!(managed.is_made_from_pods());
        texts.push(match managed.judge_without_selector(Remains::of(&service(annotations), None, slices)) {
            Judgement::Leftover(reason) => format!("leftover: {reason}"),
            Judgement::Kept(why) => format!("kept: {why}"),
            other => panic!("{other:?}"),
        });
    };
    let none = json!({});
    check(&none, &[]);
    check(&none, &[mirrored("m", "IPv4"), of_others("IPv4", &["http", "dns"])]);
    check(&none, &[mirrored("m", "IPv4"), mirrored("n", "IPv4"), of_others("IPv4", &["http", "dns"])]);
    check(&none, &[mirrored("m", "IPv4"), of_others("IPv4", &["http"])]);
    check(&none, &[mirrored("m", "IPv4"), of_others("IPv6", &["http", "dns"])]);
    check(&none, &[mirrored("m", "IPv4"), slice("own", "me", "IPv4", &["http", "dns"], false)]);
    check(
        &none,
        &[mirrored("m", "IPv4"), slice("p", ENDPOINTSLICE_CONTROLLER, "IPv4", &["http", "dns"], true)],
    );
    check(&none, &[slice("p", ENDPOINTSLICE_CONTROLLER, "IPv4", &["http", "dns"], true)]);
    check(&none, &[slice("m", MIRRORING_CONTROLLER, "IPv4", &["http", "dns"], false)]);
    check(&none, &[mirrored("m", "IPv4"), slice("p", SELECTOR_CONTROLLER, "IPv4", &["http", "dns"], true)]);
    let attached = json!({"kube-endpoint-manager.github.io/endpoint-selector": "db"});
    check(&attached, &[mirrored("m", "IPv4"), of_others("IPv4", &["http", "dns"])]);
    insta::assert_snapshot!(texts.join("\n"));

    let is_made = |extra: Value| {
        Managed::read(OutputKind::Endpoints, &endpoints(&extra)).unwrap().unwrap().is_made_from_pods()
    };
    assert!(is_made(json!({"labels": {}})));
    assert!(!is_made(json!({"managedFields": written_by("kubectl-create", "f:subsets")})));
    // These stay, with the reason.
    assert!(is_made(json!({"managedFields": null})));
    assert!(is_made(json!({"managedFields": written_by("hyperkube", "f:subsets")})));
    assert!(!is_made(json!({"annotations": {ANNOTATION_LEADER: "{}"}})));
    assert!(!is_made(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})));
    let of_service = self::slice(ENDPOINTSLICE_CONTROLLER, "web", &json!([]));
    assert!(!Managed::read(OutputKind::EndpointSlice, &of_service).unwrap().unwrap().is_made_from_pods());
}

#[test]
fn what_may_be_a_controllers_is_kept_with_the_reason() {
    let kept = |kind, metadata: &Value| {
        let object = Managed::read(kind, metadata).unwrap().unwrap();
        assert!(object.is_made_from_pods());
        let endpoint_selector = Some("db".into());
        let remains = Remains { endpoint_selector, mirrored: Vec::new(), missed: Vec::new() };
        match object.judge_without_selector(remains) {
            Judgement::Kept(why) => why,
            other => panic!("{other:?}"),
        }
    };
    let mut of_unknown = slice(ENDPOINTSLICE_CONTROLLER, "web", &json!([]));
    of_unknown["managedFields"] = json!([]);
    let mut copied = of_unknown.clone();
    copied["managedFields"] = written_by("kubectl-edit", "f:endpoints");
    let kept = [
        kept(
            OutputKind::Endpoints,
            &endpoints(&json!({"managedFields": written_by("hyperkube", "f:subsets")})),
        ),
        kept(OutputKind::EndpointSlice, &of_unknown),
        kept(OutputKind::EndpointSlice, &copied),
    ];
    insta::assert_snapshot!(kept.join("\n"));
}

#[test]
fn what_names_no_controller_is_not_looked_at() {
    let check = |kind, metadata: Value| assert_eq!(Managed::read(kind, &metadata).unwrap(), None);
    check(OutputKind::Endpoints, json!({"name": "by-hand", "namespace": "n"}));
    check(
        OutputKind::Endpoints,
        json!({"name": "n", "labels": {LABEL_ENDPOINTS_MANAGED_BY: "my-controller"}}),
    );
    check(OutputKind::EndpointSlice, slice("my-controller.example.com", "web", &json!([])));
    check(OutputKind::EndpointSlice, json!({"name": "n", "labels": {LABEL_SERVICE_NAME: "web"}}));
    // This has the label of the other kind.
    check(OutputKind::EndpointSlice, endpoints(&json!({})));
    let of_user = json!({"labels": {}, "managedFields": written_by("kubectl-create", "f:subsets")});
    check(OutputKind::Endpoints, endpoints(&of_user));
}

#[test]
fn the_exit_code_tells_whether_leftovers_remain() {
    let item = |outcome| CleanupItem {
        kind: OutputKind::Endpoints,
        object: ObjectKey::new("n", "web"),
        uid: "u1".into(),
        reason: String::new(),
        outcome,
        message: String::new(),
    };
    let check = |outcomes: &[Outcome], not_read: &[&str], want: u8| {
        let items = outcomes.iter().copied().map(item).collect();
        let not_read = not_read.iter().map(|note| (*note).to_owned()).collect();
        assert_eq!(Cleanup { items, not_read }.exit_code(), want);
    };
    check(&[], &[], 0);
    check(&[], &["You may not read endpoints."], 2);
    check(&[Outcome::Found], &[], 1);
    check(&[Outcome::Deleted, Outcome::Gone], &[], 0);
    check(&[Outcome::Deleted, Outcome::Kept], &[], 0);
    check(&[Outcome::Kept], &["You may not read endpoints."], 2);
    check(&[Outcome::Kept, Outcome::Unchecked], &[], 2);
    check(&[Outcome::Unchecked, Outcome::Found], &[], 1);
    check(&[Outcome::Deleted, Outcome::Failed], &["You may not read endpoints."], 1);
}
