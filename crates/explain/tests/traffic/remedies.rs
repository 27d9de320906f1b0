//! Tests remedies, as text and as JSON.

use serde_json::json;

use super::*;

/// One sentence tells pods with the same cause, whatever their addresses.
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

/// A user can run a remedy in JSON as it is.
#[test]
fn remedies_in_json_name_the_pod_and_the_namespace() {
    let cluster = Cluster::new().node("a").service("web").pods("web", 1).select("Pod", "web-1").not_ready();
    let json = serde_json::to_value(explained(&settled(cluster), "")).unwrap();
    for of in [&json["pods"][0]["reason"], &json["toDo"][0]] {
        assert_eq!(of["remedy"], "Look at the pod's conditions");
        assert_eq!(of["commands"], json!(["kubectl -n default describe pod web-1"]));
    }
}
