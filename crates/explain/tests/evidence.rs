//! Tests that findings about ports, names and selectors need evidence: what looks alike and works
//! is no problem.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use kube_endpoint_core_model::{ObjectKey, Timestamp};
use kube_endpoint_explain::{Code, Explanation, Objects, Options, Planned, Severity, Status, explain};
use kube_endpoint_testing::Cluster;
use serde_json::{Value, json};

fn key() -> ObjectKey {
    ObjectKey::new("default", "web")
}

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

fn web(pods: usize) -> Cluster {
    Cluster::new().node("a").service("web").port("http", 80, "http").pods("web", pods)
}

/// Explains the Service after the controllers have written.
fn explained(cluster: Cluster) -> Explanation {
    let objects = Objects::read(cluster.objects().iter().cloned()).unwrap();
    let planned = Planned::new(&objects, &key(), &objects.topology(), now(), &Options::default());
    let cluster = planned.slice_writes().fold(cluster, |cluster, writes| cluster.apply(writes));
    let cluster = planned.endpoints_writes().fold(cluster, |cluster, writes| cluster.apply(writes));
    let objects = Objects::read(cluster.objects().iter().cloned()).unwrap();
    explain(&objects, &key(), &objects.topology(), now(), None, &Options::default()).unwrap()
}

/// Returns the findings of a code: severity and message.
fn found(cluster: Cluster, code: Code) -> Vec<(Severity, String)> {
    let advice = explained(cluster).to_do.into_iter();
    advice.filter(|advice| advice.code == code).map(|advice| (advice.severity, advice.message)).collect()
}

fn with_ports(cluster: Cluster, ports: Value) -> Cluster {
    cluster.select("Service", "web").change(move |service| service["spec"]["ports"] = ports.clone())
}

fn with_containers(cluster: Cluster, pod: &str, containers: Value) -> Cluster {
    cluster.select("Pod", pod).change(move |pod| pod["spec"]["containers"] = containers.clone())
}

/// Returns a container that is ready through a probe of the first of its TCP ports.
fn probed(name: &str, ports: &[i64]) -> Value {
    let declared: Vec<Value> =
        ports.iter().map(|port| json!({"containerPort": port, "protocol": "TCP"})).collect();
    json!({"name": name, "ports": declared, "readinessProbe": {"tcpSocket": {"port": ports.first()}}})
}

#[test]
fn a_target_port_that_no_container_declares_is_a_warning_only_beside_one_that_all_declare() {
    let check = |ports: Value, containers: Value, want: &[Severity]| {
        let cluster = with_containers(with_ports(web(1), ports), "web-1", containers);
        let severities: Vec<Severity> =
            found(cluster, Code::PortNotDeclared).into_iter().map(|(severity, _)| severity).collect();
        assert_eq!(severities, want);
    };
    let port = |target: i64| json!([{"port": 80, "targetPort": target, "protocol": "TCP"}]);
    check(port(80), json!([probed("app", &[8080])]), &[Severity::Warning]);
    check(port(8080), json!([probed("app", &[8080])]), &[]);
    check(port(80), json!([{"name": "app", "ports": [{"containerPort": 8080}]}]), &[Severity::Warning]);
    // A probe asks the target port, so something listens there.
    let of_target = json!([{"name": "app", "ports": [{"containerPort": 8080}], "readinessProbe": {"httpGet": {"port": 80}}}]);
    check(port(80), of_target, &[Severity::Info]);
    // A gateway listens where its configuration says.
    check(port(5432), json!([probed("app", &[8080, 8443, 15021])]), &[Severity::Info]);
    // The declared port is not for clients.
    let metrics = json!([{"name": "app", "ports": [{"name": "metrics", "containerPort": 9090}]}]);
    check(port(80), metrics, &[Severity::Info]);
    // A container that declares nothing may listen on any port.
    check(port(80), json!([{"name": "app"}, probed("proxy", &[15021])]), &[Severity::Info]);
    // The Service leads to the probed port, too: the other one is there on purpose.
    let both = json!([{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"},
        {"name": "admin", "port": 81, "targetPort": 9090, "protocol": "TCP"}]);
    check(both, json!([probed("app", &[8080])]), &[Severity::Info]);
    let udp = json!([{"port": 80, "targetPort": 80, "protocol": "UDP"}]);
    check(udp, json!([probed("app", &[8080])]), &[Severity::Info]);
}

#[test]
fn a_protocol_that_no_container_declares_is_told_unless_both_are_served() {
    let udp = json!([{"name": "app", "ports": [{"containerPort": 53, "protocol": "UDP"}]}]);
    let tcp = json!({"name": "tcp", "port": 53, "targetPort": 53, "protocol": "TCP"});
    let count = |ports: Value, containers: &Value| {
        let cluster = with_containers(with_ports(web(1), ports), "web-1", containers.clone());
        found(cluster, Code::PortNotDeclared).len()
    };
    assert_eq!(count(json!([tcp]), &udp), 1);
    let both = json!([tcp, {"name": "udp", "port": 53, "targetPort": 53, "protocol": "UDP"}]);
    assert_eq!(count(both, &udp), 0);
    let declares_both =
        json!([{"name": "app", "ports": [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53}]}]);
    assert_eq!(count(json!([tcp]), &declares_both), 0);
    let is_probed = json!([{"name": "app", "ports": [{"containerPort": 53, "protocol": "UDP"}], "readinessProbe": {"tcpSocket": {"port": 53}}}]);
    assert_eq!(count(json!([tcp]), &is_probed), 0);
}

