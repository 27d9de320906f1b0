//! Tests each row of the evidence.

use kube_endpoint_explain::retire::{
    ConfigurationRead, EndpointsObjects, EvidenceKind, Facts, Metrics, PrometheusObjects, Report, Verdict,
    addresses_of_api_servers, api_servers,
};
use serde_json::{Value, json};

use super::{called, facts, file, forbidden, hides, list, pod, pods, says, verdict, version};

/// Returns facts whose server has another version.
fn with_version(cluster: &str, minor: u32) -> Facts {
    Facts { server: Ok(version(minor)), called: Ok(called(cluster)), ..facts(cluster) }
}

#[test]
fn servers_up_to_1_36_read_endpoints_for_services_proxy() {
    let proxies = |minor: u32| {
        let facts = with_version("busy", minor);
        let of_kind = |kind| {
            says(&facts, kind)
                .into_iter()
                .filter(|what| what.contains("/proxy") && what.contains("admin"))
                .collect()
        };
        let (readers, notes): (Vec<String>, Vec<String>) =
            (of_kind(EvidenceKind::Reader), of_kind(EvidenceKind::Note));
        (readers.len(), notes.len())
    };
    // One of them is for a Service that does not exist.
    assert_eq!([36, 37].map(proxies), [(1, 1), (0, 2)]);
    // By the metrics there was no such request.
    assert_eq!(verdict(&facts("quiet"), "shop"), Verdict::NoReaderSeen);
    let with_line = |line: &str| {
        let metrics = Metrics::read(&(file("quiet/metrics.txt") + line));
        hides(&Facts { metrics: Ok(vec![metrics]), ..facts("quiet") })
    };
    let line = "apiserver_request_total{code=\"200\",group=\"\",resource=\"services\",subresource=\"proxy\",verb=\"CONNECT\"} 3\n";
    insta::assert_snapshot!(with_line(line).join("\n"), @"API servers of version 1.36 read Endpoints for requests to services/NAME/proxy. By their metrics that happened 3 times, and no audit log shows by whom");
    assert!(with_line(&line.replace("proxy", "status")).is_empty());
    // Nobody says that there was none.
    let unknown = Facts { metrics: Err(forbidden("get /metrics")), ..facts("quiet") };
    assert!(
        hides(&unknown).iter().any(|what| what.ends_with("and nothing shows that there are none")),
        "{:?}",
        hides(&unknown)
    );
}

#[test]
fn servers_up_to_1_33_reach_aggregated_apis_and_webhooks_by_endpoints() {
    let stay = |minor: u32| {
        let all = says(&with_version("busy", minor), EvidenceKind::Refused);
        all.into_iter().filter(|what| what.contains("reach")).collect::<Vec<_>>()
    };
    insta::assert_snapshot!(stay(33).join("\n"), @r"
    shop: API servers of version 1.33 reach ValidatingWebhookConfiguration quotas through the Endpoints of Service db
    shop: API servers of version 1.33 reach APIService v1beta1.metrics.example.com, CustomResourceDefinition widgets.example.com through the Endpoints of Service web
    ");
    assert!(stay(34).is_empty());
    // An unknown version may be an old one.
    let unknown = Facts { server: Err(forbidden("get /version")), ..with_version("busy", 36) };
    assert!(says(&unknown, EvidenceKind::Refused).iter().any(|what| what.contains("API servers reach")));
    // Each of these servers watches Endpoints, too.
    let quiet = says(&with_version("quiet", 33), EvidenceKind::Note);
    assert!(quiet.iter().any(|what| what.contains("1 of the API servers themselves")), "{quiet:?}");
}

#[test]
fn open_watches_are_explained_against_the_known_ones() {
    let of = |copies: usize| {
        let metrics = vec![Metrics::read(&file("quiet/metrics.txt")); copies];
        Facts { metrics: Ok(metrics), api_servers: Ok(copies), ..facts("quiet") }
    };
    let notes = says(&of(1), EvidenceKind::Note).join("\n");
    assert!(
        notes.contains(
            "2 watches of Endpoints are open, no more than the known ones (1 of kube-controller-manager's garbage collector, 1 of \
             kube-endpoint-manager, one for each replica)"
        ),
        "{notes}"
    );
    let of_two = hides(&of(2));
    assert!(
        of_two.iter().any(|what| what.contains("the audit log of each has only requests to it")),
        "{of_two:?}"
    );
    let watches = of_two.iter().find(|what| what.contains("watches")).unwrap();
    insta::assert_snapshot!(watches, @"4 watches of Endpoints are open, of which 2 may be known (1 of kube-controller-manager's garbage collector, 1 of kube-endpoint-manager, one for each replica); 2 are of nobody known");
    assert_eq!(verdict(&of(2), "shop"), Verdict::Unknown);
    // A replica that does not run watches nothing.
    let mut waiting = list("quiet", "pods");
    for pod in &mut waiting {
        pod["status"]["phase"] = "Pending".into();
    }
    let waiting = Facts { pods: Ok(pods(&waiting)), ..facts("quiet") };
    assert!(hides(&waiting)[0].contains("of which 1 may be known"), "{:?}", hides(&waiting));
    // A replica that serves EndpointSelectors alone does not watch them.
    let mut beside = list("quiet", "pods");
    for pod in &mut beside {
        pod["spec"]["containers"][0]["args"] = json!(["--controllers=endpoint-selector-controller"]);
    }
    let beside = Facts { pods: Ok(pods(&beside)), ..facts("quiet") };
    assert!(hides(&beside)[0].contains("of which 1 may be known"), "{:?}", hides(&beside));
}

#[test]
fn api_servers_are_counted_by_their_leases_and_else_by_their_addresses() {
    let lease = |renewed: &str| json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "a", "renewTime": renewed}});
    let [one, two, old] =
        ["2026-01-01T12:00:00.5Z", "2026-01-01T12:00:09.5Z", "2026-01-01T11:50:00.0Z"].map(lease);
    assert_eq!(api_servers(&[one, two, old]), Some(2));
    assert_eq!(api_servers(&[]), None);
    assert_eq!(
        addresses_of_api_servers(&[json!({"endpoints": [{}, {}]}), json!({"endpoints": null})]),
        Some(2)
    );
    assert_eq!(addresses_of_api_servers(&[]), None);
}

