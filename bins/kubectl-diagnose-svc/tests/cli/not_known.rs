//! Tests what the commands say about files that do not have all of a cluster: what a file does not
//! have is not known, and never a fault.

use std::path::Path;

use crate::files::told_of;

/// Returns what a command says about manifests, without the notes.
fn said(words: &str, manifests: &str) -> String {
    told_of(Path::new("."), &format!("{words} -f -"), manifests)
}

fn service(namespace: &str, name: &str, selector: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec: {{selector: {{{selector}}}, ports: [{{port: 80, targetPort: 8080}}]}}\n"
    )
}

/// Returns a workload whose template has these labels, with more fields of its specification and of
/// its container.
fn workload(kind: &str, name: &str, labels: &str, spec: &str, container: &str) -> String {
    let version = if kind == "ReplicationController" { "v1" } else { "apps/v1" };
    let selector =
        if version == "v1" { format!("{{{labels}}}") } else { format!("{{matchLabels: {{{labels}}}}}") };
    format!(
        "---\napiVersion: {version}\nkind: {kind}\nmetadata: {{name: {name}, namespace: shop}}\nspec:\n  {spec}\n  \
         selector: {selector}\n  template: {{metadata: {{labels: {{{labels}}}}}, spec: {{containers: [{{name: app, image: \"a:1\"{container}}}]}}}}\n"
    )
}

/// Returns an object as a server has stored it.
fn stored(kind: &str, namespace: &str, name: &str, rest: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}, uid: {namespace}-{name}, \
         resourceVersion: '1', labels: {{app: {name}}}}}\n{rest}\n"
    )
}

fn stored_service(namespace: &str, name: &str) -> String {
    let spec = format!(
        "spec: {{selector: {{app: {name}}}, clusterIP: 10.96.0.9, ports: [{{port: 80, targetPort: 8080}}]}}"
    );
    stored("Service", namespace, name, &spec)
}

fn stored_pod(namespace: &str, name: &str, node: &str, ip: &str) -> String {
    let rest = format!(
        "spec: {{nodeName: {node}, containers: [{{name: app, image: a}}]}}\n\
         status: {{phase: Running, podIP: {ip}, podIPs: [{{ip: {ip}}}], conditions: [{{type: Ready, status: 'True'}}]}}"
    );
    stored("Pod", namespace, name, &rest)
}

#[test]
fn a_workload_that_is_scaled_to_zero_is_told() {
    for kind in ["Deployment", "ReplicationController"] {
        let of = |replicas: u32| {
            let spec = format!("replicas: {replicas}");
            service("shop", "web", "app: web") + &workload(kind, "web", "app: web", &spec, "")
        };
        let idle = format!("EP030  shop/web  no pod has the labels app=web; {kind} web is scaled to zero");
        let linted = said("lint", &of(0));
        assert!(linted.contains(&idle), "{linted}");
        let explained = said("explain web", &of(0));
        assert!(
            explained.contains("is scaled to zero") && !explained.contains("pods are not in the files"),
            "{explained}"
        );
        let linted = said("lint", &of(1));
        assert!(!linted.contains("scaled to zero") && linted.ends_with("exit code 0\n"), "{linted}");
    }
}

