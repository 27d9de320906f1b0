//! Tests that the short form of an explanation is short, whatever the cluster, and what it has.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use kube_endpoint_core_model::{ObjectKey, harmless_json};
use kube_endpoint_explain::{API_VERSION, BRIEF_BYTES, Brief, Objects, Options, explain};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::shop;

/// Returns a Service with a port of a name that its pods lack, and these pods.
fn cluster(name: &str, pods: usize, not_read: usize) -> (Objects, ObjectKey, Vec<String>) {
    let labels = json!({"app": name});
    let service = json!({"kind": "Service", "metadata": {"name": name, "namespace": name}, "spec": {
        "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "selector": labels,
        "ports": [{"name": name, "port": 80, "targetPort": name, "protocol": "TCP"}]}});
    let pod = |at: usize| {
        let ip = format!("10.1.{}.{}", at / 250, at % 250 + 1);
        json!({"kind": "Pod", "metadata": {"name": format!("{name}{at}"), "namespace": name, "labels": labels},
            "spec": {"nodeName": name, "containers": [{"name": name, "ports": [{"name": format!("{name}x"), "containerPort": 8080, "protocol": "TCP"}]}]},
            "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
                "conditions": [{"type": "Ready", "status": if at.is_multiple_of(3) { "True" } else { "False" }, "message": name}],
                "containerStatuses": [{"name": name, "ready": false, "state": {"waiting": {"reason": name, "message": name}}}]}})
    };
    let node = json!({"kind": "Node", "metadata": {"name": name},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let objects = Objects::read([service, node].into_iter().chain((0..pods).map(pod))).unwrap();
    (objects, ObjectKey::new(name, name), vec![format!("You may not read {name}."); not_read])
}

fn brief((objects, key, not_read): (Objects, ObjectKey, Vec<String>)) -> Brief {
    let topology = objects.topology();
    let told = explain(&objects, &key, &topology, shop::now(), None, &Options::default()).unwrap();
    told.with_not_read(not_read).brief()
}

/// Returns the document as the plugin prints it.
fn printed(brief: &Brief) -> String {
    let mut document = json!({"apiVersion": API_VERSION, "kind": "BriefExplanation"});
    let Value::Object(fields) = serde_json::to_value(brief).unwrap() else { panic!("no object") };
    document.as_object_mut().unwrap().extend(fields);
    harmless_json(&serde_json::to_string_pretty(&document).unwrap()).into_owned() + "\n"
}

/// Files may have names that no server accepts.
#[test]
fn a_thousand_pods_and_very_long_names_are_brief() {
    let long = |c: &str| (c.repeat(2000), 20);
    for (name, pods) in
        [("w".repeat(253), 1000), long("\""), long("\u{1b}"), long("\u{1f600}"), long("\u{e0001}")]
    {
        let brief = brief(cluster(&name, pods, 200));
        let printed = printed(&brief);
        assert!(printed.len() <= BRIEF_BYTES, "{} bytes: {printed}", printed.len());
        assert!(!brief.evidence.is_empty() && !brief.remedy.is_empty(), "{printed}");
        let named: usize = brief.pods.iter().map(|group| group.examples.len()).sum();
        assert_eq!(brief.omitted.pods, pods - named);
        assert_eq!(brief.omitted.not_known + brief.not_known.len(), 200);
    }
}

#[test]
fn a_small_service_is_told_with_its_cause_and_the_commands() {
    let objects = shop::objects();
    let key = ObjectKey::new("shop", "frontend-typo");
    let explained = explain(&objects, &key, &objects.topology(), shop::now(), None, &Options::default());
    insta::assert_snapshot!(printed(&explained.unwrap().brief()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_explanation_is_brief(name in "\\PC{1,600}", pods in 0_usize..40, not_read in 0_usize..30) {
        let printed = printed(&brief(cluster(&name, pods, not_read)));
        prop_assert!(printed.len() <= BRIEF_BYTES, "{}", printed.len());
    }
}
