//! The document of `/version`.

use serde_json::{Value, json};

/// The minor version of the Kubernetes release whose behaviour the server implements.
pub const MINOR_VERSION: u32 = 36;

/// Returns the version that the server names.
pub fn git_version(minor: u32) -> String {
    format!("v1.{minor}.2+embedded")
}

/// Returns the document of `/version`, shaped like `version.Info` of apimachinery. The build
/// metadata shows that the server is not a kube-apiserver.
pub fn version(minor: u32) -> Value {
    json!({
        "major": "1",
        "minor": minor.to_string(),
        "emulationMajor": "1",
        "emulationMinor": minor.to_string(),
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": minor.saturating_sub(1).to_string(),
        "gitVersion": git_version(minor),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, go_arch(std::env::consts::ARCH)),
    })
}

/// Returns Go's name of an architecture.
fn go_arch(arch: &str) -> &str {
    match arch {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_reads_as_semver_with_build_metadata() {
        let version = super::version(super::MINOR_VERSION);
        let text = version["gitVersion"].as_str().unwrap();
        let (numbers, build) = text.strip_prefix('v').unwrap().split_once('+').unwrap();
        assert_eq!(numbers.split('.').filter_map(|n| n.parse::<u32>().ok()).count(), 3);
        assert_eq!(build, "embedded");
        assert_eq!(version["minor"], numbers.split('.').nth(1).unwrap());
    }
}
