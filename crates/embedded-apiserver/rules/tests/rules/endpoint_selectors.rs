//! Compares the decisions about EndpointSelectors with the recorded answers of kube-apiserver
//! 1.36.2, which had `deploy/crds/endpointselectors.yaml`.

use kube_endpoint_apiserver_rules::resource::ENDPOINT_SELECTORS;
use kube_endpoint_apiserver_rules::strategy::{self, Subresource};
use serde_json::{Value, json};

fn recorded() -> Vec<Value> {
    serde_json::from_str(include_str!("endpoint_selectors.json")).unwrap()
}

/// Sorts the causes: the real server finds those of a map in any order.
fn causes(details: &Value) -> Vec<String> {
    let mut causes: Vec<String> =
        details["causes"].as_array().into_iter().flatten().map(ToString::to_string).collect();
    causes.sort_unstable();
    causes
}

/// Returns the part of an object that the recording has.
fn shown(object: &Value) -> Value {
    let metadata = object["metadata"].as_object().unwrap().clone().into_iter();
    let shown = ["name", "namespace", "generation", "labels"];
    let mut object = object.clone();
    object["metadata"] = metadata.filter(|(key, _)| shown.contains(&key.as_str())).collect();
    object
}

#[test]
fn creates_are_answered_as_by_a_real_server() {
    let creates = recorded().into_iter().filter(|one| one.get("step").is_none());
    let mut refused = 0;
    for create in creates {
        let name = &create["request"]["metadata"]["name"];
        let decoded = strategy::decode(&ENDPOINT_SELECTORS, create["request"].clone()).unwrap();
        if let Some(warning) = create["warning"].as_str() {
            let texts: Vec<String> =
                decoded.warnings.iter().map(|text| format!("299 - {:?}", text)).collect();
            assert!(texts.contains(&warning.to_owned()), "{name}: {texts:?}");
        }
        match strategy::before_create(&ENDPOINT_SELECTORS, decoded.object) {
            Ok(created) => {
                assert_eq!(create["code"], 201, "{name}");
                assert_eq!(shown(&created.object), create["object"], "{name}");
            }
            Err(status) => {
                refused += 1;
                let status = status.to_json();
                assert_eq!(create["code"], status["code"], "{name}: {status}");
                let (got, want) = (&status["details"], &create["status"]["details"]);
                assert_eq!(causes(got), causes(want), "{name}");
                for field in ["name", "group", "kind"] {
                    assert_eq!(got[field], want[field], "{name}");
                }
            }
        }
    }
    assert!(refused > 20, "{refused}");
}

/// No recording has the role of a Lease: a real server answers as for `pick`, which is recorded.
#[test]
fn a_lease_has_one_of_two_roles() {
    let recorded = recorded();
    let request = |name: &str| {
        let of_name = |one: &&Value| one["request"]["metadata"]["name"] == name;
        recorded.iter().find(of_name).unwrap()["request"].clone()
    };
    let create = |role: &str| {
        let mut selector = request("r-lease");
        selector["spec"]["readiness"]["lease"]["role"] = json!(role);
        let decoded = strategy::decode(&ENDPOINT_SELECTORS, selector).unwrap();
        assert!(decoded.warnings.is_empty(), "the field is known");
        strategy::before_create(&ENDPOINT_SELECTORS, decoded.object)
    };
    for role in ["Leader", "Follower"] {
        let created = create(role).unwrap().object;
        assert_eq!(created["spec"]["readiness"]["lease"], json!({"name": "scheduler", "role": role}));
    }
    let causes = causes(&create("Newest").unwrap_err().to_json()["details"]);
    let wants = r#"Unsupported value: \"Newest\": supported values: \"Leader\", \"Follower\""#;
    assert!(causes.iter().any(|cause| cause.contains(wants)), "{causes:?}");
}

#[test]
fn merge_patches_change_what_a_real_server_lets_them_change() {
    let steps = recorded();
    let mut object =
        strategy::before_create(&ENDPOINT_SELECTORS, steps[0]["request"].clone()).unwrap().object;
    let mut compared = 0;
    for step in steps.iter().filter(|one| one["contentType"] == "application/merge-patch+json") {
        let name = step["step"].as_str().unwrap();
        // The server compares versions before it asks the strategy.
        if step["code"] == 409 {
            continue;
        }
        let mut new = object.clone();
        merge(&mut new, &step["request"]);
        new["metadata"]["resourceVersion"] = json!("7");
        let new = strategy::decode(&ENDPOINT_SELECTORS, new).unwrap().object;
        let is_status = step["path"].as_str().unwrap().ends_with("/status");
        let subresource = if is_status { Subresource::Status } else { Subresource::None };
        compared += 1;
        match strategy::before_update(&ENDPOINT_SELECTORS, &object, new, subresource) {
            Ok(updated) => {
                assert_eq!(step["code"], 200, "{name}");
                assert_eq!(shown(&updated.object), step["object"], "{name}");
                object = updated.object;
            }
            Err(status) => {
                let status = status.to_json();
                assert_eq!(step["code"], status["code"], "{name}: {status}");
                assert_eq!(causes(&status["details"]), causes(&step["status"]["details"]), "{name}");
            }
        }
    }
    assert_eq!(compared, 7);
}

/// Applies a merge patch (RFC 7386).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}
