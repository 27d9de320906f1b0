//! Tests parts of explanations: hints and their reasons, ages, events, and pods that one label
//! keeps from a Service.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use kube_endpoint_core_model::{ObjectKey, Timestamp};
use kube_endpoint_explain::text::{Colors, Layout};
use kube_endpoint_explain::{
    Code, Explanation, Objects, Options, Planned, Problem, Severity, Status, explain, explain_pod,
};
use kube_endpoint_testing::Cluster;
use serde_json::{Value, json};

fn key() -> ObjectKey {
    ObjectKey::new("default", "web")
}

pub(crate) fn objects(cluster: &Cluster) -> Objects {
    Objects::read(cluster.objects().iter().cloned()).unwrap()
}

/// Carries out the writes of slices and Endpoints.
pub(crate) fn settled(cluster: Cluster) -> Cluster {
    let objects = objects(&cluster);
    let planned = Planned::new(&objects, &key(), &objects.topology(), Timestamp::MIN, &Options::default());
    let slices = planned.slices.unwrap();
    let cluster = slices.sub_plans.iter().fold(cluster, |cluster, sub_plan| cluster.apply(&sub_plan.writes));
    cluster.apply(&planned.endpoints.unwrap().writes)
}

fn explained_at(cluster: &Cluster, now: &str) -> Explanation {
    let objects = objects(cluster);
    let now = now.parse().unwrap();
    explain(&objects, &key(), &objects.topology(), now, None, &Options::default()).unwrap()
}

fn explained(cluster: &Cluster) -> Explanation {
    explained_at(cluster, "2026-01-01T00:10:00Z")
}

/// Returns one line for each pod: its zone, the zones and nodes that it serves, and the reason.
fn hints(cluster: Cluster) -> String {
    let explanation = explained(&settled(cluster));
    let lines = explanation.pods.iter().map(|pod| {
        let place = &pod.places[0];
        let zone = place.zone.as_deref().unwrap_or("-");
        format!("{} in {zone} for {:?} {:?}: {}", pod.name, place.for_zones, place.for_nodes, place.hint)
    });
    lines.collect::<Vec<_>>().join("\n")
}

pub(crate) fn two_zones() -> Cluster {
    Cluster::new().node("a").zone("eu-1").node("b").zone("eu-2")
}

#[test]
fn hints_are_explained() {
    let web = |cluster: Cluster| cluster.service("web");
    let same_zone = web(two_zones().node("c")).traffic_distribution("PreferSameZone").pods("web", 3);
    let auto = || web(two_zones()).topology_aware();
    let texts = [
        ("PreferSameZone", hints(same_zone.select("Pod", "web-2").not_ready())),
        ("PreferSameNode", hints(web(two_zones()).traffic_distribution("PreferSameNode").pods("web", 1))),
        ("nothing asked for", hints(web(two_zones()).pods("web", 1))),
        ("Auto, with all pods in one zone", hints(auto().pods("web", 4).on("a"))),
        ("Auto, with too few pods", hints(auto().pods("web", 1))),
    ];
    insta::assert_snapshot!(texts.map(|(what, text)| format!("{what}\n{text}\n")).join("\n"));
}

/// Returns the severity of late slices, and the status.
fn behind(explanation: &Explanation) -> (Severity, Status) {
    let behind = explanation.faults.iter().find(|fault| fault.code() == Code::SlicesBehind).unwrap();
    (behind.severity(), explanation.verdict.status)
}

/// A missing write of a slice is no fault while the controller may be about to make it, unless
/// clients fail until then.
#[test]
fn a_change_is_slow_after_ten_seconds_and_late_after_half_a_minute() {
    // The pods became ready at 00:00:05.
    let none = Cluster::new().node("a").service("web").pods("web", 1);
    let one_of_two = settled(none.clone()).pods("web", 2);
    let check = |cluster: &Cluster, now: &str, want: (Severity, Status)| {
        assert_eq!(behind(&explained_at(cluster, now)), want, "{now}");
    };
    check(&none, "2026-01-01T00:00:06Z", (Severity::Error, Status::Down));
    check(&one_of_two, "2026-01-01T00:00:15Z", (Severity::Info, Status::Ok));
    check(&one_of_two, "2026-01-01T00:00:16Z", (Severity::Warning, Status::Degraded));
    check(&one_of_two, "2026-01-01T00:00:36Z", (Severity::Error, Status::Degraded));
}

