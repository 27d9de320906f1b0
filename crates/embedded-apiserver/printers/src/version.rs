//! The document of `/version`.

use serde_json::{Value, json};

/// The version that the server names.
pub const GIT_VERSION: &str = "v1.36.2+embedded";

/// Returns the document of `/version`, shaped like `version.Info` of apimachinery. The version is
/// that of the Kubernetes release whose behaviour the server implements; the build metadata shows
/// that it is not a kube-apiserver.
pub fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": GIT_VERSION,
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
        let version = super::version();
        let text = version["gitVersion"].as_str().unwrap();
        let (numbers, build) = text.strip_prefix('v').unwrap().split_once('+').unwrap();
        assert_eq!(numbers.split('.').filter_map(|n| n.parse::<u32>().ok()).count(), 3);
        assert_eq!(build, "embedded");
        assert_eq!(version["minor"], numbers.split('.').nth(1).unwrap());
    }
}
