//! Tests that the krew manifest, filled in as for a release, keeps to the rules of krew's
//! `validate-krew-manifest` and of its index: `internal/index/validation` and
//! `cmd/validate-krew-manifest` of kubernetes-sigs/krew.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

const TAG: &str = "v0.1.0";

/// Names of files that Windows reserves.
const RESERVED: [&str; 22] = [
    "CON", "PRN", "AUX", "NUL", "COM1", "COM2", "COM3", "COM4", "COM5", "COM6", "COM7", "COM8", "COM9",
    "LPT1", "LPT2", "LPT3", "LPT4", "LPT5", "LPT6", "LPT7", "LPT8", "LPT9",
];

/// The platforms on which krew installs.
const PLATFORMS: [(&str, &str); 11] = [
    ("windows", "386"),
    ("windows", "amd64"),
    ("windows", "arm64"),
    ("linux", "386"),
    ("linux", "amd64"),
    ("linux", "arm"),
    ("linux", "arm64"),
    ("linux", "ppc64le"),
    ("darwin", "386"),
    ("darwin", "amd64"),
    ("darwin", "arm64"),
];

fn template() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.krew.yaml")).unwrap()
}

/// Fills in the template as krew-release-bot does.
fn filled_in(template: &str) -> Value {
    let line = |line: &str| match line.split_once("{{addURIAndSha \"") {
        Some((indent, rest)) => {
            let uri = rest.split('"').next().unwrap().replace("{{ .TagName }}", TAG);
            assert!(rest.ends_with("\" .TagName }}"), "{line}");
            format!("{indent}uri: {uri}\n{indent}sha256: {}\n", "0123456789abcdef".repeat(4))
        }
        None => format!("{}\n", line.replace("{{ .TagName }}", TAG)),
    };
    let text: String = template.lines().map(line).collect();
    assert!(!text.contains("{{"), "{text}");
    serde_saphyr::from_str(&text).unwrap()
}

/// Returns the first rule that a manifest breaks.
fn broken_rule(manifest: &Value) -> Option<String> {
    rules(manifest).err()
}

fn ensure(holds: bool, rule: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(rule.into()) }
}

fn only(object: &Value, allowed: &[&str]) -> Result<(), String> {
    let object = object.as_object().ok_or("an object is expected")?;
    match object.keys().find(|key| !allowed.contains(&key.as_str())) {
        Some(key) => Err(format!("unknown field {key:?}")),
        None => Ok(()),
    }
}

fn rules(manifest: &Value) -> Result<(), String> {
    only(manifest, &["apiVersion", "kind", "metadata", "spec"])?;
    ensure(manifest["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2", "apiVersion")?;
    ensure(manifest["kind"] == "Plugin", "kind")?;
    let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    ensure(!name.is_empty() && name.chars().all(is_safe), "name")?;
    ensure(!RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(name)), "reserved name")?;
    let spec = &manifest["spec"];
    only(spec, &["version", "homepage", "shortDescription", "description", "caveats", "platforms"])?;
    let version = spec["version"].as_str().and_then(|version| version.strip_prefix('v')).unwrap_or_default();
    let numbers: Vec<&str> = version.split('-').next().unwrap_or_default().split('.').collect();
    let is_number = |text: &&str| text.parse::<u32>().is_ok_and(|number| number.to_string() == **text);
    ensure(numbers.len() == 3 && numbers.iter().all(is_number), "version: v and a semantic version")?;
    let short = spec["shortDescription"].as_str().unwrap_or_default();
    ensure(!short.is_empty() && !short.contains(['\r', '\n']), "shortDescription: one line")?;
    for (field, longest) in [("shortDescription", 70), ("description", 80), ("caveats", 80)] {
        // A line of a single word may be longer.
        let is_short = |line: &str| line.len() <= longest || !line.trim().contains(' ');
        ensure(
            spec[field].as_str().unwrap_or_default().lines().all(is_short),
            format!("{field}: long lines"),
        )?;
    }
    let platforms = spec["platforms"].as_array().filter(|list| !list.is_empty()).ok_or("platforms")?;
    let mut taken: BTreeSet<(&str, &str)> = BTreeSet::new();
    for platform in platforms {
        only(platform, &["selector", "uri", "sha256", "bin", "files"])?;
        ensure(platform["uri"].as_str().is_some_and(|uri| uri.starts_with("https://")), "uri")?;
        let sha = platform["sha256"].as_str().unwrap_or_default();
        let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        ensure(sha.len() == 64 && sha.chars().all(is_digit), "sha256")?;
        ensure(platform["bin"].as_str().is_some_and(|bin| !bin.is_empty()), "bin")?;
        if !platform["files"].is_null() {
            let files = platform["files"].as_array().filter(|files| !files.is_empty());
            let is_set = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
            let files = files.ok_or("files: unspecified or not empty")?;
            ensure(
                files.iter().all(|file| is_set(&file["from"]) && is_set(&file["to"])),
                "files: from and to",
            )?;
        }
        only(&platform["selector"], &["matchLabels"])?;
        let labels = &platform["selector"]["matchLabels"];
        only(labels, &["os", "arch"])?;
        let matches = |(os, arch): &&(&str, &str)| {
            (labels["os"].is_null() || labels["os"] == *os)
                && (labels["arch"].is_null() || labels["arch"] == *arch)
        };
        let matching: Vec<_> = PLATFORMS.iter().filter(matches).collect();
        ensure(!matching.is_empty(), "selector: no platform")?;
        ensure(matching.into_iter().all(|platform| taken.insert(*platform)), "selectors overlap")?;
    }
    Ok(())
}

