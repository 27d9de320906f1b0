//! Tests explanations of Services that follow a leader.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use kube_endpoint_core_model::well_known::SELECTOR_CONTROLLER;
use kube_endpoint_explain::{Code, Objects, Options, Severity, diff, explain};
use serde_json::{Value, json};

use crate::faults::now;
use crate::selectors::{key, own_with, pod, service, told};

const LEADER: &str = "shop.example/leader";

fn selector(readiness: &Value) -> Value {
    json!({"apiVersion": "kube-endpoint-manager.github.io/v1alpha1", "kind": "EndpointSelector",
        "metadata": {"name": "web-stable", "generation": 1, "resourceVersion": "1"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "readiness": readiness},
        "status": {"observedGeneration": 1}})
}

pub(crate) fn lease(holder: &str, renewed: &str) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "web"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:10.000000Z", "renewTime": renewed}})
}

/// Returns three ready pods. The slices show those of `ready`.
fn cluster(ready: &[usize], others: impl IntoIterator<Item = Value>) -> Objects {
    cluster_of(&[1, 2, 3], ready, others)
}

fn cluster_of(pods: &[usize], ready: &[usize], others: impl IntoIterator<Item = Value>) -> Objects {
    let node = json!({"kind": "Node", "metadata": {"name": "node-a", "labels": {}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let app = json!({"app": "web"});
    let mut slice = own_with(SELECTOR_CONTROLLER, pods, ready);
    let pods = pods.iter().map(|number| pod(*number, &app, true));
    for endpoint in slice["endpoints"].as_array_mut().unwrap() {
        // The plan leaves it out where the readiness does not choose a pod.
        if endpoint["conditions"]["ready"] == false {
            endpoint["conditions"]["terminating"] = Value::Null;
        }
    }
    let objects = [node, service(&json!({})), slice].into_iter().chain(pods).chain(others);
    Objects::read(objects).unwrap()
}

/// The Service of the followers of the same election.
pub(crate) fn followers(ready: &[usize], lease: Option<Value>) -> Objects {
    let readiness = json!({"lease": {"name": "web", "role": "Follower"}});
    cluster(ready, [selector(&readiness)].into_iter().chain(lease))
}

pub(crate) fn by_lease(ready: &[usize], lease: Option<Value>) -> Objects {
    cluster(ready, [selector(&json!({"lease": {"name": "web"}}))].into_iter().chain(lease))
}

/// Returns the message of a finding about a Service that is down.
fn fault(objects: &Objects, code: Code) -> Option<String> {
    let (message, severity) = fault_of(objects, code)?;
    assert_eq!(severity, Severity::Error);
    Some(message)
}

/// Returns the message of a finding about the Service, and the severity of the verdict.
fn fault_of(objects: &Objects, code: Code) -> Option<(String, Severity)> {
    let explanation =
        explain(objects, &key(), &objects.topology(), now(), None, &Options::default()).unwrap();
    let advice = explanation.to_do.iter().find(|advice| advice.code == code && advice.pods == 0)?;
    Some((advice.message.clone(), explanation.verdict.severity))
}

/// Clocks that differ by minutes do not make a leader of nobody.
#[test]
fn a_leader_that_the_slices_show_leads_whatever_the_clock_says() {
    let objects = by_lease(&[1], Some(lease("web-1_6bb9", "2026-01-01T00:00:11.000000Z")));
    assert_eq!(fault_of(&objects, Code::NobodyLeads), None);
}

/// The readiness was added to a Service whose pods are all ready endpoints: these stay until the
/// controller knows who leads.
#[test]
fn the_slices_tell_who_receives_traffic_while_a_leader_is_awaited() {
    let said = |ready: &[usize], note: &str, holder: Option<&str>| {
        let mut selector = selector(&json!({"lease": {"name": "web"}}));
        selector["status"]["conditions"] =
            json!([{"type": "Accepted", "status": "True", "reason": "Accepted", "message": note}]);
        let holder = holder.map(|holder| lease(holder, &recent()));
        let objects = cluster(ready, [selector].into_iter().chain(holder));
        let options = Options::default();
        let found = explain(&objects, &key(), &objects.topology(), now(), None, &options).unwrap();
        let codes: Vec<Code> = found.to_do.iter().map(|advice| advice.code).collect();
        let leads = found.selected_by.unwrap().leads.unwrap();
        format!("{:?}: {}\n  {codes:?} {leads}", found.verdict.status, found.verdict.message)
    };
    let (all, stay) =
        (&[1, 2, 3], "the ready endpoints stay until a holder renews the Lease, for 15 s at most; a note");
    let told = [
        said(all, stay, None),
        said(all, stay, Some("web-2_6bb9")),
        // The controller has not said yet that they stay, and clients are sent to them.
        said(all, "", None),
        said(&[], stay, None),
    ];
    insta::assert_snapshot!(told.join("\n"));
}

/// The controller lacks the right to read Leases in this namespace.
#[test]
fn a_holder_that_the_status_does_not_show_is_told_with_the_right_that_is_missing() {
    let said = |reason: &str, holder: &str| {
        let mut selector = selector(&json!({"lease": {"name": "web"}}));
        selector["status"]["conditions"] = json!([{"type": "Accepted", "status": "True", "reason": reason}]);
        let objects = cluster(&[], [selector, lease(holder, &recent())]);
        let options = Options::default();
        let found = explain(&objects, &key(), &objects.topology(), now(), None, &options).unwrap();
        let behind = found.to_do.into_iter().find(|advice| advice.code == Code::SlicesBehind);
        behind.map(|advice| format!("{}\n  {}", advice.message, advice.remedy.sentence)).unwrap_or_default()
    };
    insta::assert_snapshot!(said("Accepted", "web-2_6bb9"));
    for other in [said("HolderRecognised", "web-2_6bb9"), said("Accepted", "host-7_6bb9")] {
        assert!(!other.contains("Leases"), "{other}");
    }
}

/// The kubelet has started the container again, and its new process does not lead yet.
#[test]
fn a_container_that_has_restarted_since_the_renewal_does_not_lead() {
    let restarted = |ready: &[usize], started: &str| {
        let mut pod = pod(1, &json!({"app": "web"}), true);
        pod["status"]["containerStatuses"] = json!([{"name": "app", "ready": true, "restartCount": 1,
            "state": {"running": {"startedAt": started}}}]);
        let lease = lease("web-1_6bb9", "2026-01-01T00:09:50.500000Z");
        cluster(ready, [selector(&json!({"lease": {"name": "web"}})), lease, pod])
    };
    let nobody = fault(&restarted(&[], "2026-01-01T00:09:52Z"), Code::NobodyLeads).unwrap();
    assert_eq!(nobody, "no pod leads: Pod web-1 has started since the last renewal of Lease web");
    // The controller has seen a renewal since, and clocks may differ.
    assert_eq!(fault_of(&restarted(&[1], "2026-01-01T00:09:52Z"), Code::NobodyLeads), None);
    assert_eq!(fault_of(&restarted(&[], "2026-01-01T00:09:40Z"), Code::NobodyLeads), None);
}

/// A StatefulSet has made a pod of the name of the one that led.
#[test]
fn a_pod_that_is_younger_than_the_record_does_not_lead() {
    let created = |time: &str| {
        let mut pod = pod(1, &json!({"app": "web"}), true);
        pod["metadata"]["creationTimestamp"] = json!(time);
        let lease = lease("web-1", "2026-01-01T00:09:50.500000Z");
        cluster(&[], [selector(&json!({"lease": {"name": "web"}})), lease, pod])
    };
    let nobody = fault(&created("2026-01-01T00:09:52Z"), Code::NobodyLeads).unwrap();
    assert_eq!(nobody, "no pod leads: Pod web-1 has started since the last renewal of Lease web");
    assert_eq!(fault_of(&created("2026-01-01T00:09:40Z"), Code::NobodyLeads), None);
}

/// Both come from one choice of the leader.
#[test]
fn diff_wants_the_leader_that_explain_names() {
    let old = "2026-01-01T00:00:11.000000Z";
    for renewed in [old.to_owned(), recent()] {
        for (published, holder) in
            [(&[][..], "web-1"), (&[1], "web-1"), (&[2], "web-1"), (&[1], ""), (&[], "x")]
        {
            let objects = by_lease(published, Some(lease(holder, &renewed)));
            let options = Options::default();
            let explained = explain(&objects, &key(), &objects.topology(), now(), None, &options).unwrap();
            let leads = explained.selected_by.unwrap().leads.unwrap().pods;
            let shown: Vec<String> = published.iter().map(|number| format!("web-{number}")).collect();
            let changes = diff(&objects, now(), &options).unwrap();
            assert_eq!(
                changes.is_empty(),
                leads.iter().map(|pod| &**pod).eq(shown.iter()),
                "{leads:?} {changes:#?}"
            );
        }
    }
    let dead = by_lease(&[], Some(lease("web-1_6bb9", old)));
    insta::assert_snapshot!(told(&dead));
}

/// The time of a renewal that counts.
fn recent() -> String {
    now().to_string()
}

#[test]
fn the_leader_by_a_lease_is_named() {
    insta::assert_snapshot!(told(&by_lease(&[2], Some(lease("web-2_6bb9", &recent())))));
}

#[test]
fn nobody_leads_by_a_lease() {
    let check = |lease: Option<Value>| fault(&by_lease(&[], lease), Code::NobodyLeads).unwrap();
    let messages = [
        check(None),
        check(Some(lease("", &recent()))),
        check(Some(lease("host-7_6bb9", &recent()))),
        check(Some(lease("web-1_web-2", &recent()))),
        check(Some(lease("web-1_6bb9", "2026-01-01T00:00:11.000000Z"))),
        check(Some(lease(&"x\n".repeat(200), &recent()))),
    ];
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn a_lease_that_could_not_be_read_is_not_missing() {
    let mut objects = by_lease(&[2], None);
    objects.note_lease_unread(kube_endpoint_core_model::ObjectKey::new("default", "web"));
    assert_eq!(fault(&objects, Code::NobodyLeads), None);
    insta::assert_snapshot!(told(&objects));
}

#[test]
fn a_leader_that_is_not_ready_leads_nobody() {
    let pod = pod(1, &json!({"app": "web"}), false);
    let mut objects = by_lease(&[], Some(lease("web-1_6bb9", &recent())));
    objects.add(pod).unwrap();
    insta::assert_snapshot!(fault(&objects, Code::NobodyLeads).unwrap(), @"no pod leads: Pod web-1, which should, is not ready");
}

fn with_condition(number: usize, second: usize) -> Value {
    let mut pod = pod(number, &json!({"app": "web"}), true);
    let condition = json!({"type": LEADER, "status": "True",
        "lastTransitionTime": format!("2026-01-01T00:00:{second:02}Z")});
    pod["status"]["conditions"].as_array_mut().unwrap().push(condition);
    pod
}

#[test]
fn the_newest_condition_is_named() {
    let readiness = json!({"condition": LEADER, "pick": "Newest"});
    let objects = cluster(&[2], [selector(&readiness), with_condition(1, 1), with_condition(2, 2)]);
    insta::assert_snapshot!(told(&objects));
}

#[test]
fn all_pods_with_a_condition_are_named() {
    let objects = cluster(
        &[1, 2],
        [selector(&json!({"condition": LEADER})), with_condition(1, 1), with_condition(2, 2)],
    );
    insta::assert_snapshot!(told(&objects));
}

#[test]
fn the_followers_of_a_leader_are_counted_and_it_is_told_apart() {
    insta::assert_snapshot!(told(&followers(&[1, 3], Some(lease("web-2_6bb9", &recent())))));
}

#[test]
fn followers_need_no_leader() {
    let leads = |ready: &[usize], lease: Option<Value>| {
        let objects = followers(ready, lease);
        assert_eq!(fault_of(&objects, Code::NobodyLeads), None);
        let topology = objects.topology();
        let explained = explain(&objects, &key(), &topology, now(), None, &Options::default()).unwrap();
        explained.selected_by.unwrap().leads.unwrap().to_string()
    };
    let all = &[1, 2, 3];
    let old = "2026-01-01T00:00:11.000000Z";
    let said = [
        leads(all, None),
        leads(all, Some(lease("", &recent()))),
        leads(all, Some(lease("host-7_6bb9", &recent()))),
        leads(all, Some(lease("web-1_6bb9", old))),
        // Clocks that differ by minutes do not make a follower of the leader.
        leads(&[2, 3], Some(lease("web-1_6bb9", old))),
        // It is deleted, and has not expired.
        leads(&[2, 3], None),
    ];
    insta::assert_snapshot!(said.join("\n"));
}

/// Both come from one choice of the leader.
#[test]
fn diff_wants_the_followers_that_explain_counts() {
    let (old, new) = ("2026-01-01T00:00:11.000000Z".to_owned(), recent());
    let cases = [
        (&[2, 3][..], "web-1", &new, true),
        (&[1, 2, 3], "web-1", &new, false),
        (&[1, 2, 3], "web-1", &old, true),
        (&[1, 2, 3], "", &new, true),
        (&[2, 3], "", &new, false),
        (&[1, 3], "web-1", &new, false),
    ];
    for (published, holder, renewed, is_right) in cases {
        let objects = followers(published, Some(lease(holder, renewed)));
        let changes = diff(&objects, now(), &Options::default()).unwrap();
        assert_eq!(changes.is_empty(), is_right, "{published:?} {holder} {changes:#?}");
    }
}

#[test]
fn a_leader_alone_leaves_its_followers_without_an_endpoint() {
    let selector = selector(&json!({"lease": {"name": "web", "role": "Follower"}}));
    let objects = cluster_of(&[1], &[], [selector, lease("web-1_6bb9", &recent())]);
    insta::assert_snapshot!(told(&objects));
}

#[test]
fn a_lease_of_followers_that_could_not_be_read_is_not_missing() {
    let mut objects = followers(&[1, 3], None);
    objects.note_lease_unread(kube_endpoint_core_model::ObjectKey::new("default", "web"));
    let topology = objects.topology();
    let explained = explain(&objects, &key(), &topology, now(), None, &Options::default()).unwrap();
    insta::assert_snapshot!(explained.selected_by.unwrap().leads.unwrap(), @"Lease web could not be read; the slices show that web-2 leads; 2 pods follow");
}

/// Returns a Lease of `seconds` that web-1 renewed `ago` seconds ago.
fn renewed(seconds: i64, ago: i64) -> Value {
    let at = |ago: i64| now().checked_sub(std::time::Duration::from_secs(ago.unsigned_abs())).unwrap();
    let mut lease = lease("web-1_6bb9", &at(ago).to_string());
    lease["spec"]["leaseDurationSeconds"] = seconds.into();
    lease
}

/// A leader on a node that was cut off stays in the slices until its Lease has run out. The longest
/// pauses of elections are 10 s of 15 s, and 5 s of 8 s.
#[test]
fn a_leader_that_no_longer_renews_its_lease_may_be_gone() {
    let found = |objects: &Objects| fault_of(objects, Code::NobodyLeads);
    for (seconds, ago, may_be_gone) in [
        (15, 2, false),
        (15, 10, false),
        (15, 11, true),
        (15, 15, true),
        (15, 30, true),
        (15, 31, false),
        (15, -600, false),
        (8, 5, false),
        (8, 6, true),
        (137, 91, false),
        (137, 92, true),
    ] {
        let ago = renewed(seconds, ago);
        let said = found(&by_lease(&[1], Some(ago.clone()))).map(|(_, severity)| severity);
        assert_eq!(said, may_be_gone.then_some(Severity::Warning), "{ago}");
        assert_eq!(found(&followers(&[2, 3], Some(ago))), None, "followers need no leader");
    }
    insta::assert_snapshot!(told(&by_lease(&[1], Some(renewed(15, 12)))));
}

/// Returns the time since which a Service is told to be in its state.
fn since(objects: &Objects) -> Option<String> {
    let topology = objects.topology();
    let explained = explain(objects, &key(), &topology, now(), None, &Options::default()).unwrap();
    explained.since.map(|since| since.to_string())
}

/// Returns three pods with these Ready conditions, each with its time.
fn with_readiness(ready: &[usize], readiness: (bool, &str), lease: Value) -> Objects {
    let mut objects = by_lease(ready, Some(lease));
    for number in 1..=3 {
        let mut pod = pod(number, &json!({"app": "web"}), readiness.0);
        pod["status"]["conditions"][0]["lastTransitionTime"] = readiness.1.into();
        objects.add(pod).unwrap();
    }
    objects
}

#[test]
fn a_service_serves_since_its_pods_are_ready_and_the_leader_leads() {
    let since = |ready: &str| since(&with_readiness(&[1], (true, ready), lease("web-1", &recent()))).unwrap();
    // It got the Lease ten seconds after midnight.
    assert_eq!(since("2026-01-01T00:00:02Z"), "2026-01-01T00:00:10Z");
    assert_eq!(since("2026-01-01T00:01:00Z"), "2026-01-01T00:01:00Z");
}

#[test]
fn a_service_is_down_since_its_leader_was_lost() {
    let ready = (true, "2026-01-01T00:00:02Z");
    let since = |readiness, lease| since(&with_readiness(&[], readiness, lease)).unwrap();
    let old = "2026-01-01T00:02:00Z";
    assert_eq!(since(ready, lease("web-1", old)), "2026-01-01T00:02:15Z", "the Lease ran out");
    assert_eq!(since(ready, lease("", old)), old, "it was released");
    assert_eq!(since(ready, lease("host-7", &recent())), "2026-01-01T00:00:10Z", "the holder is nobody");
    let unready = |at| since((false, at), lease("web-1", &recent()));
    assert_eq!(unready("2026-01-01T00:03:00Z"), "2026-01-01T00:03:00Z", "the leader was lost");
    assert_eq!(unready("2026-01-01T00:00:02Z"), "2026-01-01T00:00:10Z", "another pod was chosen");
}

/// The slices show the same of it as of a leader that is being deleted.
#[test]
fn a_follower_that_is_not_ready_and_being_deleted_is_no_leader() {
    let leads = |is_ready: bool| {
        let mut objects = followers(&[1, 3], None);
        objects.note_lease_unread(kube_endpoint_core_model::ObjectKey::new("default", "web"));
        let mut slice = own_with(SELECTOR_CONTROLLER, &[1, 2, 3], &[1, 3]);
        slice["endpoints"][1]["conditions"]["terminating"] = true.into();
        let mut deleted = pod(2, &json!({"app": "web"}), is_ready);
        deleted["metadata"]["deletionTimestamp"] = recent().into();
        for object in [slice, deleted] {
            objects.add(object).unwrap();
        }
        let topology = objects.topology();
        let explained = explain(&objects, &key(), &topology, now(), None, &Options::default()).unwrap();
        explained.selected_by.unwrap().leads.unwrap().to_string()
    };
    insta::assert_snapshot!([false, true].map(leads).join("\n"));
}
