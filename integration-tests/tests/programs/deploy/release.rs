//! Tests the files that `release/build` makes: the sums, the archives and their programs, the
//! image, and the chart and the kustomizations, which install that image. The gate makes them and
//! sets [`FOLDER`]; elsewhere the tests are ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{read, read_dir, read_to_string};
use std::path::{Path, PathBuf};
use std::process::Command;

use kube_endpoint_integration_tests::programs::{Missing, kubectl_program, kubectl_that_renders};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::deploy::manifests::{documents, only, root};

/// The variable that names the folder of the files.
const FOLDER: &str = "KUBE_ENDPOINT_RELEASE";

/// The archives, and the programs in them.
const PROGRAMS: [(&str, &str); 2] =
    [("kube-endpoint-manager", "kube-endpoint-manager"), ("kubectl-diagnose-svc", "kubectl-diagnose_svc")];

/// Checks for the files of a release.
pub(crate) fn files() -> Result<(), Missing> {
    kubectl_that_renders()?;
    let needed = || {
        let text =
            format!("{FOLDER} names no folder: run release/build, and set {FOLDER} to the folder's path");
        Missing::Optional(text)
    };
    std::env::var_os(FOLDER).filter(|folder| !folder.is_empty()).map(|_| ()).ok_or_else(needed)
}

/// Returns a file of the release.
fn file(name: &str) -> PathBuf {
    Path::new(&std::env::var_os(FOLDER).unwrap()).join(name)
}

/// Returns the name of a file for this machine.
fn here(program: &str, ending: &str) -> String {
    let architecture = if std::env::consts::ARCH == "x86_64" { "amd64" } else { "arm64" };
    format!("{program}-linux-{architecture}{ending}")
}

/// Returns what a program prints.
#[track_caller]
fn output(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str], folder: &Path) -> String {
    let output = Command::new(&program).args(arguments).current_dir(folder).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?} {arguments:?}: {errors}", program.as_ref());
    String::from_utf8(output.stdout).unwrap()
}

fn sha256(path: &Path) -> String {
    let text = output("sha256sum", &[path.to_str().unwrap()], Path::new("/"));
    text.split(' ').next().unwrap().to_owned()
}

/// Unpacks an archive of the release.
#[track_caller]
fn unpacked(name: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    output("tar", &["--extract", "--file", file(name).to_str().unwrap()], folder.path());
    folder
}

#[track_caller]
fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&read(path).unwrap()).unwrap()
}

/// Unpacks the image. Returns its index with its digest.
fn image() -> (TempDir, Value, String) {
    let folder = unpacked("kube-endpoint-manager-image.tar");
    let layout = read_json(&folder.path().join("index.json"));
    let digest = layout["manifests"][0]["digest"].as_str().unwrap().to_owned();
    let index = blob(folder.path(), &layout["manifests"][0]);
    (folder, index, digest)
}

fn blob_path(layout: &Path, descriptor: &Value) -> PathBuf {
    layout.join("blobs").join(descriptor["digest"].as_str().unwrap().replace(':', "/"))
}

/// Reads a blob of JSON, after a check of its size.
#[track_caller]
fn blob(layout: &Path, descriptor: &Value) -> Value {
    let path = blob_path(layout, descriptor);
    assert_eq!(descriptor["size"], path.metadata().unwrap().len());
    read_json(&path)
}