#[test]
fn pods_that_an_operator_makes_are_not_known() {
    let operator = workload("Deployment", "operator", "app: operator, part-of: db", "replicas: 1", "");
    let of = |selector: &str| service("shop", "db", selector) + &operator;
    for selector in ["app: db, part-of: db", "postgres: db, role: primary"] {
        let linted = said("lint", &of(selector));
        assert!(linted.ends_with("exit code 0\n"), "{linted}");
        let explained = said("explain db", &of(selector));
        assert!(explained.contains("UNKNOWN  Service shop/db  EP001 not-known"), "{explained}");
        assert!(explained.contains("no workload of the files"), "{explained}");
    }
    // A template that nearly matches is meant.
    let mistyped = said("lint", &of("app: operatr, part-of: db"));
    assert!(mistyped.contains("error     EP031  shop/db"), "{mistyped}");
    // A server that has pods has all of them.
    let whole = stored_service("shop", "db") + &stored_pod("shop", "other", "a", "10.0.0.1");
    let linted = said("lint", &whole);
    assert!(linted.contains("error     EP030  shop/db"), "{linted}");
    // So have files with a pod that has a status.
    let running = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: other, namespace: shop, labels: {app: other}}\nspec: {containers: \
         [{name: a, image: a}]}\nstatus: {phase: Running, podIP: 10.0.0.1, conditions: [{type: Ready, status: \"True\"}]}\n";
    let linted = said("lint", &(service("shop", "db", "app: db") + running));
    assert!(linted.contains("error     EP030  shop/db"), "{linted}");
}

/// A controller adds the labels.
#[test]
fn a_pod_of_a_stateful_set_has_the_label_with_its_name() {
    let set = workload("StatefulSet", "db", "app: db", "replicas: 2", "");
    let of = |pod: &str| service("shop", "one", &format!("statefulset.kubernetes.io/pod-name: {pod}")) + &set;
    let linted = said("lint", &of("db-1"));
    assert!(linted.ends_with("exit code 0\n"), "{linted}");
    let linted = said("lint", &of("db-2"));
    assert!(linted.contains("that is pod db-2 of a StatefulSet db"), "{linted}");
}

#[test]
fn a_probe_of_a_template_may_ask_a_port_that_no_container_has() {
    let of = |probe: &str, port: &str| {
        let container = format!(
            ", ports: [{{name: http, containerPort: 8080}}], {probe}: {{httpGet: {{path: /, port: {port}}}}}"
        );
        service("shop", "web", "app: web")
            + &workload("Deployment", "web", "app: web", "replicas: 1", &container)
    };
    for probe in ["readinessProbe", "startupProbe"] {
        let linted = said("lint", &of(probe, "htpp"));
        assert!(
            linted.contains("EP019  shop/web") && linted.contains("a name that no container port has"),
            "{linted}"
        );
        for port in ["http", "9090"] {
            let linted = said("lint", &of(probe, port));
            assert!(linted.ends_with("exit code 0\n"), "{linted}");
        }
    }
    let explained = said("explain web -o json", &of("readinessProbe", "htpp"));
    assert!(
        explained.contains("0 of 1 pods would be published; what clients get is not known"),
        "{explained}"
    );
}

/// No slice has to tell the port on which the pods of a headless Service listen.
#[test]
fn a_headless_service_without_slices_tells_the_port_of_its_pods() {
    let of = |port: u16, cluster_ip: &str| {
        let headless = format!("spec: {{clusterIP: {cluster_ip}, selector");
        service("shop", "web", "app: web")
            .replace("spec: {selector", &headless)
            .replace("targetPort: 8080", &format!("targetPort: {port}"))
            + &workload("Deployment", "web", "app: web", "replicas: 2", "")
    };
    let linted = said("lint", &of(8080, "None"));
    assert!(linted.contains("EP066  shop/web"), "{linted}");
    for near in [of(80, "None"), of(8080, "10.96.0.9")] {
        let linted = said("lint", &near);
        assert!(!linted.contains("EP066"), "{linted}");
    }
}

/// The server has stored how many pods of a workload are ready.
#[test]
fn the_status_of_a_workload_tells_how_many_of_its_pods_are_ready() {
    let of = |status: &str| {
        let stored = format!("namespace: shop, uid: a, resourceVersion: '1'}}\n{status}spec:");
        let deployment = workload("Deployment", "web", "app: web", "replicas: 2", "");
        let manifests =
            service("shop", "web", "app: web") + &deployment.replace("namespace: shop}\nspec:", &stored);
        said("explain web", &manifests)
    };
    for (status, published) in [
        ("status: {observedGeneration: 1, replicas: 2, unavailableReplicas: 2}\n", "0 of 2 pods"),
        ("status: {observedGeneration: 1, replicas: 2, readyReplicas: 1}\n", "1 of 2 pods"),
        ("status: {observedGeneration: 1, replicas: 2, readyReplicas: 2}\n", "2 of 2 pods"),
        ("", "2 of 2 pods"),
    ] {
        let explained = of(status);
        assert!(explained.contains(published), "{status}{explained}");
        assert_eq!(explained.contains("unless the status of their workload"), published != "2 of 2 pods");
    }
}

/// Nobody can describe a pod of a template.
#[test]
fn no_command_names_a_pod_that_does_not_exist() {
    let container = ", ports: [{name: http, containerPort: 8080}], readinessProbe: {tcpSocket: {port: htpp}}";
    let chart = service("shop", "web", "app: web")
        + &workload("Deployment", "web", "app: web", "replicas: 1", container);
    let explained = said("explain web", &chart);
    assert!(explained.contains("EP019") && !explained.contains("describe pod"), "{explained}");
    let real = stored_service("shop", "web")
        + &stored_pod("shop", "web", "a", "10.0.0.1").replace("status: 'True'", "status: 'False'");
    assert!(said("explain web -n shop", &real).contains("kubectl -n shop describe pod web"));
}

/// They are made up.
#[test]
fn pods_of_templates_have_no_addresses() {
    let chart =
        service("shop", "web", "app: web") + &workload("Deployment", "web", "app: web", "replicas: 1", "");
    let explained = said("explain web -o json", &chart) + &said("explain web -o wide", &chart);
    assert!(!explained.contains("198.18.") && !explained.contains("\"node\""), "{explained}");
    let real = stored_service("shop", "web") + &stored_pod("shop", "web", "a", "10.0.0.1");
    assert!(said("explain web -n shop", &real).contains("10.0.0.1"));
}

const ROUTE: &str = r#"---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: front, namespace: shop, uid: r, resourceVersion: '1'}
spec: {rules: [{backendRefs: [{name: ledger, namespace: pay, port: 80}]}]}
"#;

#[test]
fn a_namespace_that_the_files_lack_is_not_known() {
    let shop = stored_service("shop", "web") + &stored_pod("shop", "web", "a", "10.0.0.1") + ROUTE;
    let linted = said("lint", &shop);
    assert!(!linted.contains("EP120"), "{linted}");
    let explained = said("explain httproute/front", &shop);
    assert!(explained.contains("UNKNOWN  HTTPRoute shop/front"), "{explained}");
    assert!(explained.contains("What to do\n  Name files that have its Services, too."), "{explained}");
    let whole = format!("{shop}{}", stored_service("pay", "ledger"));
    let explained = said("explain httproute/front", &whole);
    assert!(explained.contains("pay/ledger") && !explained.contains("Name files"), "{explained}");
    let missing = said("explain ledger -n pay", &shop);
    assert!(missing.contains("the files do not have the services of namespace pay"), "{missing}");
    let empty = said("lint -n pay", &shop);
    assert!(empty.ends_with("exit code 2\n"), "{empty}");
    // Here the files have the namespace.
    let linted = said("lint", &(shop + &stored_service("pay", "queue")));
    assert!(linted.contains("EP120"), "{linted}");
}

/// A dump that was cut short has Services without the pods.
#[test]
fn a_kind_may_be_known_in_one_namespace_only() {
    let folder = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| {
        let file = folder.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    write("shop/services.yaml", &stored_service("shop", "web"));
    write("shop/pods.yaml", &stored_pod("shop", "web", "a", "10.0.0.1"));
    write("pay/services.yaml", &stored_service("pay", "ledger"));
    let told = |words: &str| told_of(folder.path(), words, "");
    let linted = told("lint -f .");
    assert!(
        !linted.contains("EP030") && linted.contains("Not in the files: pods of namespace pay."),
        "{linted}"
    );
    let explained = told("explain ledger -f .");
    assert!(explained.contains("UNKNOWN  Service pay/ledger"), "{explained}");
    write("pay/pods.json", r#"{"kind": "PodList", "apiVersion": "v1", "items": null}"#);
    let linted = told("lint -f .");
    assert!(linted.contains("EP030  pay/ledger") && !linted.contains("of namespace pay"), "{linted}");
}

/// An object that was not read may be one that would be written.
#[test]
fn doctor_does_not_say_that_nothing_would_be_written() {
    let without_slices = stored_service("shop", "web") + &stored_pod("shop", "web", "a", "10.0.0.1");
    let told = said("doctor", &without_slices);
    assert!(told.contains("What kube-endpoint-manager would write is not known."), "{told}");
    assert!(told.contains("Missing permissions are not known.") && !told.contains("write nothing"), "{told}");
}

/// `helm template -n shop` leaves the namespace out of most objects.
#[test]
fn an_object_without_a_namespace_is_in_that_of_the_command_line() {
    const CHART: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 443}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: front}
spec: {defaultBackend: {service: {name: web, port: {number: 443}}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: check}
webhooks: [{name: check.example.com, clientConfig: {service: {name: web, namespace: shop, port: 443}}}]
"#;
    for words in ["lint -n shop", "lint -A -n shop", "lint"] {
        let linted = said(words, CHART);
        assert!(!linted.contains("EP120") && linted.ends_with("exit code 0\n"), "{words}: {linted}");
    }
    let wrong = CHART.replacen("{name: web}", "{name: wbe}", 1);
    assert!(said("lint -n shop", &wrong).contains("EP120"));
}

#[test]
fn lint_and_explain_tell_of_the_same_shared_address() {
    let nodes = ["a", "b"].map(|name| {
        format!(
            "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}, uid: {name}}}\n\
             status: {{conditions: [{{type: Ready, status: 'True'}}]}}\n"
        )
    });
    let of = |ip: &str| {
        let pods = stored_pod("shop", "web", "a", "10.0.0.1") + &stored_pod("batch", "job", "b", ip);
        stored_service("shop", "web") + &pods + &nodes.concat()
    };
    for words in ["lint", "lint -n shop", "explain web -n shop"] {
        assert!(said(words, &of("10.0.0.1")).contains("EP069"), "{words}");
        assert!(!said(words, &of("10.0.0.2")).contains("EP069"), "{words}");
    }
}

#[test]
fn a_kind_in_lower_case_is_an_error_that_says_what_to_write() {
    let of = |kind: &str| {
        format!(
            "apiVersion: v1\nkind: List\nitems: [{{apiVersion: v1, kind: {kind}, metadata: {{name: web}}, spec: {{ports: [{{port: 80}}]}}}}]\n"
        )
    };
    let wrong = said("lint", &of("service"));
    assert!(
        wrong.contains(r#"standard input, object 1: v1 has no kind "service"; write "Service""#),
        "{wrong}"
    );
    assert!(wrong.ends_with("exit code 2\n"), "{wrong}");
    let right = said("lint", &of("Service"));
    assert!(right.ends_with("exit code 0\n"), "{right}");
}
