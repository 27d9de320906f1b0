//! Tests the commands that read files in place of a cluster. The files were written by kubectl on a
//! kube-apiserver with the controllers of kube-controller-manager; those of the must-gather have
//! the names and the form that OpenShift gives them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::server::{Shop, fixture, shop_objects, stderr, stdout};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/files")
}

/// Runs the plugin in a folder, with a text on standard input and without a kubeconfig.
fn run_in(folder: &Path, words: &str, input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-diagnose_svc"));
    command.args(words.split(' ')).current_dir(folder).env_remove("COLUMNS");
    command.env("KUBECONFIG", "/there/is/none").env("KUBERNETES_SERVICE_HOST", "192.0.2.1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that fails early does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// Returns what a command prints, with its exit code.
pub(crate) fn told_of(folder: &Path, words: &str, input: &str) -> String {
    let output = run_in(folder, words, input);
    let code = output.status.code().unwrap();
    format!("$ {words}\n{}{}exit code {code}\n", stderr(&output), stdout(&output))
}

fn told(words: &str) -> String {
    told_of(&folder(), words, "")
}

fn all(commands: &[&str]) -> String {
    commands.iter().map(|words| told(words)).collect::<Vec<_>>().join("\n")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(folder().join(file)).unwrap()
}

#[test]
fn a_list_of_kubectl_is_read_as_its_cluster() {
    insta::assert_snapshot!(all(&[
        "lint -f list.yaml",
        "explain web -f list.yaml",
        "explain cart -f list.yaml",
        "explain pod web-84b9bccfff-5rhkn -f list.yaml",
        "diff -f list.yaml",
    ]));
}

/// A dump has neither slices nor Endpoints.
#[test]
fn a_dump_of_cluster_info_tells_which_pods_would_be_published() {
    insta::assert_snapshot!(all(&[
        "lint -f dump",
        "lint -f dump --ignore EP012,EP019",
        "lint -f dump --ignore EP012,EP019 --strict",
        "explain web -f dump",
        "explain cart -f dump",
        "explain pod web-84b9bccfff-5rhkn -f dump",
        "diff -f dump",
    ]));
}

#[test]
fn a_must_gather_is_read_as_its_cluster() {
    insta::assert_snapshot!(all(&[
        "lint -f must-gather",
        "explain web -f must-gather",
        "doctor -f must-gather"
    ]));
}

/// Nobody knows the state of pods that do not exist yet.
#[test]
fn the_workloads_of_a_chart_count_as_the_pods_that_they_would_make() {
    let chart = read("chart.yaml");
    let healthy = told_of(&folder(), "lint -f -", &chart);
    assert!(healthy.ends_with("0 errors, 0 warnings in 7 Services.\nexit code 0\n"), "{healthy}");
    let broken =
        chart.replace("targetPort: http,", "targetPort: htpp,").replacen("{app: agent}", "{app: agnet}", 1);
    insta::assert_snapshot!(
        [
            healthy,
            told_of(&folder(), "lint -f -", &broken),
            told("explain web -f chart.yaml"),
            told("explain pod db-0 -f chart.yaml"),
            told("explain manual -f chart.yaml"),
        ]
        .join("\n")
    );
}

/// A kind that the files lack is never a fault, and hides none that does not depend on it.
#[test]
fn what_is_not_in_the_files_is_not_known() {
    let list: Value = serde_saphyr::from_str(&read("list.yaml")).unwrap();
    let without = |kinds: &[&str]| {
        let mut list = list.clone();
        list["items"].as_array_mut().unwrap().retain(|item| !kinds.contains(&item["kind"].as_str().unwrap()));
        list.to_string()
    };
    let mut kinds = vec!["EndpointSlice", "Endpoints", "Node", "Event", "Pod"];
    while !kinds.is_empty() {
        for lacking in [&kinds[..], &kinds[..1]] {
            let input = without(lacking);
            let linted = told_of(&folder(), "lint -o json -f -", &input);
            let has_pods = !lacking.contains(&"Pod");
            for (code, object) in [("EP012", "api"), ("EP101", "cart")] {
                let is_found = linted.contains(&format!("\"{code}\""));
                assert_eq!(is_found, has_pods, "{object} without {lacking:?}: {linted}");
            }
            // Slices show that no endpoint receives traffic.
            let is_down = has_pods || !lacking.contains(&"EndpointSlice");
            assert!(linted.ends_with(if is_down { "exit code 1\n" } else { "exit code 0\n" }), "{linted}");
            assert!(!linted.contains("may not"), "{linted}");
            let web = told_of(&folder(), "explain web -o json -f -", &input);
            assert!(!web.contains("\"DOWN\"") && !web.contains("may not"), "without {lacking:?}: {web}");
        }
        kinds.remove(0);
    }
}

/// A pod of a complete list that is not there does not exist.
#[test]
fn an_empty_list_is_known() {
    let of_service = r#"{"kind": "ServiceList", "apiVersion": "v1", "items": [{"metadata": {"name": "web", "uid": "1"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}]}"#;
    let no_pods = r#"{"kind": "PodList", "apiVersion": "v1", "items": null}"#;
    let linted = |input: &str| told_of(&folder(), "lint -f -", input);
    let known = linted(&format!("{of_service}\n{no_pods}"));
    assert!(known.contains("error     EP030  default/web"), "{known}");
    let not_known = linted(of_service);
    assert!(
        not_known.contains("Not in the files: pods.") && not_known.ends_with("exit code 0\n"),
        "{not_known}"
    );
}

/// The answer is that of a cluster with the same objects.
#[tokio::test(flavor = "multi_thread")]
async fn files_and_a_cluster_with_their_objects_give_one_answer() {
    let cluster = Shop::with([shop_objects()], Vec::new()).await;
    let file = fixture().display().to_string();
    for words in [&["lint", "--info"][..], &["explain", "frontend-typo"], &["explain", "nobody"], &["diff"]] {
        let of_cluster = cluster.run(words).await;
        let of_file = run_in(&folder(), &[words, &["-f", &file]].concat().join(" "), "");
        let lines = |output: &Output| crate::without_ages(&stdout(output));
        assert_eq!(lines(&of_file), lines(&of_cluster), "{words:?}");
        assert_eq!(of_file.status.code(), of_cluster.status.code(), "{words:?}");
    }
}

#[test]
fn ages_count_up_to_a_time() {
    let since = |words: &str| {
        let text = told(words);
        text.lines()
            .filter(|line| line.contains("cart-59d86cf465-c67nm  10") || line.contains("Ages"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    insta::assert_snapshot!(
        [since("explain cart -f list.yaml"), since("explain cart -f list.yaml --at 2026-11-29T08:30:00Z")].join("\n\n"),
        @"
    Ages count up to 2026-11-29T06:02:09Z, the newest time in the files; --at gives another one.
                cart-59d86cf465-c67nm  10.244.1.3  cart-m5pxf

                cart-59d86cf465-c67nm  10.244.1.3  2h27m  cart-m5pxf
    "
    );
}

#[test]
fn a_slice_that_is_not_as_the_controllers_would_write_it_is_a_difference() {
    let changed = read("list.yaml").replace("    - 10.244.1.5\n", "    - 10.244.1.9\n");
    insta::assert_snapshot!(told_of(&folder(), "diff -f -", &changed));
}

/// Returns a Service, and a workload whose pods it selects.
fn workload(kind: &str, label: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: web}}\nspec: {{selector: {{app: web}}, ports: [{{port: 80}}]}}\n---\n\
         apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: web}}\nspec:\n  selector: {{matchLabels: {{app: web}}}}\n  \
         template: {{metadata: {{labels: {{app: web, {label}}}}}, spec: {{containers: [{{name: web}}]}}}}\n"
    )
}