#[test]
fn the_manifest_keeps_to_krews_rules() {
    let manifest = filled_in(&template());
    assert_eq!(broken_rule(&manifest), None);
    assert_eq!(manifest["metadata"]["name"], "diagnose-svc");
    // kubectl finds the plugin by the name of the program.
    let mut systems = Vec::new();
    for platform in manifest["spec"]["platforms"].as_array().unwrap() {
        let labels = &platform["selector"]["matchLabels"];
        let (os, arch) = (labels["os"].as_str().unwrap(), labels["arch"].as_str().unwrap());
        let program = if os == "windows" { "kubectl-diagnose_svc.exe" } else { "kubectl-diagnose_svc" };
        assert_eq!(platform["bin"], program);
        assert_eq!(platform["files"][0]["from"], program);
        let uri = platform["uri"].as_str().unwrap();
        assert!(uri.contains(&format!("/download/{TAG}/")), "{uri}");
        assert!(uri.ends_with(&format!("-{os}-{arch}.tar.gz")), "{uri}");
        systems.push(format!("{os}/{arch}"));
    }
    assert_eq!(systems, ["linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64"]);
}

#[test]
fn the_rules_find_what_krew_refuses() {
    let check = |pointer: &str, value: Value, want: &str| {
        let mut manifest = filled_in(&template());
        *manifest.pointer_mut(pointer).unwrap() = value;
        assert_eq!(broken_rule(&manifest).as_deref(), Some(want), "{pointer}");
    };
    check("/apiVersion", json!("v1"), "apiVersion");
    check("/metadata/name", json!("end points"), "name");
    check("/metadata/name", json!("aux"), "reserved name");
    check("/spec/version", json!("0.1.0"), "version: v and a semantic version");
    check("/spec/version", json!("v0.1"), "version: v and a semantic version");
    check("/spec/shortDescription", json!(""), "shortDescription: one line");
    check("/spec/shortDescription", json!("a ".repeat(40)), "shortDescription: long lines");
    check("/spec/platforms", json!([]), "platforms");
    check("/spec/platforms/0/sha256", json!("ABC"), "sha256");
    check("/spec/platforms/0/bin", json!(""), "bin");
    check("/spec/platforms/0/files", json!([]), "files: unspecified or not empty");
    check("/spec/platforms/0/selector", json!({"matchLabels": {"os": "plan9"}}), "selector: no platform");
    check("/spec/platforms/0/selector", json!({"matchLabels": {"os": "linux"}}), "selectors overlap");
    check("/spec/platforms/0/selector", json!({"matchLabels": {"cpu": "x"}}), "unknown field \"cpu\"");
}
