//! Tests the Helm chart in `deploy/chart`. Snapshots keep what Helm renders, so that most tests
//! need no Helm: the objects are those of the kustomizations, and the snapshots are those of the
//! chart's files. Where Helm's renderer is installed, it makes the snapshots again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{read, read_dir, read_to_string};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Parser;
use kube_endpoint_controllers::{Options, Settings};
use kube_endpoint_integration_tests::leader_examples;
use serde_json::{Value, json};

use crate::deploy::manifests::{ADDONS, CRDS, KUSTOMIZATIONS, documents, only, rendered, root};
use crate::deploy::objects::check;

/// Renders a list of values, each in the namespace of its mode unless it names one.
const SCRIPT: &str = r#"
import json, sys
import helm_python as helm

def render(request):
    try:
        name = request["name"]
        return {"Ok": chart.render(request["values"], name=name, namespace=request["namespace"])}
    except helm.HelmError as error:
        return {"Err": str(error)}

faults = helm.lint(sys.argv[1], {"image": {"repository": "a"}}, strict=True, namespace="kube-system")["errors"]
assert not faults, faults
chart = helm.Chart.load(sys.argv[1])
json.dump([render(request) for request in json.load(sys.stdin)], sys.stdout)
"#;

/// The image of the kustomizations, which no registry has.
pub(crate) const IMAGE: &str = "set-an-image.invalid/kube-endpoint-manager";

/// The output of each template, by its path in the chart.
type Output = BTreeMap<String, String>;

/// The values of the snapshots, with their names. Without another one they have the image of the
/// kustomizations.
fn sets() -> [(&'static str, Value); 10] {
    let mut sets = sets_without_image();
    for (_, values) in &mut sets {
        let repository = &mut values["image"]["repository"];
        if repository.is_null() {
            *repository = IMAGE.into();
        }
    }
    sets
}

fn sets_without_image() -> [(&'static str, Value); 10] {
    let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
    let other = json!({
        "replicas": 1,
        "image": {"repository": "registry.example.com/endpoints", "tag": "1.2.3", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "apiServer": {"host": "api.example.com", "port": 443},
        "extraArgs": ["--compatibility=upstream", "--v=2"],
        "resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": null}},
        "affinity": {},
        "tolerations": [{"operator": "Exists"}],
        "monitoring": {"alerts": true, "labels": {"release": "prometheus"}},
    });
    [
        ("defaults", json!({})),
        ("k3s", json!({"apiServer": {"host": "127.0.0.1"}})),
        ("monitored", json!({"monitoring": {"serviceMonitor": true, "alerts": true, "dashboard": true}})),
        ("digest", json!({"image": {"digest": digest}})),
        ("addon_other", addon_other(&other)),
        ("other", other),
        ("addon", json!({"mode": "addon"})),
        ("not_reserved", json!({"reserveLease": false})),
        ("addon_namespaces", json!({"mode": "addon", "namespaces": ["shop"]})),
        (
            "addon_monitored",
            json!({"mode": "addon", "monitoring": {"serviceMonitor": true, "alerts": true, "dashboard": true}}),
        ),
    ]
}

/// The same values in mode `addon`, for two namespaces.
fn addon_other(other: &Value) -> Value {
    let mut values = other.clone();
    values["mode"] = json!("addon");
    values["namespaces"] = json!(["shop", "team-a"]);
    values
}

fn namespace(values: &Value) -> &'static str {
    if values["mode"] == "addon" { "kube-endpoint-manager" } else { "kube-system" }
}

fn chart(name: &str) -> PathBuf {
    root().join("deploy/chart").join(name)
}

/// Renders values in namespaces. An error is Helm's text.
fn render(requests: &[(Value, &str)]) -> Vec<Result<Output, String>> {
    render_release(&chart(""), "any", requests)
}

