//! Tests that the permissions in the manifests are those that the manager uses: they allow each
//! request of all conformance scenarios, of a run with faults, and of replicas that serve and elect
//! a leader; and some request uses each permission, or a list gives a reason for it.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule};
use kube_endpoint_integration_tests::conformance::{
    CONTROLLERS_USER, Parts, Scenario, TestBed, play, recordings, upstream_settings,
};
use serde_json::json;

use crate::deploy::addon;
use crate::deploy::manifests::{KUSTOMIZATIONS, rendered};
use crate::deploy::rbac::{Attributes, Granted, Rule, allowed, granted};
use crate::deploy::replicas::REPLICAS;

/// Permissions that no request of the controllers shows.
const NOT_REQUESTED: [(&str, &str, &str); 8] = [
    // An explanation on the status page.
    ("get", "", "pods"),
    ("get", "", "nodes"),
    ("list", "", "events"),
    ("get", "kube-endpoint-manager.github.io", "endpointselectors"),
    // OpenShift's RestrictedEndpointsAdmission, for addresses in the pod and Service networks.
    ("create", "", "endpoints/restricted"),
    ("create", "discovery.k8s.io", "endpointslices/restricted"),
    // OwnerReferencesPermissionEnforcement: slices have owner references with `blockOwnerDeletion`.
    ("update", "", "services/finalizers"),
    ("update", "", "endpoints/finalizers"),
];

/// Returns the rights of every authenticated user in every cluster: the ClusterRole
/// `system:discovery`.
fn discovery() -> Granted {
    let urls =
        ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/readyz", "/version", "/version/"];
    let non_resource_urls = urls.map(str::to_owned).to_vec();
    (None, Rule { verbs: vec!["get".to_owned()], non_resource_urls, ..Rule::default() })
}

/// Returns the Role that kube-apiserver makes in kube-system for servers that authenticate their
/// clients.
fn authentication_reader() -> Rule {
    let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
    Rule {
        verbs: list(&["get", "list", "watch"]),
        api_groups: list(&[""]),
        resources: list(&["configmaps"]),
        resource_names: list(&["extension-apiserver-authentication"]),
        ..Rule::default()
    }
}

/// Returns the permissions that a kustomization grants to the manager.
fn permissions(kustomization: &str) -> Vec<Granted> {
    let subject = match kustomization {
        "deploy/overlays/kubeadm" => ("User", "kube-endpoint-manager", None),
        _ => ("ServiceAccount", "kube-endpoint-manager", Some("kube-system")),
    };
    let existing = [("extension-apiserver-authentication-reader", authentication_reader())];
    granted(&rendered(kustomization), &existing, subject)
}

/// Returns the requests that the controllers sent to a server.
fn requests(server: &EmbeddedApiServer) -> BTreeSet<Attributes> {
    let log = server.request_log();
    let own = log.iter().map(|logged| &logged.request).filter(|request| request.user == CONTROLLERS_USER);
    own.map(|request| Attributes::of(request.method.as_str(), &request.path, &request.query)).collect()
}

/// Runs a future to its end under a paused clock.
pub(crate) fn paused<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(future)
}

/// Returns the requests of the controllers in one scenario.
async fn of_scenario(scenario: &Scenario) -> BTreeSet<Attributes> {
    let bed = TestBed::in_process(Parts::ALL).await.unwrap();
    let failures = play(&bed, scenario, Parts::ALL).await.unwrap();
    assert!(failures.is_empty(), "{}: {failures:?}", scenario.name);
    requests(bed.server())
}

/// Returns the requests of the controllers in a run in which connections break, the server answers
/// 404 to writes and refuses others until events repeat, and Endpoints are left from a Service that
/// somebody deleted while no controller ran.
async fn of_faults() -> BTreeSet<Attributes> {
    let service = |selector: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default", "uid": "1"},
            "spec": {"selector": {"app": selector}, "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"],
                "ports": [{"port": 80, "targetPort": 8080}]}})
    };
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-1", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"nodeName": "node", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "True"}]}});
    let managed_fields = json!([{"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:subsets": {}}}]);
    let left = json!({"apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": "left", "namespace": "default", "managedFields": managed_fields}});
    let bed = TestBed::in_process_on([node, pod, left], &upstream_settings(Parts::ALL)).await.unwrap();
    let server = bed.server();
    for plural in ["endpoints", "endpointslices"] {
        for verb in ["create", "update"] {
            let refused = |status| Fault::Refuse { status, retry_after: None };
            server.add_fault(FaultRule::on(refused(404), verb, plural).times(2));
            server.add_fault(FaultRule::on(refused(500), verb, plural).after(2).times(6));
        }
    }
    let minutes = |minutes: u64| tokio::time::sleep(Duration::from_secs(60 * minutes));
    server.load([service("web")]).unwrap();
    minutes(5).await;
    server.load([service("none")]).unwrap();
    minutes(5).await;
    assert!(server.break_watches(|_| true) >= 5);
    minutes(1).await;
    for plural in ["endpoints", "endpointslices"] {
        for verb in ["create", "update"] {
            let log = server.request_log();
            let is_refused = |status: u16| {
                log.iter()
                    .any(|it| it.request.verb == verb && it.request.plural() == plural && it.status == status)
            };
            assert!(is_refused(404) && is_refused(500), "no {verb} of {plural} was refused");
        }
    }
    requests(server)
}