#[test]
fn a_deprecated_api_that_nobody_requested_is_told_with_the_start_of_the_server() {
    let of = |text: &str| {
        let facts = Facts { metrics: Ok(vec![Metrics::read(text)]), ..facts("quiet") };
        let notes = says(&facts, EvidenceKind::Note);
        notes.into_iter().find(|what| what.contains("apiserver_requested_deprecated_apis")).unwrap()
    };
    let recorded = file("quiet/metrics.txt");
    let absent: String = recorded
        .lines()
        .filter(|line| !line.starts_with("apiserver_requested"))
        .map(|line| format!("{line}\n"))
        .collect();
    insta::assert_snapshot!([of(&recorded), of(&absent)].join("\n"), @r"
    *: Somebody has asked for Endpoints since the API servers started (the latest started at 2026-11-27T15:40:57Z), by apiserver_requested_deprecated_apis; that is always so while kube-controller-manager runs
    *: apiserver_requested_deprecated_apis does not say that somebody has asked for Endpoints since the API servers started (the latest started at 2026-11-27T15:40:57Z); servers before 1.33 never say it
    ");
}

#[test]
fn metrics_are_read_whatever_their_labels_contain() {
    let of = |text: &str| Metrics::read(text);
    let watch = "apiserver_longrunning_requests{component=\"a}b\\\"{\",group=\"\",resource=\"endpoints\",verb=\"WATCH\"} 1";
    assert_ne!(of(watch), of("apiserver_"));
    for other in [
        watch.replace("endpoints", "endpointslices"),
        watch.replace("group=\"\"", "group=\"x\""),
        watch.replace("WATCH", "CONNECT"),
        watch.replace("} 1", "} NaN"),
        watch.replace("} 1", "} -1"),
        watch.replace("} 1", "}"),
        watch.replace("_requests{", "_requests_more{"),
        watch.replace("resource=", "subresource="),
        "apiserver_longrunning_requests{a".to_owned(),
        "apiserver_longrunning_requests".to_owned(),
    ] {
        assert_eq!(of(&other), of("apiserver_"), "{other}");
    }
    assert!(
        !of("# HELP go_goroutines x\ngo_goroutines 5\nprocess_start_time_seconds 1e9\n").is_of_api_server()
    );
}

#[test]
fn who_writes_endpoints_is_told_by_their_managed_fields() {
    insta::assert_snapshot!(says(&facts("busy"), EvidenceKind::Writer).join("\n"), @r"
    shop: admin (kubectl/v1.36.4 (linux/amd64) kubernetes/bb826b1): create 2 times (external, old-lock) of Endpoints
    shop: kubectl-client-side-apply, which is no controller, writes Endpoints external; they are not deleted
    shop: k8s-await-election writes the Endpoints of a Service: shop/linstor-controller-1, image example/linstor-controller:1.31
    ");
    let stay: Vec<String> = says(&facts("busy"), EvidenceKind::Refused)
        .into_iter()
        .filter(|what| !what.contains("kube-dns"))
        .collect();
    insta::assert_snapshot!(stay.join("\n"), @"shop: Endpoints old-lock are the lock of a leader election");
    let mut objects = EndpointsObjects::default();
    let annotations = json!({"leader": "db-0", "ttl": "30", "renewTime": "x", "acquireTime": "x"});
    objects.add(&json!({"namespace": "shop", "name": "db", "annotations": annotations})).unwrap();
    objects.add(&json!({"namespace": "shop", "name": "plain"})).unwrap();
    objects.add(&json!({"namespace": "default", "name": "kubernetes"})).unwrap();
    let facts = Facts { endpoints: Ok(objects), ..facts("quiet") };
    assert_eq!(says(&facts, EvidenceKind::Refused), ["shop: Endpoints db are the lock of a leader election"]);
    assert_eq!(
        says(&facts, EvidenceKind::Writer),
        ["shop: Endpoints plain do not tell who wrote them; they are not deleted"]
    );
    // Only the API server has Endpoints in this namespace, which is no part of a report of all.
    let report = Report::of(&facts);
    assert_eq!(report.namespaces.iter().map(|of| &*of.namespace).collect::<Vec<_>>(), ["shop"]);
    let report = Report::of(&Facts { namespace: Some("default".into()), ..facts });
    assert_eq!((report.namespaces[0].verdict, report.namespaces[0].endpoints), (Verdict::Refuse, Some(0)));
}

#[test]
fn rbac_tells_who_may_read_and_which_pods_run_as_them() {
    insta::assert_snapshot!(says(&facts("busy"), EvidenceKind::Possible).join("\n"), @r"
    *: Group system:masters may get, list, watch Endpoints by ClusterRole cluster-admin
    *: ServiceAccount kube-system/kube-dns may list, watch Endpoints by ClusterRole system:kube-dns; pods that run as it: kube-system/kube-dns-1
    *: ServiceAccount monitoring/prometheus may get, list, watch Endpoints by ClusterRole prometheus; pods that run as it: monitoring/prometheus-0
    *: User system:kube-proxy may list, watch Endpoints by ClusterRole system:node-proxier
    shop: Group developers may get, list, watch Endpoints by ClusterRole view
    shop: ServiceAccount shop/ingress may list, watch Endpoints by Role ingress; pods that run as it: shop/web-1
    ");
    // Nobody is refused because somebody may read.
    let possible = says(&facts("quiet"), EvidenceKind::Possible);
    assert!(!possible.is_empty());
    assert!(
        !possible
            .iter()
            .any(|what| what.contains("kube-endpoint-manager") || what.contains("namespace-controller"))
    );
}

#[test]
fn rules_of_roles_are_read_as_the_api_server_does() {
    let allowed = |rules: Value| {
        let mut rbac = kube_endpoint_explain::retire::Rbac::default();
        rbac.add_role(&json!({"metadata": {"name": "r"}, "rules": rules}));
        rbac.add_binding(&json!({
            "metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "r"},
            "subjects": [{"kind": "User", "name": "jane"}],
        }));
        says(&Facts { rbac: Ok(rbac), ..facts("quiet") }, EvidenceKind::Possible).join("\n")
    };
    let rule = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    for (rules, want) in [
        (
            json!([rule(&[""], &["endpoints"], &["watch", "get", "update"])]),
            "*: User jane may get, watch Endpoints by ClusterRole r",
        ),
        (
            json!([rule(&["*"], &["*"], &["*"])]),
            "*: User jane may get, list, watch Endpoints by ClusterRole r",
        ),
        (json!([rule(&[""], &["endpoints"], &["create"])]), ""),
        (json!([rule(&["apps"], &["endpoints"], &["get"])]), ""),
        (json!([rule(&[""], &["endpoints/status", "pods"], &["get"])]), ""),
        (
            json!([rule(&[""], &["pods"], &["get"]), rule(&[""], &["endpoints"], &["list"])]),
            "*: User jane may list Endpoints by ClusterRole r",
        ),
        (
            json!([{"apiGroups": [""], "resources": ["endpoints"], "verbs": ["get"], "resourceNames": ["lock"]}]),
            "*: User jane may get Endpoints lock by ClusterRole r",
        ),
        (json!(null), ""),
    ] {
        assert_eq!(allowed(rules.clone()), want, "{rules}");
    }
}

#[test]
fn programs_are_suspected_by_images_arguments_and_configurations_each_with_a_remedy() {
    let report = Report::of(&facts("busy"));
    let suspects = super::all(&report).into_iter().filter(|piece| {
        use kube_endpoint_explain::retire::Source::{Configuration, Pods};
        matches!(piece.source, Configuration | Pods)
    });
    let lines: Vec<String> = suspects
        .map(|piece| {
            let namespace = piece.namespace.as_deref().unwrap_or("*");
            format!("{:?} {namespace}: {}\n    {}", piece.kind, piece.what, piece.remedy.as_deref().unwrap())
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    Reader *: kube-dns makes its answers from Endpoints: kube-system/kube-dns-1, image registry.k8s.io/dns/k8s-dns-kube-dns:1.23.1
        Replace kube-dns by CoreDNS.
    Reader *: The AWS load balancer controller reads Endpoints: it does not have --enable-endpoint-slices: kube-system/aws-load-balancer-controller-1, image public.ecr.aws/eks/aws-load-balancer-controller:v2.13.4
        Set --enable-endpoint-slices (enableEndpointSlices: true of its chart).
    Reader *: CoreDNS before 1.8.3 may make its answers from Endpoints: kube-system/coredns-1, image registry.k8s.io/coredns/coredns:v1.8.0
        Update CoreDNS to 1.8.3 or later.
    Reader *: Prometheus monitoring/prometheus-0 has role endpoints in job services (ConfigMap monitoring/prometheus, key prometheus.yml)
        Set `role: endpointslice` in its kubernetes_sd_configs, with relabelling by __meta_kubernetes_endpointslice_ labels, and let it get, list and watch endpointslices.discovery.k8s.io.
    Reader *: ServiceMonitor shop/web has spec.serviceDiscoveryRole Endpoints
        Set it to EndpointSlice, or leave it out.
    Reader *: Prometheus monitoring/main of prometheus-operator has role Endpoints, the default
        Set spec.serviceDiscoveryRole: EndpointSlice in it, and let its ServiceAccount get, list and watch endpointslices.discovery.k8s.io.
    Reader shop: Patroni keeps its leader in Endpoints (use_endpoints): shop/ledger-0, image example/patroni:4.0.6
        Let Patroni use ConfigMaps, as its documentation describes, and select the leader by its label. Its Endpoints stay until then.
    Writer shop: k8s-await-election writes the Endpoints of a Service: shop/linstor-controller-1, image example/linstor-controller:1.31
        Select the leader with an EndpointSelector, by a pod condition or a Lease (docs/leader.md).
    ");
}

#[test]
fn pods_that_have_ended_run_nothing() {
    let mut ended = pod("dns-1", "k8s-dns-kube-dns:1");
    let of = |pod: &Value| {
        let facts =
            Facts { pods: Ok(pods(&[list("quiet", "pods"), vec![pod.clone()]].concat())), ..facts("quiet") };
        verdict(&facts, "shop")
    };
    assert_eq!(of(&ended), Verdict::Refuse);
    ended["status"] = json!({"phase": "Succeeded"});
    assert_eq!(of(&ended), Verdict::NoReaderSeen);
}

/// Returns what a Prometheus with a configuration shows.
fn prometheus(text: Result<&str, &str>) -> Facts {
    let mut pod = pod("prometheus-1", "prom/prometheus:v3");
    pod["spec"]["containers"][0]["args"] = json!(["--config.file", "/etc/config/prometheus.yml"]);
    pod["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "root", "mountPath": "/etc"}, {"name": "config", "mountPath": "/etc/config"}]);
    pod["spec"]["volumes"] = json!([
        {"name": "root", "emptyDir": {}},
        {"name": "config", "secret": {"secretName": "settings", "items": [{"key": "main", "path": "prometheus.yml"}]}},
    ]);
    let pods = pods(&[list("quiet", "pods"), vec![pod]].concat());
    let configurations = pods.configurations().into_iter().map(|configuration| {
        let text = text.map(str::to_owned).map_err(forbidden);
        ConfigurationRead { configuration, text }
    });
    Facts { configurations: configurations.collect(), pods: Ok(pods), ..facts("quiet") }
}

#[test]
fn a_prometheus_reads_what_its_configuration_says() {
    let readers = |text: &str| says(&prometheus(Ok(text)), EvidenceKind::Reader).join("\n");
    let job = |role: &str, more: &str| {
        format!("scrape_configs:\n- job_name: web\n  kubernetes_sd_configs:\n  - role: {role}\n{more}")
    };
    let of = "Prometheus shop/prometheus-1 has role endpoints in job";
    let place = "(Secret shop/settings, key main)";
    assert_eq!(readers(&job("endpoints", "")), format!("*: {of} web {place}"));
    assert_eq!(readers(&job("endpointslice", "")), "");
    let limited = job("endpoints", "    namespaces: {names: [shop, pay]}\n");
    // The namespace `pay` has no Endpoints, so it is no part of the report.
    assert_eq!(readers(&limited), format!("shop: {of} web {place}"));
    let both = limited + "- job_name: all\n  kubernetes_sd_configs: [{role: endpoints}]\n";
    assert_eq!(readers(&both), format!("*: {of}s all, web {place}"));
    let alerting = "alerting:\n  alertmanagers:\n  - kubernetes_sd_configs: [{role: endpoints}]\n";
    assert_eq!(readers(alerting), format!("*: {of} of alerting {place}"));
    assert_eq!(verdict(&prometheus(Ok(&job("endpointslice", ""))), "shop"), Verdict::NoReaderSeen);
}

#[test]
fn a_configuration_of_prometheus_that_cannot_be_read_could_hide_a_reader() {
    let mut hidden = vec![
        hides(&prometheus(Err("get secrets in shop"))),
        hides(&prometheus(Ok("a: b: c\n- d"))),
        hides(&prometheus(Ok("scrape_config_files: ['*.yml']"))),
    ];
    let elsewhere = pods(&[list("quiet", "pods"), vec![pod("prometheus-1", "prometheus:v3")]].concat());
    let configuration = elsewhere.configurations().remove(0);
    let configurations = vec![ConfigurationRead { configuration, text: Ok(String::new()) }];
    hidden.push(hides(&Facts { pods: Ok(elsewhere), configurations, ..facts("quiet") }));
    insta::assert_snapshot!(hidden.concat().join("\n"), @r"
    The configuration of Prometheus shop/prometheus-1 (Secret shop/settings, key main): you lack the permission to get secrets in shop
    The configuration of Prometheus shop/prometheus-1 (Secret shop/settings, key main) is no YAML
    The configuration of Prometheus shop/prometheus-1 (Secret shop/settings, key main) has scrape_config_files, which were not read
    The configuration of Prometheus shop/prometheus-1 is in no ConfigMap or Secret that its pod shows
    ");
}

#[test]
fn prometheus_operator_gives_the_role_endpoints_unless_it_is_told_otherwise() {
    let readers = |kind: &str, role: Value| {
        let mut objects = PrometheusObjects::default();
        objects.add(
            kind,
            &json!({"metadata": {"namespace": "m", "name": "main"}, "spec": {"serviceDiscoveryRole": role}}),
        );
        says(&Facts { prometheus: Ok(objects), ..facts("quiet") }, EvidenceKind::Reader).len()
    };
    for (kind, role, want) in [
        ("Prometheus", json!(null), 1),
        ("Prometheus", json!("Endpoints"), 1),
        ("Prometheus", json!("EndpointSlice"), 0),
        ("PrometheusAgent", json!(null), 1),
        ("ServiceMonitor", json!(null), 0),
        ("ServiceMonitor", json!("Endpoints"), 1),
        ("ServiceMonitor", json!("EndpointSlice"), 0),
    ] {
        assert_eq!(readers(kind, role.clone()), want, "{kind} {role}");
    }
    // A pod of the operator needs no ConfigMap: the objects tell.
    let mut pod = pod("prometheus-main-0", "prometheus:v3");
    pod["metadata"]["labels"] = json!({"operator.prometheus.io/name": "main"});
    let found = pods(&[list("quiet", "pods"), vec![pod]].concat());
    let facts = Facts { pods: Ok(found), prometheus: Err(forbidden("list prometheuses")), ..facts("quiet") };
    assert_eq!(
        hides(&facts),
        ["Objects of prometheus-operator: you lack the permission to list prometheuses"]
    );
    // Without the operator there are none.
    let facts = Facts { prometheus: Err(forbidden("list prometheuses")), ..super::facts("quiet") };
    assert!(hides(&facts).is_empty());
}

#[test]
fn headless_services_keep_their_endpoints_while_kube_dns_runs() {
    let dns = |cluster: &str| {
        let all = says(&facts(cluster), EvidenceKind::Refused);
        all.into_iter().filter(|what| what.contains("headless")).collect::<Vec<_>>()
    };
    assert_eq!(dns("busy"), ["shop: kube-dns makes the names of headless Services from Endpoints: db"]);
    assert!(dns("quiet").is_empty());
}
