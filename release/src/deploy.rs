//! The chart, the kustomizations and the krew manifest. They install the programs, and name the
//! image and the archives by their digests.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::archive::{self, Entry};
use crate::source::Source;
use crate::target::Program;

/// The image of the release.
pub(crate) struct Image<'a> {
    pub(crate) name: &'a str,
    pub(crate) digest: &'a str,
}

/// Returns the chart as `helm package` packs it: links become files.
pub(crate) fn chart(source: &Source, image: &Image) -> Result<Vec<u8>> {
    let mut files = files(&source.root.join("deploy/chart"))?;
    let name = Program::MANAGER.name;
    let changes = [
        ("values.yaml", "repository: \"\"".to_owned(), format!("repository: {}", image.name)),
        ("values.yaml", "digest: \"\"".to_owned(), format!("digest: {}", image.digest)),
        (
            "README.md",
            "`image.repository` | `\"\"`".to_owned(),
            format!("`image.repository` | `{}`", image.name),
        ),
        ("README.md", "`image.digest` | `\"\"`".to_owned(), format!("`image.digest` | `{}`", image.digest)),
    ];
    for (file, from, to) in changes {
        replace(&mut files, file, &from, &to)?;
    }
    archive::tar_gz(entries(name, files), source.time)
}

/// Returns the kustomizations, and the files of `deploy/` that they are used with.
pub(crate) fn kustomizations(source: &Source, image: &Image) -> Result<Vec<u8>> {
    let mut all = BTreeMap::new();
    for folder in ["base", "components", "crds", "hand-over", "overlays"] {
        let files = files(&source.root.join("deploy").join(folder))?;
        all.extend(files.into_iter().map(|(path, contents)| (format!("deploy/{folder}/{path}"), contents)));
    }
    let tag = format!("newTag: {}", source.version);
    let named = format!("newName: {}\n    digest: {}", image.name, image.digest);
    for folder in ["base", "overlays/addon", "overlays/kubeadm/static-pod"] {
        replace(&mut all, &format!("deploy/{folder}/kustomization.yaml"), &tag, &named)?;
    }
    all.insert("LICENSE".to_owned(), crate::read(&source.root.join("LICENSE"))?);
    archive::tar_gz(entries(&format!("{}-{}", Program::MANAGER.name, source.version), all), source.time)
}

/// Returns the krew manifest of the archives whose SHA-256 sums are given.
pub(crate) fn krew(source: &Source, sums: &BTreeMap<String, String>) -> Result<String> {
    let template = crate::read(&source.root.join(".krew.yaml"))?;
    fill_in(&String::from_utf8(template)?, &format!("v{}", source.version), sums)
}

/// Fills in a template as krew-release-bot does, without the platforms that have no archive.
fn fill_in(template: &str, tag: &str, sums: &BTreeMap<String, String>) -> Result<String> {
    let template = template.replace("{{ .TagName }}", tag);
    let mut platforms = template.split("    - selector:");
    let mut manifest: String = platforms
        .next()
        .into_iter()
        .flat_map(str::lines)
        .filter(|line| !line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect();
    for platform in platforms {
        let (before, rest) =
            platform.split_once("{{addURIAndSha \"").context(".krew.yaml: a platform has no addURIAndSha")?;
        let (address, rest) = rest.split_once('"').context(".krew.yaml: the address has no end")?;
        let (_, after) = rest.split_once("}}").context(".krew.yaml: addURIAndSha has no end")?;
        let name = address.rsplit('/').next().unwrap_or_default();
        if let Some(sum) = sums.get(name) {
            manifest += &format!("    - selector:{before}uri: {address}\n      sha256: {sum}{after}");
        }
    }
    Ok(manifest)
}

/// Returns the files of a folder, by their paths in it. Links are followed.
fn files(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    for name in crate::files(folder)? {
        let path = folder.join(&name);
        if path.is_dir() {
            let within = files(&path)?;
            found.extend(within.into_iter().map(|(path, contents)| (format!("{name}/{path}"), contents)));
        } else {
            found.insert(name, crate::read(&path)?);
        }
    }
    Ok(found)
}

/// Replaces a text that must occur once in a file.
fn replace(files: &mut BTreeMap<String, Vec<u8>>, file: &str, from: &str, to: &str) -> Result<()> {
    let contents = files.get_mut(file).with_context(|| format!("there is no {file}"))?;
    let text = String::from_utf8(std::mem::take(contents))?;
    let count = text.matches(from).count();
    if count != 1 {
        bail!("{file} must have '{from}' once, and has it {count} times");
    }
    *contents = text.replace(from, to).into_bytes();
    Ok(())
}

fn entries(folder: &str, files: BTreeMap<String, Vec<u8>>) -> Vec<Entry> {
    files.into_iter().map(|(path, contents)| Entry::file(&format!("{folder}/{path}"), contents)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_of_krew_has_the_platforms_that_have_an_archive() {
        let template = "# About.\nversion: {{ .TagName }}\nplatforms:\n    \
            - selector: a\n      {{addURIAndSha \"https://x/{{ .TagName }}/a.tar.gz\" .TagName }}\n      bin: p\n    \
            - selector: b\n      {{addURIAndSha \"https://x/{{ .TagName }}/b.tar.gz\" .TagName }}\n      bin: p\n";
        let sums = BTreeMap::from([("b.tar.gz".to_owned(), "0123".to_owned())]);
        let want = "version: v1.0.0\nplatforms:\n    - selector: b\n      uri: https://x/v1.0.0/b.tar.gz\n      \
            sha256: 0123\n      bin: p\n";
        assert_eq!(fill_in(template, "v1.0.0", &sums).unwrap(), want);
        let error = fill_in("    - selector: a\n", "v1", &sums).unwrap_err().to_string();
        assert_eq!(error, ".krew.yaml: a platform has no addURIAndSha");
    }

    #[test]
    fn a_text_that_is_not_there_once_is_refused() {
        let mut files = BTreeMap::from([("a".to_owned(), b"tag: 1\ntag: 1\n".to_vec())]);
        let error = replace(&mut files, "a", "tag: 1", "tag: 2").unwrap_err().to_string();
        assert_eq!(error, "a must have 'tag: 1' once, and has it 2 times");
        assert_eq!(replace(&mut files, "b", "", "").unwrap_err().to_string(), "there is no b");
    }
}
