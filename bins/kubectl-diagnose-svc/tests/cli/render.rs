//! Tests the output of `render` for right and wrong manifests of a person.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use serde_json::{Value, json};

use crate::server::{fixture, stderr, stdout};

const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  selector: {app: web}\n  ports: [{port: 80}]\n";
const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web-1, labels: {app: web}}\nspec:\n  nodeName: node-a\n  containers: [{name: web, image: web:1, ports: [{name: http, containerPort: 8080}]}]\n\
                   status: {podIP: 10.0.0.1, conditions: [{type: Ready, status: \"True\"}]}\n";

/// Runs `render` in a folder, with a text on standard input.
fn render(folder: &Path, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-diagnose_svc"));
    command.arg("render").args(arguments).current_dir(folder).env_remove("COLUMNS");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that fails early does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// Renders standard input. Returns the exit code and the whole output.
fn told(input: &str) -> String {
    let output = render(Path::new("."), &["-f", "-"], input.as_bytes());
    format!("{}{}exit code {}\n", stdout(&output), stderr(&output), output.status.code().unwrap())
}

#[test]
fn files_are_rendered_without_a_cluster() {
    let output = render(Path::new("."), &["-o", "yaml", "-f", fixture().to_str().unwrap()], b"");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let list: Value = serde_saphyr::from_str(&stdout(&output)).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 17);
    assert!(stderr(&output).contains(": skipped, because nothing is rendered from them: Namespace of v1\n"));
}

#[test]
fn what_is_rendered_and_what_is_assumed() {
    let two = format!("{SERVICE}---\n{POD}");
    insta::assert_snapshot!(told(&two), @"
        NAMESPACE  SERVICE  KIND           TYPE  PORTS   ENDPOINTS  READY
        default    web      EndpointSlice  IPv4  80/TCP  1          1
        default    web      Endpoints                    1          1
        The node node-a was not read; it is taken to be ready and to have no zone.
        exit code 0
        ");
    assert_eq!(told(&format!("\u{feff}{}", two.replace('\n', "\r\n"))), told(&two));
    let json = serde_json::from_str::<Value>(
        &String::from_utf8(render(Path::new("."), &["-o", "json", "-f", "-"], two.as_bytes()).stdout)
            .unwrap(),
    );
    assert_eq!(json.unwrap()["items"][0]["endpoints"][0]["addresses"], json!(["10.0.0.1"]));
    // A new pod has no address.
    let new = POD.split("status:").next().unwrap();
    insta::assert_snapshot!(told(&format!("{SERVICE}---\n{new}")), @"
        NAMESPACE  SERVICE  KIND           TYPE  ENDPOINTS  READY
        default    web      EndpointSlice  IPv4  0          0
        default    web      Endpoints            0          0
        default/web: pod web-1 is left out: the pod has no IP address yet.
        The node node-a was not read; it is taken to be ready and to have no zone.
        The pod default/web-1 has no address, as before it runs: write status.podIPs and the condition Ready into the manifest, or render what `kubectl get pods -o yaml` prints.
        exit code 0
        ");
}

/// A pod whose scheduler has not run has an empty name of a node.
#[test]
fn a_pod_without_a_node() {
    let without = POD.replace("  nodeName: node-a\n", "");
    insta::assert_snapshot!(told(&format!("{SERVICE}---\n{without}")), @"
        NAMESPACE  SERVICE  KIND           TYPE  ENDPOINTS  READY
        default    web      EndpointSlice  IPv4  0          0
        default    web      Endpoints            1          1
        default/web: pod web-1 is left out: the pod has no node (spec.nodeName).
        exit code 0
        ");
}

#[test]
fn services_for_which_nothing_is_written() {
    let with = |spec: &str| told(&SERVICE.replace("selector: {app: web}", spec));
    insta::assert_snapshot!(
        [
            with("selector: {app: web}"),
            with("selector: {}"),
            with("sessionAffinity: None"),
            with("type: ExternalName\n  externalName: example.com"),
            told("apiVersion: v1\nkind: Endpoints\nmetadata: {name: lost}\nsubsets: [{addresses: [{ip: 10.0.0.1}]}]\n"),
        ]
        .join("\n"),
        @"
        NAMESPACE  SERVICE  KIND           TYPE  ENDPOINTS  READY
        default    web      EndpointSlice  IPv4  0          0
        default    web      Endpoints            0          0
        default/web: no pod that was read has the labels app=web, so there are no endpoints.
        exit code 0

        default/web: nothing is written, because it has no selector, and there are no Endpoints of this name that could be mirrored.
        exit code 0

        default/web: nothing is written, because it has no selector, and there are no Endpoints of this name that could be mirrored.
        exit code 0

        default/web: nothing is written, because it is an ExternalName.
        exit code 0

        default/lost: its Endpoints are not mirrored, because there is no Service of this name.
        exit code 0
        "
    );
}

#[test]
fn input_of_which_nothing_is_rendered() {
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n";
    insta::assert_snapshot!(
        [
            told(""),
            told("# nothing\n---\n"),
            told("apiVersion: v1\nkind: List\nitems: []\n"),
            told(&format!("{deployment}---\n{POD}---\n{}", SERVICE.replace("Service", "Servcie"))),
            told("kind: Service\nmetadata: {name: web}\n"),
            told("apiVersion: v1\nmetadata: {name: web}\n"),
            told("apiVersion: v1\nkind: Service\nspec: {}\n"),
            told("apiVersion: v1\nkind: List\n"),
            told("just words"),
            told("{\"kind\": "),
            told(&SERVICE.replace("name: web", "name: {{ .Values.name }}")),
            told("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n"),
            told(&format!("{SERVICE}---\n{SERVICE}")),
        ]
        .join("\n"),
        @r#"
        error: nothing was read that is an object; give manifests, or what `kubectl get services,pods,nodes -o yaml` prints
        exit code 2

        error: nothing was read that is an object; give manifests, or what `kubectl get services,pods,nodes -o yaml` prints
        exit code 2

        error: nothing was read that is an object; give manifests, or what `kubectl get services,pods,nodes -o yaml` prints
        exit code 2

        standard input: skipped, because nothing is rendered from them: Deployment of apps/v1, Servcie of v1
        The node node-a was not read; it is taken to be ready and to have no zone.
        error: nothing is rendered, because no Service and no Endpoints of v1 were read, but: 1 Deployment of apps/v1, 1 Pod of v1, 1 Servcie of v1; give the manifest of the Service, too
        exit code 2

        error: standard input: this object lacks apiVersion; its fields are "kind", "metadata"
        exit code 2

        error: standard input: this object lacks kind; its fields are "apiVersion", "metadata"
        exit code 2

        error: standard input: The Service "" is invalid: 
        * metadata.name: Required value: name or generateName is required
        * spec.ports: Required value
        exit code 2

        error: standard input: a List needs items
        exit code 2

        error: standard input: this object lacks apiVersion and kind; it has no fields
        exit code 2

        error: standard input: line 1: this is not JSON: EOF while parsing a value
        exit code 2

        error: standard input: line 3: `{{` begins an action of a template; take what `helm template` prints
        exit code 2

        error: standard input: this is a file of Kustomize, not an object; take what `kubectl kustomize FOLDER` prints
        exit code 2

        error: standard input: services "web" already exists: the first is in standard input; leave one of them out
        exit code 2
        "#
    );
}

#[test]
fn what_a_server_refuses_is_refused_in_its_words() {
    let wrong = [
        SERVICE.replace("80", "70000"),
        SERVICE.replace("name: web", "name: Web_1").replace("port: 80", "port: 80, protocol: HTTP"),
        SERVICE.replace("name: web", "name: b").replace("ports", "prots"),
        SERVICE.replace("name: web", "name: c").replace("[{port: 80}]", "\"80\""),
        POD.replace("8080", "0"),
        POD.replace("web-1", "web-2").replace("10.0.0.1", "10.0.0.256"),
        SERVICE.replace("name: web", "name: good"),
    ]
    .join("---\n");
    let output = render(Path::new("."), &["-o", "yaml", "-f", "-"], wrong.as_bytes());
    assert_eq!((output.status.code(), stdout(&output)), (Some(2), String::new()));
    insta::assert_snapshot!(stderr(&output), @r#"
        error: standard input: The Service "web" is invalid: 
        * spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive
        * spec.ports[0].targetPort: Invalid value: 70000: must be between 1 and 65535, inclusive
        error: standard input: The Service "Web_1" is invalid: 
        * metadata.name: Invalid value: "Web_1": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
        * spec.ports[0].protocol: Unsupported value: "HTTP": supported values: "SCTP", "TCP", "UDP"
        error: standard input: Service in version "v1" cannot be handled as a Service: strict decoding error: unknown field "spec.prots"
        error: standard input: Service in version "v1" cannot be handled as a Service: json: cannot unmarshal string into Go struct field ServiceSpec.spec.ports of type []v1.ServicePort
        error: standard input: The Pod "web-1" is invalid: spec.containers[0].ports[0].containerPort: Required value
        error: standard input: The Pod "web-2" is invalid: status.podIPs[0]: Invalid value: "10.0.0.256": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
        "#);
}

/// `answers.json` holds the answers of kube-apiserver 1.36 to `kubectl create`, without kubectl's
/// own words before them.
#[test]
fn answers_equal_those_of_a_real_server() {
    let answers: Vec<Value> = serde_json::from_str(include_str!("answers.json")).unwrap();
    let mut differing = Vec::new();
    let mut refused = 0;
    for answer in &answers {
        let of = |field: &str| answer[field].as_str().unwrap_or_default();
        let output = render(Path::new("."), &["-f", "-"], of("manifest").as_bytes());
        let said = stderr(&output);
        let ours = said.split_once("error: standard input: ").map(|(_, ours)| ours.trim_end());
        refused += usize::from(ours.is_some());
        if ours.unwrap_or_default() != of("refused") {
            differing.push(format!("{}:\n{}\n{}\n", of("case"), of("refused"), ours.unwrap_or("taken")));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    assert_eq!((refused, answers.len()), (51, 57));
}

#[test]
fn files_folders_and_namespaces() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(path("shop/more")).unwrap();
    std::fs::create_dir_all(path("empty")).unwrap();
    std::fs::write(path("shop/a.yaml"), SERVICE).unwrap();
    std::fs::write(path("shop/b.json"), serde_saphyr::from_str::<Value>(POD).unwrap().to_string()).unwrap();
    std::fs::write(path("shop/notes.txt"), "no manifest").unwrap();
    std::fs::write(path("shop/more/c.yaml"), "broken: [").unwrap();
    std::fs::write(path("latin1.yaml"), b"kind: caf\xe9").unwrap();
    std::fs::write(path("other.yaml"), SERVICE.replace("name: web", "name: web, namespace: other")).unwrap();
    let told = |arguments: &str| {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let output = render(folder.path(), &arguments, b"");
        let code = output.status.code().unwrap();
        format!("$ render {}\n{}{}exit code {code}\n", arguments.join(" "), stdout(&output), stderr(&output))
    };
    insta::assert_snapshot!(
        [
            told("-f shop"),
            told("-f shop/a.yaml -n prod"),
            told("-f shop/a.yaml other.yaml -n prod"),
            told("-f shop shop/a.yaml"),
            told("-f empty"),
            told("-f latin1.yaml"),
            told("-f none.yaml"),
            told("-f https://example.com/a.yaml"),
            told("-f shop -o sarif"),
        ]
        .join("\n"),
        @r#"
        $ render -f shop
        NAMESPACE  SERVICE  KIND           TYPE  PORTS   ENDPOINTS  READY
        default    web      EndpointSlice  IPv4  80/TCP  1          1
        default    web      Endpoints                    1          1
        The node node-a was not read; it is taken to be ready and to have no zone.
        exit code 0

        $ render -f shop/a.yaml -n prod
        NAMESPACE  SERVICE  KIND           TYPE  ENDPOINTS  READY
        prod       web      EndpointSlice  IPv4  0          0
        prod       web      Endpoints            0          0
        prod/web: no pod that was read has the labels app=web, so there are no endpoints.
        exit code 0

        $ render -f shop/a.yaml other.yaml -n prod
        error: other.yaml: the namespace from the provided object "other" does not match the namespace "prod". You must pass '--namespace=other' to perform this operation.
        exit code 2

        $ render -f shop shop/a.yaml
        The node node-a was not read; it is taken to be ready and to have no zone.
        error: shop/a.yaml: services "web" already exists: the first is in shop/a.yaml; leave one of them out
        exit code 2

        $ render -f empty
        error: empty: no file of this folder ends in .json, .yaml or .yml; folders in it are not read
        exit code 2

        $ render -f latin1.yaml
        error: latin1.yaml: this is not text in UTF-8, nor in UTF-16 with its mark at the start
        exit code 2

        $ render -f none.yaml
        error: none.yaml: No such file or directory (os error 2)
        exit code 2

        $ render -f https://example.com/a.yaml
        error: https://example.com/a.yaml is no file; `curl -fL https://example.com/a.yaml | kubectl diagnose-svc render -f -` renders what is there
        exit code 2

        $ render -f shop -o sarif
        error: only lint prints SARIF; choose table, wide, json or yaml
        exit code 2
        "#
    );
}

/// The output quotes control characters by the rules of YAML and JSON, and escapes marks of
/// direction.
#[test]
fn hostile_strings_round_trip_and_reach_no_terminal() {
    let hostile = [
        "\u{1b}[2J",
        "\u{9b}31m",
        "a\u{202e}b",
        "\u{200b}",
        "two\nlines\t\u{7f}",
        "\u{e0041}",
        "yes",
        "1e3",
        "\u{2028}",
    ];
    let annotations: Value = hostile
        .iter()
        .enumerate()
        .map(|(at, text)| (format!("a-{at}"), json!(text)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    // The mirroring controller copies annotations.
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db"}, "spec": {"ports": [{"port": 1}]}});
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "db", "annotations": annotations},
        "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}]}]});
    let input = json!({"apiVersion": "v1", "kind": "List", "items": [service, endpoints]}).to_string();
    for format in ["yaml", "json"] {
        let output = render(Path::new("."), &["-o", format, "-f", "-"], input.as_bytes());
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(text.chars().all(|c| c == '\n' || kube_endpoint_core_model::is_harmless(c)), "{text:?}");
        let list: Value = serde_saphyr::from_str(&text).unwrap();
        let written = &list["items"][0]["metadata"]["annotations"];
        for (key, value) in annotations.as_object().unwrap() {
            assert_eq!(&written[key], value, "{format}: {text}");
        }
    }
}

/// A server accepts every rendered object once the inputs exist: it makes names, and owners have
/// uids.
#[tokio::test]
async fn a_server_accepts_what_is_rendered() {
    let alias = "apiVersion: v1\nkind: Service\nmetadata: {name: alias}\nspec: {type: ExternalName, externalName: example.com}\n";
    let headless =
        SERVICE.replace("name: web", "name: peers").replace("selector", "clusterIP: None\n  selector");
    let dual = SERVICE
        .replace("name: web", "name: dual")
        .replace("selector", "ipFamilyPolicy: PreferDualStack\n  selector");
    let named = SERVICE
        .replace("name: web", "name: named")
        .replace("port: 80", "name: a, port: 80, targetPort: http, appProtocol: kubernetes.io/h2c");
    let mirrored =
        SERVICE.replace("name: web", "name: db").replace("selector: {app: web}", "type: ClusterIP");
    let endpoints = "apiVersion: v1\nkind: Endpoints\nmetadata: {name: db}\nsubsets: [{addresses: [{ip: 192.0.2.1}, {ip: \"2001:db8::9\"}], notReadyAddresses: [{ip: 192.0.2.2}], ports: [{port: 80}]}]\n";
    let both = POD
        .replace("podIP: 10.0.0.1", "podIPs: [{ip: 10.0.0.2}, {ip: \"fd00::2\"}]")
        .replace("web-1", "web-2");
    let text = [SERVICE, POD, alias, &headless, &dual, &named, &mirrored, endpoints, &both].join("---\n");
    let server = EmbeddedApiServer::builder().without_garbage_collector().build().unwrap();
    for document in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
        // The test creates the Endpoints that controllers write below.
        server.create(document).await.unwrap();
    }
    // With uids the rendered slices have owners.
    let mut stored = Vec::new();
    for (plural, kind) in [("services", "Service"), ("pods", "Pod"), ("endpoints", "Endpoints")] {
        stored.extend(server.list(plural).into_iter().map(|mut object| {
            object["kind"] = kind.into();
            object["apiVersion"] = "v1".into();
            object
        }));
    }
    let stored = json!({"apiVersion": "v1", "kind": "List", "items": stored}).to_string();
    let mut created = Vec::new();
    for input in [text, stored] {
        let output = render(Path::new("."), &["-o", "yaml", "-f", "-"], input.as_bytes());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let list: Value = serde_saphyr::from_str(&stdout(&output)).unwrap();
        let server = EmbeddedApiServer::builder().without_garbage_collector().build().unwrap();
        let mut owned = 0;
        for mut item in list["items"].as_array().unwrap().clone() {
            if let Some(prefix) = item["metadata"]["generateName"].as_str() {
                item["metadata"]["name"] = format!("{prefix}{}", created.len()).into();
            }
            owned += item["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len);
            let stored = server.create(item.clone()).await.unwrap_or_else(|why| panic!("{why}: {item:#}"));
            created.push(stored["kind"].as_str().unwrap_or_default().to_owned());
        }
        created.push(format!("{owned} owners"));
    }
    insta::assert_snapshot!(created.join(" "), @"EndpointSlice EndpointSlice EndpointSlice EndpointSlice Endpoints EndpointSlice Endpoints EndpointSlice Endpoints EndpointSlice Endpoints 0 owners EndpointSlice EndpointSlice EndpointSlice EndpointSlice Endpoints EndpointSlice Endpoints EndpointSlice Endpoints EndpointSlice Endpoints 7 owners");
}
