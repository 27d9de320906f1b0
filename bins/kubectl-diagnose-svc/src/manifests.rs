//! Reads the manifests of `render`, and checks each object as an API server would.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use kube_endpoint_apiserver_rules::manifest::{self, Object, Refusal};
use kube_endpoint_apiserver_rules::status::Status;
use kube_endpoint_explain::Objects;
use serde_json::{Value, json};

/// The endings of the files that this reads from a folder, as kubectl's.
const ENDINGS: [&str; 3] = ["json", "yaml", "yml"];

/// The namespace of objects without one, if the command line gives no other.
const DEFAULT_NAMESPACE: &str = "default";

/// The objects of all files.
#[derive(Default)]
pub(crate) struct Manifests {
    pub(crate) objects: Objects,
    /// Texts of one or several lines about objects that a server would refuse, with the file.
    pub(crate) refused: Vec<String>,
    /// Notes on skipped objects and on assumptions, as sentences.
    pub(crate) notes: Vec<String>,
    /// The number of objects of each kind.
    kinds: BTreeMap<String, usize>,
    /// Each object by resource, namespace and name, with its file.
    places: BTreeMap<(String, String, String), String>,
}

/// Reads files, the manifests of folders, and `-`, which is standard input. Objects without a
/// namespace are in `namespace`.
///
/// # Errors
///
/// An error if reading a file fails, or a file is no manifest.
pub(crate) fn read(paths: &[PathBuf], namespace: Option<&str>) -> anyhow::Result<Manifests> {
    let mut all = Manifests::default();
    for path in paths {
        for file in files_of(path)? {
            let name = file.display().to_string();
            let name = if name == "-" { "standard input" } else { &name };
            let bytes = bytes_of(&file).with_context(|| name.to_owned())?;
            let objects = manifest::read(&bytes).with_context(|| name.to_owned())?;
            all.add(objects, name, namespace)?;
        }
    }
    all.assume_nodes()?;
    Ok(all)
}

/// Returns true if a file of a folder is read.
pub(crate) fn is_manifest(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known))
}

/// Returns the file, or the manifests of a folder, without those of its folders.
pub(crate) fn files_of(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let text = path.to_string_lossy();
    if text.starts_with("http://") || text.starts_with("https://") {
        bail!(
            "{text} is no file; `curl -fL {text} | kubectl diagnose-svc render -f -` renders what is there"
        );
    }
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).with_context(|| text.clone().into_owned())? {
        let file = entry?.path();
        if is_manifest(&file) && !file.is_dir() {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        bail!("{text}: no file of this folder ends in .json, .yaml or .yml; folders in it are not read");
    }
    Ok(files)
}

pub(crate) fn bytes_of(path: &Path) -> std::io::Result<Vec<u8>> {
    if path != Path::new("-") {
        return std::fs::read(path);
    }
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Manifests {
    /// Returns the reason why there is nothing to render, or `None` if there is something.
    pub(crate) fn why_nothing(&self) -> Option<String> {
        if self.kinds.is_empty() {
            return Some("nothing was read that is an object; give manifests, or what `kubectl get services,pods,nodes -o yaml` prints".to_owned());
        }
        if ["Service of v1", "Endpoints of v1"].iter().any(|kind| self.kinds.contains_key(*kind)) {
            return None;
        }
        let kinds: Vec<String> = self.kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        Some(format!(
            "nothing is rendered, because no Service and no Endpoints of v1 were read, but: {}; give the manifest of the Service, too",
            kinds.join(", ")
        ))
    }

    fn add(&mut self, objects: Vec<Object>, file: &str, namespace: Option<&str>) -> anyhow::Result<()> {
        let mut skipped = BTreeSet::new();
        for object in objects {
            let type_name = object.type_name();
            *self.kinds.entry(type_name.clone()).or_default() += 1;
            if object.resource.is_none() {
                skipped.insert(type_name);
                continue;
            }
            match self.accept(object, file, namespace) {
                Ok(value) => self.objects.add(value).with_context(|| file.to_owned())?,
                Err(why) => self.refused.push(format!("{file}: {why}")),
            }
        }
        for kind in self.objects.take_skipped_kinds() {
            skipped
                .extend(self.kinds.keys().filter(|name| name.starts_with(&format!("{kind} of "))).cloned());
        }
        if !skipped.is_empty() {
            let kinds = Vec::from_iter(skipped).join(", ");
            self.notes.push(format!("{file}: skipped, because nothing is rendered from them: {kinds}"));
        }
        Ok(())
    }

    /// Returns the object as a server stores it, or the error of the server or kubectl.
    fn accept(&mut self, object: Object, file: &str, namespace: Option<&str>) -> Result<Value, String> {
        let Some(resource) = object.resource else { return Ok(object.value) };
        let (is_stored, mut name) = (object.is_stored(), object.name().to_owned());
        let mut value = object.value;
        if let ("", Some(prefix)) = (&*name, value["metadata"]["generateName"].as_str()) {
            // A server would choose a random name.
            name = format!("{prefix}{:05}", self.places.len());
            value["metadata"]["name"] = name.as_str().into();
        }
        let mut place = String::new();
        if resource.namespaced {
            let own = value["metadata"]["namespace"].as_str().filter(|own| !own.is_empty());
            if let (Some(own), Some(wanted)) = (own, namespace)
                && own != wanted
            {
                return Err(format!(
                    "the namespace from the provided object {own:?} does not match the namespace {wanted:?}. \
                     You must pass '--namespace={own}' to perform this operation."
                ));
            }
            own.or(namespace).unwrap_or(DEFAULT_NAMESPACE).clone_into(&mut place);
            if value["metadata"].is_object() {
                value["metadata"]["namespace"] = place.as_str().into();
            }
        }
        let key = (resource.group_resource(), place, name);
        if let Some(before) = self.places.get(&key) {
            let exists = Status::already_exists(resource, &key.2);
            return Err(format!("{exists}: the first is in {before}; leave one of them out"));
        }
        self.places.insert(key, file.to_owned());
        // A server has checked it already, perhaps one with other rules.
        if is_stored {
            return Ok(value);
        }
        manifest::create(resource, value).map_err(|status| Refusal(&status).to_string())
    }

    /// Adds the missing nodes of pods: controllers do not publish pods of nodes that do not exist.
    fn assume_nodes(&mut self) -> anyhow::Result<()> {
        let known =
            |name: &str| self.places.contains_key(&("nodes".to_owned(), String::new(), name.to_owned()));
        let missing: Vec<String> =
            self.objects.node_names().iter().map(ToString::to_string).filter(|name| !known(name)).collect();
        for name in &missing {
            let ready = json!([{"type": "Ready", "status": "True"}]);
            let node = json!({"kind": "Node", "metadata": {"name": name}, "status": {"conditions": ready}});
            self.objects.add(node).map_err(|error| anyhow!(error))?;
        }
        match &missing[..] {
            [] => {}
            [one] => self
                .notes
                .push(format!("The node {one} was not read; it is taken to be ready and to have no zone.")),
            [first, ..] => self.notes.push(format!(
                "{} nodes were not read, such as {first}; they are taken to be ready and to have no zone.",
                missing.len()
            )),
        }
        Ok(())
    }
}
