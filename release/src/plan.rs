//! The names of the files, and where `.github/workflows/release.yml` pushes them.

use crate::source::Source;
use crate::target::{Program, Target};

/// The registry of the image.
pub(crate) const IMAGE: &str = "ghcr.io/kube-endpoint-manager/kube-endpoint-manager";
/// The registry of the chart. Helm adds the chart's name.
pub(crate) const CHARTS: &str = "oci://ghcr.io/kube-endpoint-manager/charts";

pub(crate) const IMAGE_FILE: &str = "kube-endpoint-manager-image.tar";
pub(crate) const KUSTOMIZATIONS: &str = "kube-endpoint-manager-kustomize.tar.gz";
pub(crate) const KREW: &str = "diagnose-svc.yaml";
/// The JSON Schema of the plugin's documents.
pub(crate) const SCHEMA: &str = "explain.schema.json";
pub(crate) const SUMS: &str = "SHA256SUMS";

fn file(program: &Program, target: Target, ending: &str) -> String {
    format!("{}-{}-{}{ending}", program.name, target.system(), target.architecture())
}

pub(crate) fn archive(program: &Program, target: Target) -> String {
    file(program, target, ".tar.gz")
}

pub(crate) fn symbols(program: &Program, target: Target) -> String {
    file(program, target, "-debug.tar.gz")
}

pub(crate) fn bill(program: &Program, target: Target) -> String {
    file(program, target, ".cdx.json")
}

/// Helm expects this name.
pub(crate) fn chart(version: &str) -> String {
    format!("{}-{version}.tgz", Program::MANAGER.name)
}

/// Returns the names of the files for platforms, in order.
fn files(version: &str, targets: &[Target]) -> Vec<String> {
    let mut names = vec![KREW.to_owned(), SCHEMA.to_owned(), SUMS.to_owned()];
    for target in targets {
        for program in target.programs() {
            names.extend([archive(program, *target), bill(program, *target)]);
            names.extend(target.is_linux().then(|| symbols(program, *target)));
        }
    }
    if targets.iter().any(|target| target.is_linux()) {
        names.extend([IMAGE_FILE.to_owned(), KUSTOMIZATIONS.to_owned(), chart(version)]);
    }
    names.sort();
    names
}

/// Returns what a dry run prints.
pub(crate) fn text(source: &Source, targets: &[Target]) -> String {
    let version = &source.version;
    let files = files(version, targets);
    let mut text = format!("Release {version} of commit {}\n\n", source.commit);
    let repository = env!("CARGO_PKG_REPOSITORY");
    text += &format!("To {repository}/releases/tag/v{version}, signed, with provenance:\n");
    text.extend(files.iter().map(|name| format!("  {name}\n")));
    if files.iter().any(|name| name == IMAGE_FILE) {
        text += &format!("To {IMAGE}:{version}, signed:\n  {IMAGE_FILE}\n");
        text += &format!("To {CHARTS}/{}:{version}:\n  {}\n", Program::MANAGER.name, chart(version));
    }
    text += &format!("To krew-index, by krew-release-bot:\n  {KREW}\nTo crates.io, version {version}:\n");
    text.extend(source.crates.iter().map(|name| format!("  {name}\n")));
    text
}
