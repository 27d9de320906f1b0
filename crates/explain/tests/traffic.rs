//! Headlines of Services: which endpoints receive traffic as kube-proxy chooses them, and what is not known if a kind may not
//! be read.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use kube_endpoint_core_model::{ObjectKey, Timestamp};
use kube_endpoint_explain::text::{Colors, Layout};
use kube_endpoint_explain::{
    Explanation, Known, LintOptions, Objects, Options, Planned, explain, explain_pod, lint,
};
use kube_endpoint_testing::Cluster;
use serde_json::{Value, json};

fn key() -> ObjectKey {
    ObjectKey::new("default", "web")
}

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

/// Carries out the writes of slices and Endpoints, twice, because mirrored slices follow the Endpoints.
fn settled(cluster: Cluster) -> Cluster {
    let objects = Objects::read(cluster.objects().iter().cloned()).unwrap();
    let planned = Planned::new(&objects, &key(), &objects.topology(0.0), &Options::default());
    let cluster = planned.slice_writes().fold(cluster, |cluster, writes| cluster.apply(writes));
    planned.endpoints_writes().fold(cluster, |cluster, writes| cluster.apply(writes))
}

/// Pods `web-1` and so on, of which the first are not ready.
fn web(pods: usize, not_ready: usize) -> Cluster {
    let cluster = Cluster::new().node("a").service("web").pods("web", pods);
    let names: Vec<String> = (1..=not_ready).map(|at| format!("web-{at}")).collect();
    settled(names.iter().fold(cluster, |cluster, name| cluster.select("Pod", name).not_ready()))
}

/// What the plugin reads if these kinds are forbidden. It takes nodes to be ready then.
fn reading(cluster: &Cluster, forbidden: &str) -> (Objects, Options) {
    let may = |kind: &str| !forbidden.split(' ').any(|forbidden| forbidden == kind);
    let known = Known {
        pods: may("pods"),
        nodes: may("nodes"),
        slices: may("endpointslices"),
        endpoints: may("endpoints"),
    };
    let is_read = |object: &&Value| match object["kind"].as_str().unwrap() {
        "Pod" => known.pods,
        "EndpointSlice" => known.slices,
        "Endpoints" => known.endpoints,
        _ => true,
    };
    let objects = Objects::read(cluster.objects().iter().filter(is_read).cloned()).unwrap();
    (objects, Options::default().with_known(known))
}

fn explained(cluster: &Cluster, forbidden: &str) -> Explanation {
    let (objects, options) = reading(cluster, forbidden);
    explain(&objects, &key(), &objects.topology(0.0), now(), None, &options).unwrap()
}

/// The headline, as one line.
fn headline(cluster: &Cluster, forbidden: &str) -> String {
    let explanation = explained(cluster, forbidden);
    let verdict = &explanation.verdict;
    let status = serde_json::to_value(verdict.status).unwrap();
    format!("{} {} {}", status.as_str().unwrap(), verdict.code, verdict.message)
}

fn text(cluster: &Cluster, forbidden: &str) -> String {
    explained(cluster, forbidden).text(Layout::NARROW, now()).render(Colors::Off)
}

/// The codes that lint prints.
fn linted(cluster: &Cluster, forbidden: &str) -> Vec<String> {
    let (objects, options) = reading(cluster, forbidden);
    let problems = lint(&objects, now(), &options, &LintOptions::default()).problems;
    problems.iter().map(|lint| format!("{} {}", lint.severity, lint.code)).collect()
}

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
    let says = explain_pod(&objects, &pod, &objects.topology(0.0), now(), &options).unwrap();
    assert_eq!((says.exit_code(), says.is_published()), (2, false));
    insta::assert_snapshot!(says.text(Layout::NARROW, now()).render(Colors::Off));
}

