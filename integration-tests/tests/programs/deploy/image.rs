//! Tests that the image's recipe fits the workspace and the manifests.

use std::fs::read_to_string;

use serde_json::Value;

use crate::deploy::chart::IMAGE;
use crate::deploy::manifests::{STATIC_POD, only, rendered, root};

fn dockerfile() -> String {
    read_to_string(root().join("deploy/Dockerfile")).unwrap()
}

/// Returns the rest of the only line that begins with `start`.
#[track_caller]
fn after<'a>(text: &'a str, start: &str) -> &'a str {
    let mut found = text.lines().filter_map(|line| line.strip_prefix(start));
    let rest = found.next().unwrap_or_else(|| panic!("no line begins with {start:?}"));
    assert!(found.next().is_none(), "more than one line begins with {start:?}");
    rest
}

pub(crate) fn the_compiler_is_that_of_the_workspace() {
    let toolchain = read_to_string(root().join("rust-toolchain.toml")).unwrap();
    let version = after(&toolchain, "channel = ").trim_matches('"');
    let expected = format!("docker.io/library/rust:{version}-bookworm AS build");
    assert_eq!(after(&dockerfile(), "FROM --platform=$BUILDPLATFORM "), expected);
}

pub(crate) fn the_tag_in_the_manifests_is_the_version() {
    let image = format!("{IMAGE}:{}", env!("CARGO_PKG_VERSION"));
    let deployment = |name| only(&rendered(name), "Deployment", "")["spec"]["template"]["spec"].clone();
    let static_pod = only(&rendered(STATIC_POD), "Pod", "")["spec"].clone();
    for pod in [deployment("deploy/base"), deployment("deploy/overlays/addon"), static_pod] {
        assert_eq!(pod["containers"][0]["image"], Value::from(image.as_str()));
    }
}

pub(crate) fn the_image_has_the_user_and_the_port_of_the_pods() {
    let pod = only(&rendered(STATIC_POD), "Pod", "")["spec"].clone();
    let user = &pod["securityContext"];
    assert_eq!(after(&dockerfile(), "USER "), format!("{}:{}", user["runAsUser"], user["runAsGroup"]));
    let port = &pod["containers"][0]["ports"][0]["containerPort"];
    assert_eq!(after(&dockerfile(), "EXPOSE "), port.to_string());
}

/// A member that the build context leaves out would fail the build, because Cargo reads the
/// manifests of all members.
pub(crate) fn the_build_context_has_all_members_of_the_workspace() {
    let ignore = read_to_string(root().join("deploy/Dockerfile.dockerignore")).unwrap();
    let kept: Vec<&str> = ignore.lines().filter_map(|line| line.strip_prefix('!')).collect();
    let manifest = read_to_string(root().join("Cargo.toml")).unwrap();
    let members = manifest.split("members = [").nth(1).unwrap().split(']').next().unwrap();
    let members: Vec<&str> = members.lines().filter_map(|line| line.trim().strip_prefix('"')).collect();
    assert!(members.len() > 10, "{members:?}");
    for member in members {
        let folder = member.split(['/', '"']).next().unwrap();
        assert!(kept.contains(&folder), "deploy/Dockerfile.dockerignore leaves out {folder}");
    }
    // The recipe executes these scripts.
    let recipe = dockerfile();
    let scripts: Vec<&str> = recipe
        .split(|c: char| !(c.is_alphanumeric() || "/-_.".contains(c)))
        .filter(|word| word.starts_with("deploy/build"))
        .collect();
    assert!(!scripts.is_empty());
    for script in scripts {
        assert!(kept.contains(&script), "deploy/Dockerfile.dockerignore leaves out {script}");
    }
    for name in &kept {
        assert!(root().join(name).exists(), "{name}");
    }
}
