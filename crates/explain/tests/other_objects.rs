//! Tests faults that another object shows than the Service and its pods: addresses that belong to
//! somebody else, and pods that the selector misses.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use kube_endpoint_core_model::{ObjectKey, Timestamp};
use kube_endpoint_explain::explanation::Advice;
use kube_endpoint_explain::{
    Code, Explanation, LintOptions, Objects, Options, Planned, Severity, explain, lint,
};
use kube_endpoint_testing::Cluster;
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

fn objects(cluster: &Cluster) -> Objects {
    Objects::read(cluster.objects().iter().cloned()).unwrap()
}

/// Carries out the writes of the controllers for all Services, twice, because mirrored slices
/// follow the Endpoints.
fn settled(mut cluster: Cluster) -> Cluster {
    for _ in 0..2 {
        let objects = objects(&cluster);
        for key in objects.services() {
            let planned = Planned::new(&objects, key, &objects.topology(), now(), &Options::default());
            cluster = planned.slice_writes().fold(cluster, |cluster, writes| cluster.apply(writes));
            cluster = planned.endpoints_writes().fold(cluster, |cluster, writes| cluster.apply(writes));
        }
    }
    cluster
}

fn explained_with(cluster: Cluster, options: &Options) -> Explanation {
    let objects = objects(&settled(cluster));
    let web = ObjectKey::new("default", "web");
    explain(&objects, &web, &objects.topology(), now(), None, options).unwrap()
}

fn explained(cluster: Cluster) -> Explanation {
    explained_with(cluster, &Options::default())
}

fn advice(explanation: Explanation, code: Code) -> Option<Advice> {
    explanation.to_do.into_iter().find(|advice| advice.code == code)
}

/// Returns the severity of a code, if the explanation has it.
fn severity(cluster: Cluster, code: Code) -> Option<Severity> {
    advice(explained(cluster), code).map(|advice| advice.severity)
}

/// Returns the message, the remedy and the commands.
fn text(cluster: Cluster, code: Code) -> String {
    let advice = advice(explained(cluster), code).unwrap();
    let commands: Vec<String> = advice.remedy.commands().collect();
    [vec![advice.message, advice.remedy.sentence], commands].concat().join("\n")
}

mod cluster_ips {
    use super::*;

    const CODE: Code = Code::ServiceIpAsEndpoint;

    /// The Service `db` with a pod and the cluster IPs 10.96.0.20 and fd00::20.
    fn db() -> Cluster {
        let ips = json!({"clusterIP": "10.96.0.20", "clusterIPs": ["10.96.0.20", "fd00::20"], "ipFamilies": ["IPv4", "IPv6"]});
        let cluster = Cluster::new().node("a").service("db").pods("db", 1).select("Service", "db");
        cluster.change(move |service| json_patch::merge(&mut service["spec"], &ips))
    }

