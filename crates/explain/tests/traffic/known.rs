//! Tests the explanations for a reader who may not read a kind of object.

use kube_endpoint_explain::explain_pod;
use serde_json::json;

use super::*;

#[test]
fn what_may_not_be_read_is_not_claimed() {
    let clusters = [
        ("3 of 3 ready", web(3, 0)),
        ("1 of 2 ready", web(2, 1)),
        ("0 of 2 ready", web(2, 2)),
        ("no pods", web(0, 0)),
        ("slice not written", Cluster::new().node("a").service("web").pods("web", 1)),
    ];
    let mut lines = String::new();
    for (what, cluster) in clusters {
        for forbidden in [
            "pods endpointslices endpoints nodes",
            "endpointslices endpoints nodes",
            "endpointslices",
            "pods",
            "nodes",
            "endpoints",
        ] {
            let (headline, linted) = (headline(&cluster, forbidden), linted(&cluster, forbidden));
            lines.push_str(&format!("{what}, without {forbidden}:\n  {headline}\n  lint: {linted:?}\n"));
        }
    }
    insta::assert_snapshot!(lines);
}

#[test]
fn what_may_not_be_read_is_told_to_a_reader() {
    let texts =
        ["pods endpointslices endpoints nodes", "endpointslices", "pods"].map(|it| text(&web(2, 1), it));
    insta::assert_snapshot!(texts.join("---\n"));
}

#[test]
fn a_pod_is_not_said_to_receive_traffic_if_slices_may_not_be_read() {
    let (objects, options) = reading(&web(1, 0), "endpointslices");
    let pod = ObjectKey::new("default", "web-1");
    let says = explain_pod(&objects, &pod, &objects.topology(), now(), &options).unwrap();
    assert_eq!((says.exit_code(), says.is_published()), (2, false));
    insta::assert_snapshot!(says.text(Layout::NARROW, now()).render(Colors::Off));
}

/// Returns the explanation of `web-1`: the first word, the exit code, and the text for the only
/// Service. `reads_others` is true if the reader may read other pods.
pub(crate) fn said(cluster: &Cluster, forbidden: &str, reads_others: bool) -> String {
    let (_, options) = reading(cluster, forbidden);
    let known = Known { pods: reads_others, ..options.known };
    let is_read = |object: &&Value| match object["kind"].as_str().unwrap() {
        "Pod" => reads_others || object["metadata"]["name"] == "web-1",
        "EndpointSlice" => known.slices,
        _ => true,
    };
    let objects = Objects::read(cluster.objects().iter().filter(is_read).cloned()).unwrap();
    let options = options.with_known(known);
    let pod = ObjectKey::new("default", "web-1");
    let says = explain_pod(&objects, &pod, &objects.topology(), now(), &options).unwrap();
    let text = says.text(Layout::NARROW, now()).render(Colors::Off);
    let (word, _) = text.split_once("  Pod").unwrap();
    let one = &says.services[0];
    assert_eq!(says.is_published(), one.receives == Some(true));
    format!("{word} {} {} {:?}", says.exit_code(), one.code, one.receives)
}

#[test]
fn what_is_said_about_a_pod_depends_on_what_may_be_read() {
    let check = |cluster: Cluster, full: &str, without_slices: &str, without_pods: &str| {
        let cluster = settled(cluster);
        assert_eq!(said(&cluster, "", true), full);
        assert_eq!(said(&cluster, "endpointslices", true), without_slices);
        assert_eq!(said(&cluster, "endpointslices", false), without_slices);
        assert_eq!(said(&cluster, "", false), without_pods);
    };
    let two = || Cluster::new().node("a").service("web").pods("web", 2).select("Pod", "web-1");
    let (yes, no) =
        (|code| format!("OK 0 {code} Some(true)"), |code| format!("NO TRAFFIC 0 {code} Some(false)"));
    let unknown = |code| format!("UNKNOWN 2 {code} None");
    check(two(), &yes("EP000"), &unknown("EP001"), &yes("EP000"));
    check(two().not_ready(), &no("EP017"), &no("EP017"), &no("EP017"));
    let tolerant = two().not_ready().select("Service", "web").publish_not_ready();
    check(tolerant, &yes("EP027"), &unknown("EP027"), &yes("EP027"));
    check(two().terminating(), &no("EP013"), &unknown("EP013"), &no("EP013"));
    let both = || two().terminating().select("Pod", "web-2").terminating();
    check(both(), &yes("EP013"), &unknown("EP013"), &yes("EP013"));
    check(both().select("Service", "web").headless(), &no("EP013"), &no("EP013"), &no("EP013"));
}

#[test]
fn services_that_send_a_pod_traffic_are_counted() {
    let summary = |services: &[bool], forbidden: &str| {
        let add = |cluster: Cluster, (at, publishes): (usize, &bool)| {
            let cluster = cluster.service(&format!("web{at}"));
            let cluster = cluster.change(|it| it["spec"]["selector"] = json!({"app": "web"}));
            if *publishes { cluster.publish_not_ready() } else { cluster }
        };
        let cluster = Cluster::new().node("a").pods("web", 1).select("Pod", "web-1").not_ready();
        let cluster = services.iter().enumerate().fold(cluster, add);
        let objects = Objects::read(cluster.objects().iter().cloned()).unwrap();
        let keys: Vec<ObjectKey> = objects.services().cloned().collect();
        let plan = |key| Planned::new(&objects, key, &objects.topology(), now(), &Options::default());
        let cluster = keys.iter().fold(cluster, |cluster, key| {
            plan(key).slice_writes().fold(cluster, |cluster, writes| cluster.apply(writes))
        });
        let (objects, options) = reading(&cluster, forbidden);
        let pod = ObjectKey::new("default", "web-1");
        let says = explain_pod(&objects, &pod, &objects.topology(), now(), &options).unwrap();
        let text = says.text(Layout::NARROW, now()).render(Colors::Off);
        text.lines().nth(1).unwrap().to_owned()
    };
    let texts = [
        summary(&[], ""),
        summary(&[true], ""),
        summary(&[false], ""),
        summary(&[true, true], ""),
        summary(&[true, false], ""),
        summary(&[false, false], ""),
        summary(&[true, true, false], ""),
        summary(&[true], "endpointslices"),
        summary(&[true, false], "endpointslices"),
    ];
    insta::assert_snapshot!(texts.join("\n"), @r"
    No Service selects the pod.
    The Service that selects the pod sends it traffic.
    The Service that selects the pod sends it no traffic.
    Each of the 2 Services that select the pod sends it traffic.
    1 of the 2 Services that select the pod sends it traffic.
    None of the 2 Services that select the pod sends it traffic.
    2 of the 3 Services that select the pod send it traffic.
    Whether the Service that selects the pod sends it traffic is not known.
    Whether 1 of the 2 Services that select the pod sends it traffic is not known.
    ");
}

/// A reader would take "zero should receive traffic" for "no endpoint receives traffic".
#[test]
fn each_kind_that_is_missing_has_a_command_and_no_number_stands_for_nothing() {
    let ending = Cluster::new().node("a").service("web").pods("web", 1).select("Pod", "web-1").terminating();
    let explanation = explained(&settled(ending), "endpointslices nodes");
    assert_eq!(
        explanation.verdict.message,
        "EndpointSlices and nodes could not be read, so whether the Service receives traffic is not known"
    );
    let commands: Vec<String> = explanation.to_do[0].remedy.commands().collect();
    assert_eq!(
        commands,
        ["kubectl -n default auth can-i list endpointslices", "kubectl auth can-i list nodes"]
    );
}