/// Nothing tells when a pod went. A write is under way unless it was gone some seconds ago.
#[test]
fn a_pod_that_was_gone_at_the_reading_before_is_late() {
    let two = settled(Cluster::new().node("a").service("web").pods("web", 2));
    let one: Vec<Value> =
        two.objects().iter().filter(|it| it["metadata"]["name"] != "web-2").cloned().collect();
    let web = ObjectKey::new("default", "web");
    let check = |gone: Option<&[&str]>, want: (Severity, Status)| {
        let mut objects = Objects::read(one.clone()).unwrap();
        let is_gone: Vec<String> = objects.gone_pods().iter().map(ToString::to_string).collect();
        assert_eq!(is_gone, ["uid-pod-web-2"]);
        if let Some(gone) = gone {
            objects.note_gone_before(gone.iter().map(|uid| (*uid).into()).collect());
        }
        // The pod that stays is old.
        let now = "2026-01-03T00:00:00Z".parse().unwrap();
        let topology = objects.topology();
        let said = explain(&objects, &web, &topology, now, None, &Options::default()).unwrap();
        assert_eq!(behind(&said), want, "{gone:?}");
    };
    check(None, (Severity::Error, Status::Degraded));
    check(Some(&["uid-pod-web-2"]), (Severity::Error, Status::Degraded));
    check(Some(&["uid-pod-web-9"]), (Severity::Info, Status::Ok));
}

/// Each instance of a controller reports its own event.
#[test]
fn events_that_say_the_same_are_one() {
    let event = |name: String, event_type: &str, message: &str, minute: Option<u32>| {
        json!({"kind": "Event", "metadata": {"name": name}, "type": event_type, "reason": "Refused", "count": 2,
            "message": message, "lastTimestamp": minute.map(|minute| format!("2026-01-01T00:0{minute}:00Z")),
            "involvedObject": {"kind": "Service", "namespace": "default", "name": "web"}})
    };
    let mut cluster = settled(Cluster::new().node("a").service("web").pods("web", 1));
    for (number, minute) in [Some(3), Some(8), None, Some(1)].into_iter().enumerate() {
        cluster = cluster.with(event(format!("e{number}"), "Warning", "no", minute));
    }
    cluster = cluster.with(event("other".to_owned(), "Warning", "never", Some(2)));
    cluster = cluster.with(event("normal".to_owned(), "Normal", "no", None));
    let events = explained(&cluster).events;
    let said: Vec<String> = events
        .iter()
        .map(|event| {
            let last = event.last.map(|last| last.to_string()).unwrap_or_default();
            format!("{} {} {} {last}", event.event_type, event.message, event.count)
        })
        .collect();
    let want = ["Warning no 8 2026-01-01T00:08:00Z", "Warning never 2 2026-01-01T00:02:00Z", "Normal no 2 "];
    assert_eq!(said, want);
}

#[test]
fn events_and_ages_are_shown() {
    let event = |reason: &str, count: u32, last: &str| {
        json!({"kind": "Event", "metadata": {"name": reason}, "type": "Warning", "reason": reason, "count": count,
            "message": "Error updating Endpoint Slices", "lastTimestamp": last,
            "involvedObject": {"kind": "Service", "namespace": "default", "name": "web"}})
    };
    let cluster = settled(Cluster::new().node("a").service("web").pods("web", 1))
        .with(event("First", 1, "2026-01-01T00:01:00Z"))
        .with(event("FailedToUpdateEndpointSlices", 7, "2026-01-01T00:09:00Z"));
    let explanation = explained(&cluster);
    let reasons: Vec<&str> = explanation.events.iter().map(|event| &*event.reason).collect();
    assert_eq!(reasons, ["FailedToUpdateEndpointSlices", "First"]);
    assert_eq!(explanation.freshness.newest_change_seconds, Some(595));
    let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
    insta::assert_snapshot!(explanation.text(Layout::NARROW, now).render(Colors::Off));
}

#[test]
fn a_pod_that_one_label_keeps_from_a_service() {
    let cluster = Cluster::new()
        .node("a")
        .service("web")
        .selector(&[("app", "web"), ("tier", "front")])
        .service("other")
        .pod("web-1", &[("app", "web"), ("tier", "back")]);
    let (objects, key) = (objects(&cluster), ObjectKey::new("default", "web-1"));
    let now = "2026-01-01T00:10:00Z".parse().unwrap();
    let says = explain_pod(&objects, &key, &objects.topology(), now, &Options::default()).unwrap();
    assert!(!says.is_published());
    insta::assert_snapshot!(says.text(Layout::NARROW, now).render(Colors::Off));
}