/// Returns all requests for the tests of permissions.
fn all_requests() -> BTreeSet<Attributes> {
    let scenarios: Vec<Scenario> =
        recordings().unwrap().iter().map(|file| Scenario::read(file).unwrap()).collect();
    assert!(scenarios.len() > 30);
    let halves = scenarios.chunks(scenarios.len().div_ceil(2));
    let mut all = std::thread::scope(|scope| {
        let threads: Vec<_> = halves
            .map(|scenarios| {
                scope.spawn(move || {
                    scenarios
                        .iter()
                        .flat_map(|scenario| paused(of_scenario(scenario)))
                        .collect::<BTreeSet<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<BTreeSet<_>>()
    });
    assert!(all.len() > 100, "{all:?}");
    all.extend(paused(of_faults()));
    all.extend(REPLICAS.requests.iter().cloned());
    // The replicas recorded events about their leadership, in the namespace of the lease.
    assert!(all.contains(&Attributes::of("POST", "/api/v1/namespaces/kube-system/events", "")), "{all:?}");
    all
}

/// Returns the requests that no rule allows, and the parts of rules that allow no request and are
/// not exempt.
pub(crate) fn differences(
    granted: &[Granted],
    requests: &BTreeSet<Attributes>,
) -> (Vec<String>, Vec<String>) {
    let with_discovery = [granted, &[discovery()]].concat();
    let forbidden = requests.iter().filter(|request| !allowed(&with_discovery, request));
    // That Role is not this project's, and has verbs for other programs.
    let existing = authentication_reader().parts();
    let is_exempt = |rule: &Rule| {
        existing.contains(rule)
            || NOT_REQUESTED.iter().any(|(verb, group, resource)| {
                rule.verbs == [*verb] && rule.api_groups == [*group] && rule.resources == [*resource]
            })
    };
    let parts = granted
        .iter()
        .flat_map(|(namespace, rule)| rule.parts().into_iter().map(move |part| (namespace.clone(), part)));
    let unused = parts.filter(|part| {
        !is_exempt(&part.1) && !requests.iter().any(|request| allowed(std::slice::from_ref(part), request))
    });
    (
        forbidden.map(|request| format!("{request:?}")).collect(),
        unused.map(|(namespace, rule)| format!("{namespace:?} {rule:?}")).collect(),
    )
}

pub(crate) fn every_request_is_allowed_and_every_permission_is_used() {
    let requests = all_requests();
    for kustomization in KUSTOMIZATIONS {
        let (forbidden, unused) = differences(&permissions(kustomization), &requests);
        assert!(forbidden.is_empty(), "{kustomization} does not allow:\n{}", forbidden.join("\n"));
        assert!(unused.is_empty(), "{kustomization} allows what is never requested:\n{}", unused.join("\n"));
    }
}

pub(crate) fn exemptions_are_permissions_that_exist() {
    let granted = [permissions("deploy/base"), addon::permissions("deploy/overlays/addon")].concat();
    for (verb, group, resource) in NOT_REQUESTED {
        let request = Attributes {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: "any".to_owned(),
            ..Attributes::default()
        };
        assert!(allowed(&granted, &request), "{request:?}");
    }
}

pub(crate) fn a_missing_permission_and_an_unused_one_are_found() {
    let granted = permissions("deploy/base");
    let of = |method, path| Attributes::of(method, path, "");
    let requests = BTreeSet::from([of("GET", "/api/v1/pods"), of("GET", "/api/v1/secrets")]);
    let (forbidden, unused) = differences(&granted, &requests);
    assert_eq!(forbidden.len(), 1, "{forbidden:?}");
    assert!(forbidden[0].contains("secrets"), "{forbidden:?}");
    assert!(unused.iter().any(|rule| rule.contains("nodes")), "{unused:?}");
    assert!(!unused.iter().any(|rule| rule.contains("\"list\"") && rule.contains("pods")), "{unused:?}");
}