#[test]
fn workloads_of_one_name_have_pods_of_their_own() {
    let both = ["Deployment", "StatefulSet"].map(|kind| workload(kind, "tier: a")).join("---\n");
    let both = both.rsplitn(2, "---\napiVersion: v1\n").collect::<Vec<_>>();
    let service_and_one = both[1];
    let other = both[0].split_once("---\n").unwrap().1;
    let told = told_of(&folder(), "explain web -f -", &format!("{service_and_one}---\n{other}"));
    assert!(told.contains("web-0") && told.contains("web-deployment-0"), "{told}");
}

/// A maintenance that is planned has not happened.
#[test]
fn a_time_in_a_specification_is_not_the_present() {
    let planned = "---\napiVersion: example.com/v1\nkind: Window\nmetadata: {name: a}\nspec: {startTime: '2031-01-01T00:00:00Z'}\n";
    let told = told_of(&folder(), "explain cart -f -", &format!("{}{planned}", read("list.yaml")));
    assert!(told.contains("Ages count up to 2026-11-29T06:02:09Z"), "{told}");
}

#[test]
fn wrong_input_names_the_file_and_the_object() {
    let temporary = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = temporary.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n";
    write("good.yaml", service);
    write("cut/shop/pods.json", "{\"kind\": \"PodList\", \"apiVersion\": \"v1\", \"items\": [");
    write("mixed/service.yaml", service);
    write("mixed/alerts.json", "{\"status\": \"success\"}");
    write("refused.yaml", &format!("{service}---\n{}", service.replace("web", "api").replace("80", "70000")));
    write("view.yaml", &service.replace("{name: web}", "{name: web, uid: a}").replace("[{port: 80}]", "5"));
    write("empty/notes.txt", "nothing");
    write("values.yaml", "database: {password: hunter2}\n");
    write(
        "ports.yaml",
        &service.replace("{name: web}", "{name: web, uid: a}").replace("[{port: 80}]", "[80]"),
    );
    write("labels.yaml", &workload("Deployment", "version: 1.0"));
    let told = |words: &str| told_of(temporary.path(), words, "");
    insta::assert_snapshot!(
        [
            told("lint -f none.yaml"),
            told("lint -f cut"),
            told("lint -f mixed"),
            told("lint -f refused.yaml"),
            told("lint -f view.yaml"),
            told("lint -f good.yaml -f good.yaml"),
            told("lint -f empty"),
            told("lint -f values.yaml"),
            told("lint -f ports.yaml"),
            told("lint -f labels.yaml"),
            told("lint -f -"),
            told("explain wbe -f good.yaml"),
            told("explain web -f good.yaml --context other"),
            told("explain web -f good.yaml --at yesterday"),
            told("explain web --at 2026-11-29T08:30:00Z"),
            told("doctor -f good.yaml -n shop"),
        ]
        .join("\n")
    );
}