/// Somebody wrote a slice for a Service without a selector. The answer to a pod depends on
/// its own address, and on the pod that the slice names.
#[test]
fn a_slice_that_names_a_pod_may_lead_to_another_one() {
    let db = json!({"kind": "Service", "metadata": {"name": "db"}, "spec": {"clusterIP": "10.96.0.20",
        "ipFamilies": ["IPv4"], "ports": [{"port": 80, "protocol": "TCP"}]}});
    let slice = |address: &str, node: &str| {
        json!({"kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "db-1", "labels": {"kubernetes.io/service-name": "db"}},
        "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address], "nodeName": node, "targetRef": {"kind": "Pod", "name": "web-1"}}]})
    };
    let pods = Cluster::new().node("a").with(db).pods("web", 2);
    let address = |objects: &Objects, pod: &str| {
        objects.pod(&ObjectKey::new("default", pod)).unwrap().pod_ips[0].to_string()
    };
    let read = objects(&pods);
    let (one, two) = (address(&read, "web-1"), address(&read, "web-2"));
    let told = |cluster: Cluster, pod: &str| {
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        let (objects, key) = (objects(&cluster), ObjectKey::new("default", pod));
        let says = explain_pod(&objects, &key, &objects.topology(), now, &Options::default()).unwrap();
        format!("{} {}", says.is_published(), says.text(Layout::NARROW, now).render(Colors::Off))
    };
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let unready = pods.clone().select("Pod", "web-1").change(|pod| json_patch::merge(pod, &unready));
    let texts = [
        told(pods.clone().with(slice(&one, "a")), "web-1"),
        told(pods.clone().with(slice(&one, "a")), "web-2"),
        told(pods.clone().with(slice(&two, "a")), "web-1"),
        told(pods.clone().with(slice(&two, "a")), "web-2"),
        told(pods.with(slice("10.9.0.9", "a")), "web-1"),
        told(unready.with(slice(&one, "a")), "web-1"),
    ];
    insta::assert_snapshot!(texts.join("\n"));
}

/// Others run in the place of pods that have ended, unless all have.
#[test]
fn pods_that_have_ended_are_counted_apart() {
    let ended = json!({"status": {"phase": "Failed", "reason": "Evicted"}});
    let told = |pods: usize| {
        let cluster = Cluster::new().node("a").service("web").pods("web", pods).select("Pod", "web-1");
        let cluster = settled(cluster.change(|pod| json_patch::merge(pod, &ended)));
        explained(&cluster).verdict.message
    };
    assert!(told(3).starts_with("2 of 2 pods receive traffic; 1 more has ended"), "{}", told(3));
    assert!(told(1).starts_with("0 of 1 pods receive traffic"), "{}", told(1));
}

/// Nobody may have read nodes if there is none, unless the reader asked for this one.
#[test]
fn the_only_node_of_an_endpoint_may_be_gone() {
    let db = json!({"kind": "Service", "metadata": {"name": "db"}, "spec": {"clusterIP": "10.96.0.20",
        "ipFamilies": ["IPv4"], "ports": [{"port": 80, "protocol": "TCP"}]}});
    let slice = json!({"kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "db-1", "labels": {"kubernetes.io/service-name": "db"}},
        "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
        "endpoints": [{"addresses": ["10.9.0.9"], "nodeName": "gone"}]});
    let mut objects = objects(&Cluster::new().with(db).with(slice));
    let finds = |objects: &Objects| {
        let (key, now) = (ObjectKey::new("default", "db"), "2026-01-01T01:00:00Z".parse().unwrap());
        let says = explain(objects, &key, &objects.topology(), now, None, &Options::default()).unwrap();
        says.codes().contains(&Code::MissingPodsServed)
    };
    assert!(!finds(&objects));
    objects.note_absent_node("other");
    assert!(!finds(&objects));
    objects.note_absent_node("gone");
    assert!(finds(&objects));
}

/// A wide table lists all pods, a narrow one some of them.
#[test]
fn many_pods_are_listed_in_part() {
    let explanation = explained(&settled(Cluster::new().node("a").service("web").pods("web", 30)));
    let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
    let lines = |layout| {
        let text = explanation.text(layout, now).render(Colors::Off);
        text.lines().filter(|line| line.trim_start().starts_with("web-")).count()
    };
    // One line is that of the slice.
    assert_eq!((lines(Layout::NARROW), lines(Layout::WIDE)), (9, 31));
    let text = explanation.text(Layout::NARROW, now).render(Colors::Off);
    assert!(text.contains("and 22 more pods; -o wide lists them"), "{text}");
}