/// What is said about `web-1`: the first word, the exit code, and what it says of the only Service. `reads_others` tells
/// whether other pods may be read.
fn said(cluster: &Cluster, forbidden: &str, reads_others: bool) -> String {
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
    let says = explain_pod(&objects, &pod, &objects.topology(0.0), now(), &options).unwrap();
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
        let plan = |key| Planned::new(&objects, key, &objects.topology(0.0), &Options::default());
        let cluster = keys.iter().fold(cluster, |cluster, key| {
            plan(key).slice_writes().fold(cluster, |cluster, writes| cluster.apply(writes))
        });
        let (objects, options) = reading(&cluster, forbidden);
        let pod = ObjectKey::new("default", "web-1");
        let says = explain_pod(&objects, &pod, &objects.topology(0.0), now(), &options).unwrap();
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

/// Zero that should receive traffic would be read as none that does.
#[test]
fn each_kind_that_is_missing_has_a_command_and_no_number_stands_for_nothing() {
    let ending = Cluster::new().node("a").service("web").pods("web", 1).select("Pod", "web-1").terminating();
    let explanation = explained(&settled(ending), "endpointslices nodes");
    assert_eq!(
        explanation.verdict.message,
        "EndpointSlices and nodes could not be read, so whether the Service receives traffic is not known"
    );
    assert!(
        explanation.to_do[0].remedy.ends_with(
            "you have it if these say yes: kubectl -n default auth can-i list endpointslices; kubectl auth can-i list nodes"
        ),
        "{}",
        explanation.to_do[0].remedy
    );
}

/// kube-proxy sends traffic to endpoints that are terminating and serving if none is ready; DNS has no such rule.
#[test]
fn pods_that_are_being_deleted_receive_traffic_if_no_other_does() {
    let cluster = || Cluster::new().node("a").service("web").pods("web", 2);
    let ending = |cluster: Cluster| cluster.select("Pod", "web-1").terminating();
    let both = |cluster: Cluster| ending(cluster).select("Pod", "web-2").terminating();
    let check = |cluster: Cluster, headline_wanted: &str, lint_wanted: &[&str]| {
        let cluster = settled(cluster);
        assert_eq!(
            (&*headline(&cluster, ""), &linted(&cluster, "")[..]),
            (headline_wanted, &lint_wanted.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()[..])
        );
    };
    check(ending(cluster()), "ok EP000 1 of 2 pods receive traffic", &[]);
    check(
        both(cluster()),
        "degraded EP013 2 of 2 pods receive traffic until they are deleted; 2 pods: the pod is being deleted and finishes its requests",
        &["warning EP013"],
    );
    check(
        both(cluster()).select("Pod", "web-1").not_ready(),
        "degraded EP013 1 of 2 pods receive traffic until they are deleted; 2 pods: the pods are being deleted, of which 1 still answers",
        &["warning EP013"],
    );
    check(
        both(cluster()).select("Pod", "web-1").not_ready().select("Pod", "web-2").not_ready(),
        "down EP013 0 of 2 pods receive traffic; 2 pods: the pod is being deleted",
        &["error EP013"],
    );
    check(
        both(cluster()).select("Service", "web").headless(),
        "down EP013 0 of 2 pods receive traffic; 2 pods: the pod is being deleted and finishes its requests",
        &["error EP013"],
    );
    check(
        cluster().select("Pod", "web-1").phase("Succeeded").select("Pod", "web-2").phase("Failed"),
        "down EP010 0 of 2 pods receive traffic; 2 pods: the pod has ended for good (phase Succeeded or Failed)",
        &["error EP010"],
    );
}

/// What is said about a pod agrees with what is said about its Service.
#[test]
fn a_pod_is_said_to_receive_what_its_service_sends() {
    let one = || Cluster::new().node("a").service("web").pods("web", 1);
    let ending = || one().select("Pod", "web-1").terminating();
    let said = |cluster: Cluster| said(&cluster, "", true);
    assert_eq!(said(settled(one())), "OK 0 EP000 Some(true)");
    assert_eq!(said(one()), "NO TRAFFIC 0 EP028 Some(false)");
    assert_eq!(said(settled(ending())), "OK 0 EP013 Some(true)");
    assert_eq!(said(settled(ending().not_ready())), "NO TRAFFIC 0 EP013 Some(false)");
}

/// A Service without a selector, and Endpoints with one address.
fn by_hand(service_ports: Value, ports: Value) -> Cluster {
    by_hand_with(service_ports, json!([{"addresses": [{"ip": "10.9.0.1"}], "ports": ports}]))
}

fn by_hand_with(service_ports: Value, subsets: Value) -> Cluster {
    settled(
        Cluster::new()
            .with(json!({"kind": "Service", "metadata": {"name": "web"},
                "spec": {"clusterIP": "10.96.0.10", "ipFamilies": ["IPv4"], "ports": service_ports}}))
            .with(json!({"kind": "Endpoints", "metadata": {"name": "web"}, "subsets": subsets})),
    )
}

#[test]
fn ports_of_endpoints_are_matched_by_name_and_protocol() {
    let check = |service_ports: Value, ports: Value, want: &str| {
        assert_eq!(headline(&by_hand(service_ports, ports), ""), want);
    };
    let differ = "and ports are matched by name and protocol";
    check(json!([{"port": 80}]), json!([{"port": 8080}]), "ok EP000 1 of 1 addresses receive traffic");
    check(
        json!([{"port": 80}]),
        json!([{"name": "other", "port": 8080}]),
        &format!(
            "down EP045 0 of 1 addresses receive traffic; no ready endpoint has the port without a name (TCP) of the Service: endpoints have the port \"other\" (TCP), {differ}"
        ),
    );
    check(
        json!([{"name": "dns", "port": 53, "protocol": "UDP"}]),
        json!([{"name": "dns", "port": 53}]),
        &format!(
            "down EP045 0 of 1 addresses receive traffic; no ready endpoint has the port \"dns\" (UDP) of the Service: endpoints have the port \"dns\" (TCP), {differ}"
        ),
    );
    check(
        json!([{"name": "http", "port": 80}, {"name": "metrics", "port": 9100}]),
        json!([{"name": "http", "port": 8080}]),
        "degraded EP045 1 of 1 addresses receive traffic; no ready endpoint has the port \"metrics\" (TCP) of the Service",
    );
    check(
        json!([{"name": "http", "port": 80}]),
        json!([{"name": "http", "port": 8080}, {"name": "metrics", "port": 9100}]),
        "ok EP000 1 of 1 addresses receive traffic",
    );
}

/// A Service with the port `http` and no selector, and a slice that somebody wrote.
fn slice_by_hand(port: Value, ready: bool) -> Cluster {
    Cluster::new()
        .with(json!({"kind": "Service", "metadata": {"name": "web"},
            "spec": {"clusterIP": "10.96.0.10", "ipFamilies": ["IPv4"], "ports": [{"name": "http", "port": 80}]}}))
        .with(json!({"kind": "EndpointSlice", "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4", "ports": [port],
            "endpoints": [{"addresses": ["10.9.0.1"], "conditions": {"ready": ready}}]}))
}

fn codes(cluster: &Cluster, forbidden: &str) -> String {
    let explanation = explained(cluster, forbidden);
    let status = serde_json::to_value(explanation.verdict.status).unwrap();
    let codes: Vec<&str> = explanation.to_do.iter().map(|advice| advice.code.id()).collect();
    format!("{} {}: {}", status.as_str().unwrap(), explanation.verdict.code, codes.join(" "))
}

/// Slices show what is wrong with endpoints that are written by hand, even if Endpoints may not be read.
#[test]
fn without_endpoints_the_slices_tell_why_there_is_no_traffic() {
    let other = || json!({"name": "other", "port": 8080});
    let mirrored = || by_hand(json!([{"name": "http", "port": 80}]), json!([other()]));
    let not_ready = |ready: Value| {
        let ports = json!([{"port": 8080}]);
        by_hand(json!([{"port": 80}]), ports.clone()).select("Endpoints", "web").change(move |object| {
            object["subsets"] =
                json!([{"addresses": ready, "notReadyAddresses": [{"ip": "10.9.0.2"}], "ports": ports}]);
        })
    };
    let check = |cluster: &Cluster, full: &str, part: &str| {
        assert_eq!((&*codes(cluster, ""), &*codes(cluster, "endpoints")), (full, part));
    };
    let port_differs = "down EP045: EP045";
    check(&slice_by_hand(other(), true), port_differs, port_differs);
    check(
        &slice_by_hand(json!({"name": "http", "port": 80}), false),
        "down EP044: EP044",
        "down EP044: EP044",
    );
    check(&mirrored(), port_differs, port_differs);
    check(&settled(not_ready(json!([]))), "down EP044: EP044", "down EP001: EP001");
    check(&settled(not_ready(json!([{"ip": "10.9.0.1"}]))), "ok EP000: ", "unknown EP001: EP001");
}

/// What the Endpoints say already is not asked for: the slices that mirror them are late.
#[test]
fn ports_that_are_about_to_be_mirrored_are_not_called_wrong() {
    let service = || json!([{"port": 80}]);
    let change = |cluster: Cluster, ports: Value| {
        cluster.select("Endpoints", "web").change(move |object| object["subsets"][0]["ports"] = ports.clone())
    };
    let wrong = || by_hand(service(), json!([{"name": "other", "port": 8080}]));
    let right = || by_hand(service(), json!([{"port": 8080}]));
    assert_eq!(codes(&change(wrong(), json!([{"port": 8080}])), ""), "down EP050: EP050");
    assert_eq!(
        codes(&change(wrong(), json!([{"name": "third", "port": 8080}])), ""),
        "down EP045: EP045 EP050"
    );
    assert_eq!(
        codes(&change(right(), json!([{"name": "other", "port": 8080}])), ""),
        "degraded EP050: EP050"
    );
}

/// Endpoints that end, and addresses that somebody lists as not ready, are not a loss that must have a cause.
#[test]
fn a_rollout_is_not_called_degraded_if_pods_may_not_be_read() {
    let two = || Cluster::new().node("a").service("web").pods("web", 2);
    let ending = settled(two().select("Pod", "web-1").terminating());
    assert_eq!(codes(&ending, "pods"), "unknown EP001: EP001");
    assert_eq!(codes(&web(2, 1), "pods"), "degraded EP001: EP001");
}

/// kube-proxy knows the slice, and not yet that the pod is being deleted.
#[test]
fn the_last_pod_receives_traffic_until_its_slice_is_written() {
    let stale = || settled(Cluster::new().node("a").service("web").pods("web", 1));
    let message = "1 of 1 pods receive traffic until they are deleted; the slices are not up to date";
    let headline = headline(&stale().select("Pod", "web-1").terminating(), "");
    assert!(headline.starts_with(&format!("degraded EP050 {message}")), "{headline}");
    assert!(codes(&stale().select("Pod", "web-1").terminating().not_ready(), "").starts_with("down EP050"));
    let headless = settled(Cluster::new().node("a").service("web").headless().pods("web", 1));
    assert!(codes(&headless.select("Pod", "web-1").terminating(), "").starts_with("degraded EP050"));
}

#[test]
fn remedies_for_ports_can_be_carried_out() {
    let advice = |cluster: Cluster| {
        let explanation = explained(&cluster, "");
        let advice = explanation.to_do.iter().find(|advice| advice.code.id() == "EP045").unwrap();
        format!("{}\n  {}", advice.message, advice.remedy)
    };
    let by_hand = |service: Value, ports: Value| advice(by_hand(service, ports));
    let two = || json!([{"name": "http", "port": 80}, {"name": "metrics", "port": 9100}]);
    let http = || json!([{"name": "http", "port": 80}]);
    let subsets = by_hand_with(
        http(),
        json!([
            {"addresses": [{"ip": "10.9.0.1"}], "ports": [{"name": "x", "port": 1}]},
            {"addresses": [{"ip": "10.9.0.2"}], "ports": [{"name": "x", "port": 2}]},
        ]),
    );
    let texts = [
        by_hand(json!([{"port": 53, "protocol": "UDP"}]), json!([{"port": 53}])),
        by_hand(
            json!([{"name": "dns", "port": 53, "protocol": "UDP"}]),
            json!([{"name": "dns", "port": 53}]),
        ),
        by_hand(json!([{"port": 53, "protocol": "UDP"}]), json!([{"name": "dns", "port": 53}])),
        by_hand(http(), json!([])),
        by_hand(json!([{"port": 80}]), json!([])),
        by_hand(http(), json!([{"port": 8080}])),
        by_hand(json!([{"port": 80}]), json!([{"name": "other", "port": 8080}])),
        by_hand(two(), json!([{"port": 8080}])),
        by_hand(two(), json!([])),
        by_hand(two(), json!([{"name": "http", "port": 80, "protocol": "UDP"}])),
        by_hand(two(), json!([{"name": "http", "port": 80}, {"name": "x", "port": 81}])),
        advice(slice_by_hand(json!({"name": "http"}), true)),
        advice(subsets),
    ];
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn addresses_over_the_maximum_are_not_called_wrong() {
    let addresses: Vec<Value> =
        (0..1_103).map(|at| json!({"ip": format!("10.9.{}.{}", at / 250, 1 + at % 250)})).collect();
    let cluster = settled(
        by_hand(json!([{"port": 80}]), json!([{"port": 8080}])).select("Endpoints", "web").change(|object| {
            object["subsets"][0]["addresses"] = addresses.clone().into();
        }),
    );
    insta::assert_snapshot!(text(&cluster, ""));
}

/// Pods with the same cause are told as one, whatever their addresses.
#[test]
fn pods_are_grouped_by_cause() {
    let pods = |address: fn(usize) -> String| {
        let cluster = Cluster::new().node("a").service("web").pods("web", 5);
        let set = |cluster: Cluster, at: usize| {
            let address = address(at);
            cluster.select("Pod", &format!("web-{}", at + 1)).change(|pod| {
                pod["status"]["podIP"] = address.clone().into();
                pod["status"]["podIPs"] = json!([{"ip": address}]);
            })
        };
        (0..5).fold(cluster, set)
    };
    let ipv4 = || pods(|at| format!("10.2.0.{at}"));
    let ipv6 = |cluster: Cluster| {
        cluster.select("Service", "web").change(|service| service["spec"]["ipFamilies"] = json!(["IPv6"]))
    };
    let texts = [
        text(&settled(ipv6(ipv4())), ""),
        text(&settled(ipv4().select("Service", "web").dual_stack()), ""),
        text(&settled(pods(|at| format!("10.2.{at}"))), ""),
    ];
    insta::assert_snapshot!(texts.join("---\n"));
}

/// A remedy in JSON can be run as it is.
#[test]
fn remedies_in_json_name_the_pod_and_the_namespace() {
    let cluster = Cluster::new().node("a").service("web").pods("web", 1).select("Pod", "web-1").not_ready();
    let json = serde_json::to_value(explained(&settled(cluster), "")).unwrap();
    assert_eq!(
        json["pods"][0]["reason"]["remedy"],
        "Look at the pod's conditions: kubectl -n default describe pod web-1"
    );
    assert!(!json.to_string().contains("POD"), "{json:#}");
}