/// Only the slices that controllers write are missing.
#[test]
fn a_slice_that_somebody_wrote_is_read_without_those_of_controllers() {
    const SLICE: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [192.0.2.7], conditions: {ready: true}}]
ports: [{name: http, port: 8080, protocol: TCP}]
"#;
    const SELECTING: &str = r#"---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: shop}
spec: {selector: {app: api}, ports: [{port: 80}]}
"#;
    let with = format!("{SLICE}{SELECTING}");
    let told = |input: &str| told_of(&folder(), "explain web -f -", input);
    insta::assert_snapshot!([told(SLICE), told(&with)].join("\n"));
}

/// Names that nothing has, a template without the labels of its own selector, and pods in another
/// namespace. The right ones are silent.
#[test]
fn what_manifests_name_and_do_not_have_is_told() {
    const WRONG: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: api, namespace: shop}
spec: {selector: {app: api}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: other}
spec: {selector: {matchLabels: {app: api}}, template: {metadata: {labels: {app: api}}, spec: {containers: [{name: api}]}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: front, namespace: shop}
spec: {defaultBackend: {service: {name: apii, port: {number: 80}}}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, uid: a, resourceVersion: '1', generation: 1}
spec: {replicas: 2, selector: {matchLabels: {app: wbe}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web}]}}}
status: {observedGeneration: 1, readyReplicas: 2}
---
apiVersion: v1
kind: Service
metadata: {name: led, namespace: shop, annotations: {kube-endpoint-manager.github.io/endpoint-selector: laeder}}
spec: {ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: kube-endpoint-manager.github.io/v1alpha1
kind: EndpointSelector
metadata: {name: leader, namespace: shop}
spec: {selector: {matchLabels: {app: web}}, readiness: {lease: {name: web}}}
"#;
    let mut right = WRONG.to_owned();
    for (wrong, meant) in [
        ("namespace: other", "namespace: shop"),
        ("apii", "api"),
        ("app: wbe", "app: web"),
        ("laeder", "leader"),
    ] {
        right = right.replace(wrong, meant);
    }
    let told = |words: &str, input: &str| told_of(&folder(), words, input);
    insta::assert_snapshot!(
        [
            told("lint --info -f -", WRONG),
            told("explain api -n shop -f -", WRONG),
            told("explain deployment/web -f -", WRONG),
            told("lint --info -f -", &right)
        ]
        .join("\n")
    );
}