/// As [`render`], with a chart and the name of a release.
fn render_release(chart: &Path, name: &str, requests: &[(Value, &str)]) -> Vec<Result<Output, String>> {
    let requests: Vec<Value> = requests
        .iter()
        .map(|(values, namespace)| json!({"values": values, "name": name, "namespace": namespace}))
        .collect();
    let mut python = Command::new("python3");
    python.args(["-c", SCRIPT]).arg(chart);
    let mut python =
        python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    python.stdin.take().unwrap().write_all(json!(requests).to_string().as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn dashboard() -> String {
    let text = read_to_string(chart("files/components/dashboard/kube-endpoint-manager.json")).unwrap();
    text.lines().map(|line| format!("    {line}\n")).collect()
}

/// Stands for the dashboard in snapshots.
const DASHBOARD: &str = "    (files/components/dashboard/kube-endpoint-manager.json)\n";

/// Returns the text that a snapshot keeps of an output.
fn text(output: &Output) -> String {
    let part = |(path, text): (&String, &String)| format!("# Source: {path}\n{}\n\n", text.trim());
    output.iter().map(part).collect::<String>().replace(&dashboard(), DASHBOARD)
}

/// Returns the text of a snapshot.
fn snapshot(name: &str) -> String {
    let folder = root().join("integration-tests/tests/programs/deploy/snapshots");
    let file = read_to_string(folder.join(format!("programs__deploy__chart__{name}.snap"))).unwrap();
    file.splitn(3, "---\n").nth(2).unwrap().replace(DASHBOARD, &dashboard())
}

/// Returns the recorded output for a set of values. Its snapshot has what differs from the
/// defaults.
fn recorded(name: &str) -> Output {
    let texts = ["defaults", name].map(snapshot);
    let parts = texts.iter().flat_map(|text| text.split("# Source: ").skip(1));
    parts.map(|part| part.split_once('\n').unwrap()).map(|(path, text)| (path.into(), text.into())).collect()
}

fn objects(output: &Output) -> Vec<Value> {
    let manifests = output.iter().filter(|(path, _)| path.ends_with(".yaml"));
    manifests.flat_map(|(_, text)| documents(text)).filter(|object| !object.is_null()).collect()
}

/// Returns a hash of the chart's files (FNV-1a), the first line of the snapshot of the defaults.
fn files() -> String {
    let (mut folders, mut paths) = (vec![chart("")], Vec::new());
    while let Some(folder) = folders.pop() {
        let entries = read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let (below, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
        folders.extend(below);
        paths.extend(files);
    }
    let paths = paths.into_iter().filter(|path| path.file_name().is_some_and(|it| it != "README.md"));
    let files: BTreeMap<PathBuf, Vec<u8>> = paths.map(|path| (path.clone(), read(path).unwrap())).collect();
    assert!(files.len() > 10, "{files:?}");
    let root = chart("");
    let names = files.iter().map(|(path, bytes)| (path.strip_prefix(&root).unwrap(), bytes));
    let names = names.map(|(path, bytes)| (path.as_os_str().as_encoded_bytes(), bytes));
    let bytes = names.flat_map(|(name, bytes)| name.iter().chain(bytes));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("# Files: {hash:016x}\n")
}

pub(crate) fn the_output_is_as_recorded() {
    let requests = sets().map(|(_, values)| (values.clone(), namespace(&values)));
    let outputs: Vec<Output> = render(&requests).into_iter().map(Result::unwrap).collect();
    insta::assert_snapshot!("defaults", files() + &text(&outputs[0]));
    for ((name, _), mut output) in sets().into_iter().zip(outputs.clone()).skip(1) {
        output.retain(|path, text| outputs[0].get(path) != Some(text));
        insta::assert_snapshot!(name, text(&output));
    }
}

pub(crate) fn the_record_is_of_these_files() {
    assert!(
        snapshot("defaults").starts_with(&files()),
        "the chart changed: install Helm's renderer (integration-tests/helm.txt), and render it again with \
         INSTA_UPDATE=always cargo test -p kube-endpoint-integration-tests --test programs chart"
    );
}

/// The test of the example renders it without Helm.
pub(crate) fn the_example_is_what_its_test_reads() {
    let (name, namespace) = leader_examples::RELEASE;
    let mut rendered = render_release(&leader_examples::path("chart", ""), name, &[(json!({}), namespace)]);
    let rendered = rendered.remove(0).unwrap();
    let objects: Vec<Value> = rendered.values().flat_map(|text| documents(text)).collect();
    assert_eq!(objects, leader_examples::manifests("chart"));
}

/// This includes labels and namespaces. Helm makes the namespace of a release.
pub(crate) fn the_objects_are_those_of_the_kustomizations() {
    let by_name = |objects: Vec<Value>| {
        let key = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
        let count = objects.len();
        let map: BTreeMap<String, Value> = objects.into_iter().map(|object| (key(&object), object)).collect();
        assert_eq!(map.len(), count, "two objects have one name");
        map
    };
    for (name, kustomization) in [
        ("defaults", "deploy/base"),
        ("k3s", "deploy/overlays/k3s"),
        ("monitored", "deploy/overlays/monitored"),
        ("addon", "deploy/overlays/addon"),
        ("addon_namespaces", "deploy/overlays/addon-namespaces"),
        ("addon_monitored", "deploy/overlays/addon-monitored"),
    ] {
        let (chart, mut kustomization) =
            (by_name(objects(&recorded(name))), by_name(rendered(kustomization)));
        if name.starts_with("addon") {
            assert!(kustomization.remove(r#""Namespace" "kube-endpoint-manager""#).is_some());
        }
        assert!(kustomization.len() > 8);
        assert_eq!(chart.keys().collect::<Vec<_>>(), kustomization.keys().collect::<Vec<_>>(), "{name}");
        for (key, object) in &kustomization {
            assert_eq!(&chart[key], object, "{name}: {key}");
        }
    }
}

/// To delete the definition deletes all EndpointSelectors. Helm keeps what is in `crds/`.
pub(crate) fn the_definition_is_no_part_of_the_add_on() {
    let is_definition = |object: &Value| object["kind"] == "CustomResourceDefinition";
    for kustomization in KUSTOMIZATIONS.iter().chain(&ADDONS) {
        assert!(!rendered(kustomization).iter().any(is_definition), "{kustomization}");
    }
    let text = read_to_string(chart("crds/endpointselectors.yaml")).unwrap();
    assert_eq!(rendered(CRDS), documents(&text));
    assert!(rendered(CRDS).iter().all(is_definition));
    assert!(!objects(&recorded("addon")).iter().any(is_definition));
}

pub(crate) fn the_objects_are_valid_with_other_values() {
    for name in ["other", "addon_other", "digest"] {
        let objects = objects(&recorded(name));
        for object in &objects {
            check(object).unwrap_or_else(|error| panic!("{name}: {} {error}", object["kind"]));
        }
        let pod = &only(&objects, "Deployment", "")["spec"]["template"]["spec"];
        let arguments =
            pod["containers"][0]["args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap());
        let options =
            Options::try_parse_from(["kube-endpoint-manager"].into_iter().chain(arguments)).unwrap();
        Settings::try_from(&options).unwrap();
    }
}

/// Without the value, at least one of the sets gives other objects.
pub(crate) fn each_value_changes_the_output() {
    let rows = rows();
    // Without the mode the other values of the add-on are refused, and so is the default image.
    let paths = rows.iter().map(|row| row.split('`').nth(1).unwrap());
    let paths: Vec<&str> = paths.filter(|path| !["mode", "image.repository"].contains(path)).collect();
    let without = |path: &str| {
        let pointer = format!("/{}", path.replace('.', "/"));
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let sets = sets().map(|(_, mut values)| {
            let parent = values.pointer_mut(parent).and_then(Value::as_object_mut);
            parent.map(|parent| parent.remove(name));
            let namespace = namespace(&values);
            (values, namespace)
        });
        sets.to_vec()
    };
    let requests: Vec<_> = [""].iter().chain(&paths).flat_map(|path| without(path)).collect();
    let outputs = render(&requests);
    let objects: Vec<_> = outputs.iter().map(|output| objects(output.as_ref().unwrap())).collect();
    let (complete, without) = objects.split_at(sets().len());
    let modes: BTreeSet<_> =
        complete.iter().map(|objects| only(objects, "Deployment", "").to_string()).collect();
    assert!(modes.len() > 5, "the modes and values make {} Deployments", modes.len());
    for (path, without) in paths.iter().zip(without.chunks(complete.len())) {
        assert_ne!(without, complete, "{path} has no effect");
    }
}

pub(crate) fn wrong_values_and_other_namespaces_are_refused() {
    let image = || json!({"image": {"repository": IMAGE}});
    let wrong = [
        json!({}),
        json!({"mode": "addon"}),
        json!({"replica": 1}),
        json!({"mode": "beside"}),
        json!({"replicas": "3"}),
        json!({"namespaces": ["shop"], "image": {"repository": IMAGE}}),
        json!({"reserveLease": "no"}),
        json!({"mode": "addon", "namespaces": ["Shop"]}),
        json!({"image": {"name": "a"}}),
        json!({"image": {"digest": "sha256:1"}}),
        json!({"imagePullSecrets": ["registry"]}),
        json!({"apiServer": {"port": 0}}),
        json!({"extraArgs": {"v": 2}}),
        json!({"extraArgs": ["v=2"]}),
        json!({"resources": {"limit": {}}}),
        json!({"resources": {"limits": {"pods": 1}}}),
        json!({"affinity": {"nodeAffinty": {}}}),
        json!({"tolerations": [{"operator": "Exist"}]}),
        json!({"monitoring": {"alerts": "yes"}}),
        json!({"monitoring": {"labels": {"a": 1}}}),
    ];
    let requests: Vec<_> =
        wrong.into_iter().map(|values| (values, "kube-system")).chain([(image(), "other")]).collect();
    let mut refusals = String::new();
    for ((values, _), output) in requests.iter().zip(render(&requests)) {
        let error = output.expect_err(&values.to_string());
        refusals += &format!("{values}\n    {}\n", error.trim().lines().last().unwrap());
    }
    insta::assert_snapshot!(refusals);
}

/// Every object of values is closed, but those that are Kubernetes' own, and `global`.
pub(crate) fn the_schema_leaves_no_object_open() {
    fn open(path: &str, schema: &Value, found: &mut BTreeSet<String>) {
        let is_object = |kind: &Value| kind == "object" || kind == &json!(["object", "null"]);
        if is_object(&schema["type"]) && schema["additionalProperties"].is_null() {
            found.insert(path.to_owned());
        }
        for (name, schema) in schema.as_object().into_iter().flatten() {
            open(&format!("{path}/{name}"), schema, found);
        }
    }
    let schema = read_to_string(chart("values.schema.json")).unwrap();
    let mut found = BTreeSet::new();
    open("", &serde_json::from_str(&schema).unwrap(), &mut found);
    let own = ["nodeAffinity", "podAffinity", "podAntiAffinity"];
    let own = own.map(|name| format!("/properties/affinity/properties/{name}"));
    assert_eq!(found, own.into_iter().chain(["/properties/global".to_owned()]).collect());
}

/// Returns the rows of the table of values, one for each value with a comment.
fn rows() -> Vec<String> {
    let text = read_to_string(chart("values.yaml")).unwrap();
    let (mut rows, mut comment) = (Vec::new(), Vec::new());
    let mut parents: Vec<(usize, &str)> = Vec::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        if let Some(line) = line.trim_start().strip_prefix("# ") {
            comment.push(line);
            continue;
        }
        if let Some((key, value)) = line.split_once(':').filter(|(key, _)| !key.contains("- ")) {
            parents.retain(|(parent, _)| *parent < indent);
            parents.push((indent, key.trim()));
            if !comment.is_empty() {
                let path = parents.iter().map(|(_, key)| *key).collect::<Vec<_>>().join(".");
                let value = match value.trim() {
                    "" => "see [values.yaml](values.yaml)".to_owned(),
                    value => format!("`{value}`"),
                };
                rows.push(format!("| `{path}` | {value} | {} |", comment.join(" ")));
            }
        }
        comment.clear();
    }
    rows
}

pub(crate) fn the_readme_has_all_values() {
    let readme = read_to_string(chart("README.md")).unwrap();
    let table = readme.split("## Values").nth(1).unwrap().lines().filter(|line| line.starts_with('|'));
    let header = ["| value | default | meaning |", "|---|---|---|"].map(str::to_owned);
    let expected: Vec<String> = header.into_iter().chain(rows()).collect();
    let expected = expected.join("\n");
    assert!(table.collect::<Vec<_>>().join("\n") == expected, "the table is to be:\n{expected}");
    // Each value has a comment, or is a part of one with a comment.
    fn leaves(path: &str, value: &Value, found: &mut Vec<String>) {
        match value.as_object().filter(|object| !object.is_empty()) {
            Some(object) => {
                for (key, value) in object {
                    leaves(&format!("{path}.{key}"), value, found);
                }
            }
            None => found.push(path.trim_start_matches('.').to_owned()),
        }
    }
    let mut found = Vec::new();
    leaves("", &documents(&read_to_string(chart("values.yaml")).unwrap())[0], &mut found);
    let described: Vec<String> = rows().iter().map(|row| row.split('`').nth(1).unwrap().to_owned()).collect();
    for leaf in &found {
        let is_part = |row: &String| leaf == row || leaf.starts_with(&format!("{row}."));
        assert!(described.iter().any(is_part), "{leaf} has no comment");
    }
    assert!(found.len() > 15, "{found:?}");
}

pub(crate) fn the_metadata_is_the_workspaces() {
    let chart = &documents(&read_to_string(chart("Chart.yaml")).unwrap())[0];
    assert_eq!([&chart["version"], &chart["appVersion"]], [env!("CARGO_PKG_VERSION"); 2]);
    assert_eq!([&chart["home"], &chart["sources"][0]], [env!("CARGO_PKG_REPOSITORY"); 2]);
    assert_eq!(chart["annotations"]["artifacthub.io/license"], env!("CARGO_PKG_LICENSE"));
}