    /// Adds the Service `web`, and a slice that somebody wrote for it.
    fn by_hand(cluster: Cluster, spec: Value, endpoints: Value) -> Cluster {
        let address = endpoints[0]["addresses"][0].as_str().unwrap();
        let address_type = if address.contains(':') { "IPv6" } else { "IPv4" };
        let mut service = json!({"kind": "Service", "metadata": {"name": "web", "resourceVersion": "1"},
            "spec": {"clusterIP": "10.96.0.10", "ipFamilies": [address_type], "ports": [{"port": 80, "protocol": "TCP"}]}});
        json_patch::merge(&mut service["spec"], &spec);
        cluster.with(service).with(json!({"kind": "EndpointSlice", "addressType": address_type,
            "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "ports": [{"name": "", "port": 80, "protocol": "TCP"}], "endpoints": endpoints}))
    }

    fn of(addresses: &[&str]) -> Cluster {
        let endpoints: Vec<Value> = addresses.iter().map(|address| json!({"addresses": [address]})).collect();
        by_hand(db(), json!({}), endpoints.into())
    }

    #[test]
    fn an_endpoint_that_is_a_cluster_ip_is_told_with_its_service() {
        let mirrored = db()
            .with(json!({"kind": "Service", "metadata": {"name": "web", "resourceVersion": "1"}, "spec": {
                "clusterIP": "10.96.0.10", "ipFamilies": ["IPv4"], "ports": [{"port": 80, "protocol": "TCP"}]}}))
            .with(json!({"kind": "Endpoints", "metadata": {"name": "web"},
                "subsets": [{"addresses": [{"ip": "10.96.0.20"}], "ports": [{"port": 80}]}]}));
        let texts = [
            text(of(&["10.96.0.20"]), CODE),
            text(mirrored, CODE),
            text(of(&["fd00::20"]), CODE),
            text(of(&["10.96.0.10"]), CODE),
            text(of(&["10.9.0.1", "10.96.0.10", "10.96.0.20"]), CODE),
        ];
        insta::assert_snapshot!(texts.join("\n\n"));
    }

    #[test]
    fn it_is_an_error_if_no_other_endpoint_is_left() {
        assert_eq!(severity(of(&["10.96.0.20"]), CODE), Some(Severity::Error));
        assert_eq!(severity(of(&["10.96.0.20", "10.9.0.1"]), CODE), Some(Severity::Warning));
        assert_eq!(severity(of(&["10.9.0.1"]), CODE), None);
    }

    #[test]
    fn what_works_is_not_told() {
        let endpoint = || json!([{"addresses": ["10.96.0.20"]}]);
        // DNS answers with the cluster IP, to which clients connect as to that of any Service.
        assert_eq!(severity(by_hand(db(), json!({"clusterIP": "None"}), endpoint()), CODE), None);
        let alias =
            json!({"type": "ExternalName", "clusterIP": "", "externalName": "db.default.svc.cluster.local"});
        assert_eq!(severity(by_hand(db(), alias, endpoint()), CODE), None);
        let not_ready = json!([{"addresses": ["10.96.0.20"], "conditions": {"ready": false}}]);
        assert_eq!(severity(by_hand(db(), json!({}), not_ready), CODE), None);
        // The address that stands for the one that a server would allocate is nobody's.
        let cluster = Cluster::new().with(
            json!({"kind": "Service", "metadata": {"name": "other"}, "spec": {"ports": [{"port": 80}]}}),
        );
        let cluster = by_hand(cluster, json!({}), json!([{"addresses": ["192.0.2.1"]}]));
        let values = cluster.objects().iter().cloned().map(|mut object| {
            object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
            object
        });
        let objects = Objects::read(values).unwrap();
        let report = lint(&objects, now(), &Options::default(), &LintOptions::default());
        assert!(report.problems.iter().all(|lint| lint.code != CODE));
    }

    /// The readers of a status page may see some namespaces only.
    #[test]
    fn a_service_of_another_namespace_is_named_to_who_may_read_it() {
        let cluster = || {
            of(&["10.96.0.30"]).namespace("shop").with(json!({"kind": "Service",
            "metadata": {"name": "db", "namespace": "shop", "resourceVersion": "1"}, "spec": {"clusterIP": "10.96.0.30"}}))
        };
        let told = |other_namespaces| {
            let mut options = Options::default();
            options.other_namespaces = other_namespaces;
            advice(explained_with(cluster(), &options), CODE).map(|advice| advice.message)
        };
        assert_eq!(told(false), None);
        assert!(told(true).unwrap().contains("10.96.0.30 is the cluster IP of Service shop/db"));
    }
}

mod pod_addresses {
    use super::*;

    const CODE: Code = Code::SharedPodIp;

    /// Two pods of `web`, and a pod of another program.
    fn three() -> Cluster {
        Cluster::new().node("a").node("b").service("web").pods("web", 2).pod("batch-1", &[("app", "batch")])
    }

    fn with(pod: &str, addresses: &[&str]) -> Cluster {
        three().select("Pod", pod).addresses(addresses)
    }

    #[test]
    fn pods_with_one_address_are_told() {
        // The address of web-1.
        let other = with("batch-1", &["10.1.0.1"]);
        let in_other_namespace = three().namespace("jobs").pod("run-1", &[]).addresses(&["10.1.0.1"]);
        let texts = [
            text(other.clone(), CODE),
            text(with("web-2", &["10.1.0.1"]), CODE),
            text(with("web-2", &["10.1.0.9", "fd00:10:1::1"]), CODE),
            text(in_other_namespace, CODE),
            text(other.select("Pod", "web-2").addresses(&["10.1.0.1"]), CODE),
        ];
        insta::assert_snapshot!(texts.join("\n\n"));
    }

    #[test]
    fn it_is_a_warning_if_all_of_them_are_of_the_service() {
        assert_eq!(severity(with("batch-1", &["10.1.0.1"]), CODE), Some(Severity::Error));
        assert_eq!(severity(with("web-2", &["10.1.0.1"]), CODE), Some(Severity::Warning));
        assert_eq!(severity(three(), CODE), None);
    }

    /// Pods of other programs that share an address are no fault of this Service.
    #[test]
    fn addresses_that_pods_share_rightly_or_no_longer_are_not_told() {
        let batch = || with("batch-1", &["10.1.0.1"]);
        let host = |pod: &mut Value| pod["spec"]["hostNetwork"] = json!(true);
        for (what, cluster) in [
            ("in the network of the node", batch().change(host)),
            ("ended", batch().phase("Succeeded")),
            ("evicted", batch().phase("Failed")),
            ("is being deleted", batch().terminating()),
            ("not ready", batch().not_ready()),
            ("its node is gone", batch().on("gone")),
            (
                "both of another program",
                with("batch-1", &["10.1.0.9"]).pod("batch-2", &[]).addresses(&["10.1.0.9"]),
            ),
            (
                "an ended pod of the Service",
                batch().select("Pod", "web-1").phase("Succeeded").pod("x", &[]).addresses(&["10.1.0.1"]),
            ),
        ] {
            assert_eq!(severity(cluster, CODE), None, "{what}");
        }
        let mut options = Options::default();
        options.known.nodes = false;
        let codes = explained_with(batch(), &options).codes();
        assert!(!codes.contains(&CODE), "the nodes are not known: {codes:?}");
    }
}

mod headless_ports {
    use super::*;

    const CODE: Code = Code::HeadlessPort;

    /// A headless Service with two pods, whose container port `http` is 8080.
    fn headless(ports: Value) -> Cluster {
        let cluster =
            Cluster::new().node("a").service("web").headless().pods("web", 2).select("Service", "web");
        cluster.change(move |service| service["spec"]["ports"] = ports.clone())
    }

    fn declares(cluster: Cluster, pod: &str, ports: Value) -> Cluster {
        cluster.select("Pod", pod).change(move |pod| pod["spec"]["containers"][0]["ports"] = ports.clone())
    }

    #[test]
    fn the_port_that_clients_must_use_is_told() {
        let named =
            || headless(json!([{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}]));
        let other = json!([{"name": "http", "containerPort": 9090, "protocol": "TCP"}]);
        let texts = [
            text(named(), CODE),
            text(headless(json!([{"port": 53, "targetPort": 8053, "protocol": "UDP"}])), CODE),
            text(declares(named(), "web-2", other), CODE),
        ];
        insta::assert_snapshot!(texts.join("\n\n"));
    }

    #[test]
    fn a_port_that_pods_listen_on_is_no_fault() {
        let port =
            |port: u16, target: Value| json!([{"port": port, "targetPort": target, "protocol": "TCP"}]);
        assert_eq!(severity(headless(port(80, json!(8080))), CODE), Some(Severity::Warning));
        assert_eq!(severity(headless(port(8080, json!("http"))), CODE), None);
        assert_eq!(severity(headless(json!([])), CODE), None);
        let both = json!([{"name": "http", "containerPort": 8080}, {"containerPort": 80}]);
        let one = declares(headless(port(80, json!("http"))), "web-1", both.clone());
        assert_eq!(severity(one.clone(), CODE), Some(Severity::Warning), "the other pod does not");
        assert_eq!(severity(declares(one, "web-2", both), CODE), None);
        // A name that no pod has is another fault.
        assert_eq!(severity(headless(port(80, json!("htpp"))), CODE), None);
        // With a cluster IP, kube-proxy translates.
        let cluster = Cluster::new().node("a").service("web").pods("web", 2);
        assert_eq!(severity(cluster, CODE), None);
    }

    /// Clients of a StatefulSet's pods use the names of pods, and know their ports.
    #[test]
    fn it_is_an_info_if_pods_have_names_of_their_own() {
        let cluster = headless(json!([{"port": 80, "targetPort": 8080, "protocol": "TCP"}]));
        let cluster = cluster.select("Pod", "web-1").hostname("web-1", "web");
        assert_eq!(severity(cluster, CODE), Some(Severity::Info));
    }

    #[test]
    fn endpoints_that_somebody_wrote_are_looked_at_too() {
        let of = |number: u16| {
            let service = json!({"kind": "Service", "metadata": {"name": "web"}, "spec": {"clusterIP": "None",
                "ipFamilies": ["IPv4"], "ports": [{"name": "db", "port": 5432, "protocol": "TCP"}]}});
            Cluster::new().with(service).with(json!({"kind": "Endpoints", "metadata": {"name": "web"},
                "subsets": [{"addresses": [{"ip": "10.9.0.1"}], "ports": [{"name": "db", "port": number}]}]}))
        };
        assert_eq!(severity(of(5432), CODE), None);
        assert_eq!(severity(of(5433), CODE), Some(Severity::Warning));
    }
}

mod selectors {
    use super::*;

    fn of(selector: &[(&str, &str)], labels: &[(&str, &str)]) -> Cluster {
        Cluster::new().node("a").service("web").selector(selector).pod("other-1", labels)
    }

    #[test]
    fn pods_with_other_keys_are_told_unless_a_value_is_mistyped() {
        let name = "app.kubernetes.io/name";
        let renamed = || of(&[("app", "web")], &[(name, "web")]);
        assert_eq!(severity(renamed(), Code::LabelKeysDiffer), Some(Severity::Error));
        assert_eq!(severity(renamed(), Code::NoPodMatches), None);
        let mistyped = renamed().pod("web-1", &[("app", "wbe")]);
        assert_eq!(severity(mistyped, Code::LabelKeysDiffer), None);
        let both = [(name, "web"), ("app.kubernetes.io/instance", "blue"), ("x", "y")];
        let two =
            of(&[("app", "web"), ("release", "blue")], &both).pod("other-2", &both).pod("other-3", &both);
        insta::assert_snapshot!(text(two, Code::LabelKeysDiffer));
    }

    fn elsewhere(namespaces: &[&str]) -> Cluster {
        let cluster = Cluster::new().node("a").service("web");
        namespaces.iter().fold(cluster, |cluster, namespace| {
            cluster.namespace(namespace).pod("web-1", &[("app", "web")]).pod("web-2", &[("app", "web")])
        })
    }

    #[test]
    fn namespaces_with_such_pods_are_told() {
        let one = text(elsewhere(&["shop"]), Code::PodsElsewhere);
        let many = text(elsewhere(&["a", "b", "c", "d", "e", "f", "shop"]), Code::PodsElsewhere);
        insta::assert_snapshot!([one, many].join("\n\n"));
        // The Service has another problem, too.
        let explanation = explained(elsewhere(&["shop"]));
        assert_eq!(explanation.verdict.code, Code::NoPodMatches);
        assert_eq!(severity(elsewhere(&["shop"]), Code::PodsElsewhere), Some(Severity::Info));
    }

    #[test]
    fn pods_elsewhere_are_told_only_if_they_run_and_none_is_here() {
        let ended = |cluster: Cluster| {
            let cluster = cluster.select("Pod", "web-1").phase("Succeeded");
            cluster.select("Pod", "web-2").phase("Failed")
        };
        assert_eq!(severity(ended(elsewhere(&["shop"])), Code::PodsElsewhere), None);
        let here = elsewhere(&["shop"]).namespace("default").pod("web-1", &[("app", "web")]);
        assert_eq!(severity(here, Code::PodsElsewhere), None);
        let mut options = Options::default();
        options.other_namespaces = false;
        let codes = explained_with(elsewhere(&["shop"]), &options).codes();
        assert!(!codes.contains(&Code::PodsElsewhere), "{codes:?}");
    }
}
