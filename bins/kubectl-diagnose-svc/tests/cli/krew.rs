//! Tests that the krew manifest, filled in as for a release, names the archives of the release and
//! the programs in them. The CI of krew's index checks the rest.

use std::path::Path;

use serde_json::Value;

const TAG: &str = "v0.1.0";

fn template() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.krew.yaml")).unwrap()
}

/// Fills in the template as krew-release-bot does, which indents its second line by four spaces.
fn filled_in(template: &str) -> Value {
    let line = |line: &str| match line.split_once("{{addURIAndSha \"") {
        Some((indent, rest)) => {
            let uri = rest.split('"').next().unwrap().replace("{{ .TagName }}", TAG);
            assert!(rest.ends_with("\" .TagName }}"), "{line}");
            format!("{indent}uri: {uri}\n    sha256: {}\n", "0123456789abcdef".repeat(4))
        }
        None => format!("{}\n", line.replace("{{ .TagName }}", TAG)),
    };
    let text: String = template.lines().map(line).collect();
    assert!(!text.contains("{{"), "{text}");
    serde_saphyr::from_str(&text).unwrap()
}

#[test]
fn the_manifest_names_the_archives_and_the_programs() {
    let manifest = filled_in(&template());
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