pub(crate) fn every_file_has_its_sum() {
    let all = read_dir(file("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let sums = read_to_string(file("SHA256SUMS")).unwrap();
    let listed: BTreeSet<&str> = sums.lines().map(|line| line.split_once("  ").unwrap().1).collect();
    let all: BTreeSet<String> = all.filter(|name| name != "SHA256SUMS").collect();
    assert!(all.len() > 8, "{all:?}");
    assert_eq!(listed, all.iter().map(String::as_str).collect());
    output("sha256sum", &["--check", "--strict", "--quiet", "SHA256SUMS"], &file(""));
}

pub(crate) fn the_archives_have_programs_that_run_pages_and_completions() {
    for (name, program) in PROGRAMS {
        let folder = unpacked(&here(name, ".tar.gz"));
        let at = |path: &str| folder.path().join(path);
        let version = output(at(program), &["--version"], folder.path());
        assert!(version.starts_with(&format!("{name} {}", env!("CARGO_PKG_VERSION"))), "{version}");
        assert!(read_to_string(at(&format!("man/{name}.1"))).unwrap().contains("\n.SH OPTIONS\n"));
        for script in [format!("{program}.bash"), format!("_{program}"), format!("{program}.fish")] {
            let script = read_to_string(at("completions").join(script)).unwrap();
            assert!(script.contains(program) && script.contains("kubeconfig"), "{script}");
        }
        assert_eq!(read(at("LICENSE")).unwrap(), read(root().join("LICENSE")).unwrap());
        // The program names the file with its symbols.
        let sections = output("readelf", &["--wide", "--sections", program], folder.path());
        for (section, is_there) in [(".symtab", false), (".gnu_debuglink", true), (".dep-v0", true)] {
            assert_eq!(sections.contains(section), is_there, "{section}: {sections}");
        }
        let symbols = unpacked(&here(name, "-debug.tar.gz"));
        let sections =
            output("readelf", &["--wide", "--sections", &format!("{program}.debug")], symbols.path());
        assert!(sections.contains(".symtab"), "{sections}");
    }
    // A subcommand has a page of its own, and kubectl a program that completes.
    let plugin = unpacked(&here("kubectl-diagnose-svc", ".tar.gz"));
    assert!(plugin.path().join("man/kubectl-diagnose-svc-explain.1").exists());
    assert!(plugin.path().join("completions/kubectl-diagnose_svc.ps1").exists());
    let complete = read_to_string(plugin.path().join("completions/kubectl_complete-diagnose_svc")).unwrap();
    assert!(complete.contains("__complete"), "{complete}");
}

pub(crate) fn archives_are_sorted_with_one_owner_and_the_time_of_the_commit() {
    let time =
        output("git", &["log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%d %H:%M:%S"], &root());
    for name in [here("kube-endpoint-manager", ".tar.gz"), "kube-endpoint-manager-image.tar".to_owned()] {
        let list = output(
            "tar",
            &["--list", "--verbose", "--full-time", "--file", file(&name).to_str().unwrap()],
            &root(),
        );
        let paths: Vec<&str> = list.lines().filter_map(|line| line.split(' ').next_back()).collect();
        assert!(paths.len() > 3 && paths.is_sorted(), "{list}");
        for line in list.lines() {
            assert!(line.contains(" 0/0 ") && line.contains(time.trim()), "{line}");
        }
    }
}

pub(crate) fn the_image_is_what_its_digests_say() {
    let (folder, index, _) = image();
    let layout = folder.path();
    assert_eq!(read_json(&layout.join("oci-layout")), json!({"imageLayoutVersion": "1.0.0"}));
    for entry in read_dir(layout.join("blobs/sha256")).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(path.file_name().unwrap(), &*sha256(&path));
    }
    for manifest in index["manifests"].as_array().unwrap() {
        assert_eq!(manifest["platform"]["os"], "linux");
        let architecture = manifest["platform"]["architecture"].as_str().unwrap();
        let manifest = blob(layout, manifest);
        let configuration = blob(layout, &manifest["config"]);
        assert_eq!(configuration["architecture"], architecture);
        let config = &configuration["config"];
        assert_eq!(config["User"], "65532:65532");
        assert_eq!(config["Entrypoint"], json!(["/kube-endpoint-manager"]));
        assert_eq!(config["ExposedPorts"], json!({"10270/tcp": {}}));
        assert_eq!(config["Labels"]["org.opencontainers.image.version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(config["Labels"], manifest["annotations"]);
        // The only layer has the program of the archive.
        assert_eq!(manifest["layers"].as_array().unwrap().len(), 1);
        let layer = blob_path(layout, &manifest["layers"][0]);
        let files = tempfile::tempdir().unwrap();
        output("tar", &["--extract", "--gzip", "--file", layer.to_str().unwrap()], files.path());
        let archive = unpacked(&format!("kube-endpoint-manager-linux-{architecture}.tar.gz"));
        let program = "kube-endpoint-manager";
        assert_eq!(sha256(&files.path().join(program)), sha256(&archive.path().join(program)));
        assert_eq!(read_dir(files.path()).unwrap().count(), 1);
        let plain = files.path().join("layer.tar");
        std::fs::copy(&layer, plain.with_extension("tar.gz")).unwrap();
        output("gzip", &["--decompress", "layer.tar.gz"], files.path());
        assert_eq!(configuration["rootfs"]["diff_ids"], json!([format!("sha256:{}", sha256(&plain))]));
    }
}

pub(crate) fn chart_and_kustomizations_install_the_image() {
    let (_, _, digest) = image();
    let name = "ghcr.io/kube-endpoint-manager/kube-endpoint-manager";
    let want = format!("{name}@{digest}");
    let version = env!("CARGO_PKG_VERSION");
    let folder = unpacked("kube-endpoint-manager-kustomize.tar.gz");
    let deploy = folder.path().join(format!("kube-endpoint-manager-{version}/deploy"));
    for (kustomization, kind) in [
        ("base", "Deployment"),
        ("overlays/k3s", "Deployment"),
        ("overlays/addon", "Deployment"),
        ("overlays/kubeadm/static-pod", "Pod"),
    ] {
        let objects = documents(&output(kubectl_program(), &["kustomize", kustomization], &deploy));
        let object = only(&objects, kind, "");
        let pod = if kind == "Pod" { &object["spec"] } else { &object["spec"]["template"]["spec"] };
        assert_eq!(pod["containers"][0]["image"], want, "{kustomization}");
    }

    let folder = unpacked(&format!("kube-endpoint-manager-{version}.tgz"));
    let chart = folder.path().join("kube-endpoint-manager");
    let read = |name: &str| read_to_string(chart.join(name)).unwrap();
    let values = &documents(&read("values.yaml"))[0];
    assert_eq!(values["image"]["repository"], name);
    assert_eq!(values["image"]["digest"], digest);
    let metadata = &documents(&read("Chart.yaml"))[0];
    assert_eq!([&metadata["version"], &metadata["appVersion"]], [version, version]);
    // The links of the chart are files.
    for (link, file) in [
        ("files/replace/roles.yaml", "base/roles.yaml"),
        ("crds/endpointselectors.yaml", "crds/endpointselectors.yaml"),
    ] {
        assert_eq!(read(link), read_to_string(root().join("deploy").join(file)).unwrap());
    }
    let is_link = output("find", &[".", "-type", "l"], &chart);
    assert_eq!(is_link, "");
}

pub(crate) fn the_krew_manifest_has_the_sums_of_the_archives() {
    let manifest = &documents(&read_to_string(file("diagnose-svc.yaml")).unwrap())[0];
    assert_eq!(manifest["spec"]["version"], format!("v{}", env!("CARGO_PKG_VERSION")));
    let platforms = manifest["spec"]["platforms"].as_array().unwrap();
    let of = |platform: &Value| {
        let name = platform["uri"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        (name, platform["sha256"].as_str().unwrap().to_owned())
    };
    let found: BTreeMap<String, String> = platforms.iter().map(of).collect();
    assert!(found.contains_key(&here("kubectl-diagnose-svc", ".tar.gz")), "{found:?}");
    for (name, sum) in found {
        assert_eq!(sum, sha256(&file(&name)), "{name}");
    }
}

pub(crate) fn the_bill_of_materials_lists_the_crates_of_the_program() {
    for (program, has, has_not) in [
        ("kube-endpoint-manager", "kube-endpoint-controllers", "kube-endpoint-embedded-apiserver"),
        ("kubectl-diagnose-svc", "indicatif", "kube-endpoint-controllers"),
    ] {
        let bill = read_json(&file(&here(program, ".cdx.json")));
        assert_eq!(bill["metadata"]["component"]["name"], program);
        assert_eq!(bill["serialNumber"], Value::Null, "cargo-cyclonedx draws one");
        let components = bill["components"].as_array().unwrap();
        let names: BTreeSet<&str> =
            components.iter().map(|component| component["name"].as_str().unwrap()).collect();
        assert!(
            names.contains(has) && names.contains("k8s-openapi") && !names.contains(has_not),
            "{names:?}"
        );
        // Macros and what only they need run in the compiler.
        let of_the_compiler: Vec<&&str> = names
            .iter()
            .filter(|name| ["syn", "quote", "proc-macro2", "serde_derive"].contains(name))
            .collect();
        assert!(of_the_compiler.is_empty(), "{of_the_compiler:?}");
        assert!(!bill.to_string().contains(root().canonicalize().unwrap().to_str().unwrap()));
    }
}