#[test]
fn pods_that_serve_otherwise_than_the_others_are_named() {
    let number = || with_ports(web(3), json!([{"port": 80, "targetPort": 8080, "protocol": "TCP"}]));
    let owned = |cluster: Cluster, kind: &str, name: &str| {
        let owner = json!([{"kind": kind, "name": name, "controller": true}]);
        cluster.select("Pod", "web-3").change(move |pod| pod["metadata"]["ownerReferences"] = owner.clone())
    };
    let silent = json!([{"name": "migrate"}]);
    let of = |cluster: Cluster| found(cluster, Code::PortNotDeclared);
    assert_eq!(of(number()), []);
    let job = of(owned(with_containers(number(), "web-3", silent.clone()), "Job", "migrate"));
    insta::assert_snapshot!(
        job[0].1,
        @"pod web-3 of Job migrate gets clients of the Service, whose targetPort 8080 other pods declare and it does not"
    );
    assert_eq!(job[0].0, Severity::Warning);
    // Pods of a Deployment that declare nothing may listen on any port.
    assert_eq!(of(owned(with_containers(number(), "web-3", silent), "ReplicaSet", "web-7f")), []);
    assert_eq!(of(owned(number(), "Job", "migrate")), []);
    let canary = of(with_containers(number(), "web-3", json!([probed("app", &[9090])])));
    insta::assert_snapshot!(
        canary[0].1,
        @"port 80 of the Service has the targetPort 8080, which other pods declare; pod web-3 declares only 9090; it is ready through a probe of port 9090, so likely refuses clients"
    );
    assert_eq!((canary.len(), canary[0].0), (1, Severity::Warning));
}

#[test]
fn containers_that_name_a_port_alike_are_named() {
    let named = |number: u16| json!([{"name": "http", "containerPort": number, "protocol": "TCP"}]);
    let of = |one: u16, other: u16| {
        let containers =
            json!([{"name": "exporter", "ports": named(one)}, {"name": "app", "ports": named(other)}]);
        found(with_containers(web(1), "web-1", containers), Code::PortNameAmbiguous)
    };
    insta::assert_snapshot!(
        of(9090, 8080)[0].1,
        @r#"several containers of pod web-1 name a port "http": the Service sends clients to exporter (9090), the first, and not to app (8080)"#
    );
    assert_eq!(of(8080, 8080), []);
}

/// Pods have their names from the headless Service that is their subdomain.
#[test]
fn a_second_headless_service_needs_no_names() {
    let named = |subdomain: &'static str| {
        let cluster =
            web(2).select("Service", "web").change(|service| service["spec"]["clusterIP"] = json!("None"));
        (1..=2).fold(cluster, |cluster, at| {
            cluster.select("Pod", &format!("web-{at}")).change(move |pod| {
                pod["spec"]["hostname"] = json!(format!("web-{at}"));
                pod["spec"]["subdomain"] = json!(subdomain);
            })
        })
    };
    let other = |cluster_ip: &str, app: &str| {
        json!({"kind": "Service", "metadata": {"name": "db"}, "spec": {"clusterIP": cluster_ip,
            "selector": {"app": app}, "ports": [{"port": 8080, "protocol": "TCP"}]}})
    };
    let of = |cluster: Cluster| -> Vec<(String, String)> {
        let advice = explained(cluster).to_do.into_iter().filter(|it| it.code == Code::HeadlessWithoutNames);
        advice.map(|advice| (advice.message, advice.remedy.sentence)).collect()
    };
    assert_eq!(of(named("web")), []);
    assert_eq!(of(named("db").with(other("None", "web"))), []);
    let texts: Vec<(String, String)> = [
        named("db"),
        named("db").with(other("10.96.0.99", "web")),
        named("db").with(other("None", "api")),
        named(""),
    ]
    .into_iter()
    .flat_map(of)
    .collect();
    insta::assert_debug_snapshot!(texts);
}

#[test]
fn a_role_is_told_by_the_label_and_the_program() {
    let of = |selector: &[(&str, &str)], pods: &[&[(&str, &str)]]| {
        let cluster = Cluster::new().node("a").service("web").port("http", 80, "http").selector(selector);
        let named = pods.iter().enumerate();
        let cluster = named.fold(cluster, |cluster, (at, labels)| cluster.pod(&format!("db-{at}"), labels));
        let explanation = explained(cluster);
        let lines = explanation.nearly_matching.iter().map(|near| near.differs());
        let lines: Vec<String> = lines.collect();
        format!(
            "{}\n{}\n{}",
            explanation.to_do[0].message,
            lines.join("\n"),
            explanation.to_do[0].remedy.sentence
        )
    };
    let role = |role: &'static str| [("app", "db"), ("role", role)];
    let texts = [
        of(&role("master"), &[&role("replica"), &role("replica"), &role("primary")]),
        of(&role("replica"), &[&role("primary"), &role("standby")]),
        of(&role("primary"), &[&role("replica"), &role("replica")]),
        of(&[("app", "db"), ("color", "green")], &[&[("app", "db"), ("color", "blue")]]),
        of(
            &[("app", "db"), ("helm.sh/chart", "db-1.2.3")],
            &[&[("app", "db"), ("helm.sh/chart", "db-1.2.4")]],
        ),
        of(&[("app", "db"), ("version", "v1")], &[&[("app", "db"), ("version", "v2")]]),
        of(&[("app", "db"), ("rollouts-pod-template-hash", "6d4c")], &[&[("app", "db")]]),
    ];
    insta::assert_snapshot!(texts.join("\n\n"));
}

#[test]
fn a_service_that_knative_has_scaled_to_zero_is_empty_by_design() {
    let cluster =
        web(0).select("Service", "web").label("networking.internal.knative.dev/serviceType", "Private");
    let explanation = explained(cluster);
    let verdict = &explanation.verdict;
    assert_eq!((verdict.status, verdict.severity), (Status::NoEndpoints, Severity::Info), "{verdict:?}");
    insta::assert_snapshot!(
        verdict.message,
        @"no pod has the labels app=web; Knative scales the pods to zero while nobody sends requests"
    );
}

/// The message with which the API server refuses pods tells what to do.
#[test]
fn the_advice_for_pods_that_are_refused_depends_on_the_message() {
    let event = |workload: &str, message: &str| {
        json!({"kind": "Event", "metadata": {"name": "e"}, "reason": "FailedCreate", "type": "Warning",
            "message": message, "lastTimestamp": "2026-01-01T00:59:00Z",
            "involvedObject": {"kind": "ReplicaSet", "namespace": "default", "name": workload}})
    };
    let of = |workload: &str, message: &str| {
        let objects = web(0).with(event(workload, message));
        let advice = explained(objects).to_do.into_iter().find(|it| it.code == Code::PodsNotCreated);
        advice.map(|advice| advice.remedy.sentence).unwrap_or_default()
    };
    let texts = [
        "pods \"web-1\" is forbidden: exceeded quota: compute, requested: pods=1",
        "Internal error occurred: failed calling webhook \"a\": failed to call webhook: Post \"https://web.default.svc:443/x\": no endpoints available for service \"web\"",
        "Internal error occurred: failed calling webhook \"a\": failed to call webhook: Post \"https://policy.kyverno.svc:443/x\": connection refused",
        "admission webhook \"validate.kyverno.svc\" denied the request: no limits",
        "pods \"web-1\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false",
        "pods \"web-\" is forbidden: error looking up service account default/web: serviceaccount \"web\" not found",
        "something else",
    ]
    .map(|message| of("web-7f", message));
    insta::assert_snapshot!(texts.join("\n"));
    assert_eq!(of("other-7f", "exceeded quota"), "", "another workload");
}
