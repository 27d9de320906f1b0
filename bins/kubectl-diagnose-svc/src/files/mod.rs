//! Objects of files in place of a cluster: manifests, what `kubectl get` prints, the folder of a
//! `kubectl cluster-info dump`, and a must-gather of OpenShift. A client reads them as it reads a
//! cluster. A kind that no file has, or none of a namespace, is not known.

mod coverage;
mod kind;
mod server;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use jiff::Timestamp;
use kube_endpoint_apiserver_rules::manifest::{self, ManifestError, Object, Refusal};
use kube_endpoint_apiserver_rules::resource;
use kube_endpoint_core_model::Text;
use kube_endpoint_core_model::well_known::ANNOTATION_ENDPOINT_SELECTOR;
use kube_endpoint_explain::Objects;
use kube_endpoint_explain_reader::Resource;
use serde_json::Value;

use crate::manifests::{bytes_of, files_of};
use coverage::OfFile;
use kind::{Kind, Stored};

/// The namespace of objects without one, if the command line gives no other.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// Kinds that no command reads. A cluster may have many megabytes of them.
const LEFT_OUT: [&str; 3] = ["ConfigMap", "CustomResourceDefinition", "Secret"];

/// The annotation of objects that Helm creates for a moment, such as the pod of a test.
const HELM_HOOK: &str = "helm.sh/hook";

/// The folder of a must-gather with one file for each node.
const GATHERED_NODES: &str = "cluster-scoped-resources/core/nodes";

/// The fields with the time of something that has happened.
const TIMES: [&str; 15] = [
    "acquireTime",
    "completionTime",
    "creationTimestamp",
    "eventTime",
    "finishedAt",
    "firstTimestamp",
    "lastHeartbeatTime",
    "lastObservedTime",
    "lastProbeTime",
    "lastTimestamp",
    "lastTransitionTime",
    "renewTime",
    "startTime",
    "startedAt",
    "time",
];

/// The objects of all files.
#[derive(Default)]
pub(crate) struct Files {
    /// By group and plural.
    kinds: BTreeMap<(String, String), Kind>,
    /// The newest time of something that has happened.
    pub(crate) newest: Option<Timestamp>,
    /// Notes on what was left out and assumed, as sentences.
    pub(crate) notes: Vec<String>,
    /// The manifests of pods without a status.
    without_status: Vec<Value>,
    /// The names of pods whose state is assumed.
    assumed: Vec<String>,
    /// The nodes of pods.
    nodes_of_pods: BTreeSet<String>,
    hooks: usize,
    /// The namespaces with objects, or with a list of a kind that has none there.
    namespaces: BTreeSet<Text>,
    /// The namespaces with manifests.
    of_manifests: BTreeSet<Text>,
    /// The namespaces with a pod that has a status: somebody has looked at a cluster.
    of_running_pods: BTreeSet<Text>,
    /// Versions and kinds whose stored objects of all namespaces are in a file.
    of_all_namespaces: BTreeSet<(String, String)>,
    /// Files of folders that have no objects.
    without_objects: BTreeSet<String>,
}

impl Files {
    /// Reads files, folders with all that is in them, and `-`, which is standard input. Objects
    /// without a namespace are in `namespace`.
    ///
    /// # Errors
    ///
    /// An error if reading a file fails, a file that is named is no manifest, or a server would
    /// refuse an object.
    pub(crate) fn read(paths: &[PathBuf], namespace: &str) -> anyhow::Result<Self> {
        let mut all = Self::default();
        for path in paths {
            let is_folder = path.is_dir();
            for file in if is_folder { files_below(path)? } else { files_of(path)? } {
                let folder = is_folder.then_some(&**path);
                all.add_file(&file, namespace, folder)?;
            }
        }
        if all.kinds.is_empty() {
            bail!(
                "nothing was read that is an object; give manifests, what `kubectl get services,pods,endpointslices,nodes -o yaml` prints, or the folder of a `kubectl cluster-info dump`"
            );
        }
        all.add_missing_pods()?;
        all.finish_extents();
        all.note_what_was_left_out();
        Ok(all)
    }

    fn add_file(&mut self, file: &Path, namespace: &str, folder: Option<&Path>) -> anyhow::Result<()> {
        let name = file.display().to_string();
        let name = if name == "-" { "standard input" } else { &name };
        let bytes = bytes_of(file).with_context(|| name.to_owned())?;
        let contents = match manifest::read_contents(&bytes) {
            // A folder may have other files, such as those of a tool.
            Err(ManifestError::Incomplete { .. } | ManifestError::Kustomization) if folder.is_some() => {
                self.without_objects.insert(name.to_owned());
                return Ok(());
            }
            contents => contents.with_context(|| name.to_owned())?,
        };
        drop(bytes);
        self.cover(OfFile::new(&contents, folder.and_then(|folder| file.strip_prefix(folder).ok())));
        if file.parent().is_some_and(|folder| folder.ends_with(GATHERED_NODES)) {
            self.kind("v1", "Node").is_complete = true;
        }
        for (at, object) in contents.objects.into_iter().enumerate() {
            let place = || format!("{name}, object {}", at + 1);
            self.add(object, namespace).with_context(place)?;
        }
        Ok(())
    }

    fn kind(&mut self, version: &str, kind: &str) -> &mut Kind {
        let new = Kind::of(version, kind);
        self.kinds.entry((new.group.clone(), new.plural.clone())).or_insert(new)
    }

    fn add(&mut self, object: Object, namespace: &str) -> anyhow::Result<()> {
        let (is_stored, resource) = (object.is_stored(), object.resource);
        let mut value = object.value;
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        if LEFT_OUT.contains(&&*kind) {
            return Ok(());
        }
        check_case(&version, &kind)?;
        if matches!(&*kind, "Job" | "Pod") && value["metadata"]["annotations"][HELM_HOOK].is_string() {
            self.hooks += 1;
            return Ok(());
        }
        let is_namespaced = resource.map_or(!is_stored, |resource| resource.namespaced);
        if is_namespaced
            && value["metadata"].is_object()
            && value["metadata"]["namespace"].as_str().is_none_or(str::is_empty)
        {
            value["metadata"]["namespace"] = namespace.into();
        }
        if let Some(prefix) = value["metadata"]["generateName"].as_str().map(str::to_owned)
            && value["metadata"]["name"].as_str().is_none_or(str::is_empty)
        {
            let count = self.kind(&version, &kind).objects.len();
            value["metadata"]["name"] = format!("{prefix}{count:05}").into();
        }
        if let Some(resource) = resource.filter(|_| !is_stored) {
            let created = manifest::create(resource, value);
            value = created.map_err(|status| anyhow::anyhow!("{}", Refusal(&status)))?;
            value["apiVersion"] = version.as_str().into();
            value["kind"] = kind.as_str().into();
        }
        if !is_stored && let Some(namespace) = value["metadata"]["namespace"].as_str() {
            self.of_manifests.insert(namespace.into());
        }
        // The error of a field has to name the file.
        Objects::new().add(value.clone())?;
        // A specification may name a time to come.
        let past = value.as_object().into_iter().flatten();
        let past = past.filter(|(field, _)| *field != "spec" || kind == "Lease");
        past.for_each(|(field, value)| note_times(field, value, &mut self.newest));
        if kind == "Pod" {
            if !is_stored && value["status"]["podIP"].is_null() && value["status"]["conditions"].is_null() {
                self.without_status.push(value);
                return Ok(());
            }
            self.of_running_pods.extend(value["metadata"]["namespace"].as_str().map(Text::from));
            self.nodes_of_pods.extend(value["spec"]["nodeName"].as_str().map(str::to_owned));
        }
        self.kind(&version, &kind).add(&value, is_stored)
    }

    /// Returns true if the files seem to have all objects of a kind.
    fn is_known(&self, kind: &Kind) -> bool {
        match &*kind.plural {
            // Controllers write these: a manifest of one says nothing about the others, unless no
            // controller has anything to write.
            "endpointslices" if kind.has_objects() && self.are_slices_of_people() => true,
            "endpoints" | "endpointslices" => kind.is_complete || kind.has_stored,
            "nodes" => {
                let is_there = |name: &String| kind.get(Some(""), name).is_some();
                kind.is_complete || kind.has_objects() && self.nodes_of_pods.iter().all(is_there)
            }
            _ => kind.is_complete || kind.has_objects() || kind.has_manifests,
        }
    }

    /// Returns true if no controller makes slices: no Service has a selector, and no Endpoints are
    /// mirrored.
    fn are_slices_of_people(&self) -> bool {
        let of = |plural: &str| self.kinds.get(&(String::new(), plural.to_owned()));
        let has_none = |kind: &Kind| !kind.has_objects();
        let is_selecting = |service: &Stored| {
            let service = service.value();
            service["spec"]["selector"].as_object().is_some_and(|selector| !selector.is_empty())
                || service["metadata"]["annotations"][ANNOTATION_ENDPOINT_SELECTOR].is_string()
        };
        let services = of("services").into_iter().flat_map(|kind| kind.objects.values());
        of("endpoints").is_none_or(has_none) && !services.into_iter().any(is_selecting)
    }

    /// Returns the only namespace with an object of this name, or else the only one with an object
    /// of the kind.
    pub(crate) fn namespace_with(&self, of: Resource, name: &str) -> Option<String> {
        let kind = self.kinds.get(&(of.group.to_owned(), of.plural.to_owned()))?;
        let only = |is_meant: &dyn Fn(&str) -> bool| {
            let keys = kind.objects.keys().filter(|(_, name)| is_meant(name));
            let namespaces: BTreeSet<&str> = keys.map(|(namespace, _)| &**namespace).collect();
            namespaces.first().filter(|_| namespaces.len() == 1).map(|only| (*only).to_owned())
        };
        only(&|own| own == name).or_else(|| only(&|_| true))
    }

    fn note_what_was_left_out(&mut self) {
        if let Some(first) = self.without_objects.first() {
            let count = self.without_objects.len();
            self.notes.push(format!("Files of a folder that hold no objects, such as {first}: {count}."));
        }
        if self.hooks > 0 {
            let (hooks, run) =
                if self.hooks == 1 { ("pod or Job", "runs") } else { ("pods and Jobs", "run") };
            self.notes.push(format!(
                "{} {hooks} with the annotation {HELM_HOOK} are left out: Helm {run} them for a moment.",
                self.hooks
            ));
        }
    }
}

/// Checks the letters of a kind: to a server, `service` is none.
fn check_case(version: &str, kind: &str) -> anyhow::Result<()> {
    let is_lower = kind.chars().next().is_some_and(char::is_lowercase);
    match resource::all().map(|it| it.kind).find(|known| known.eq_ignore_ascii_case(kind)) {
        Some(known) if known != kind => bail!("{version} has no kind {kind:?}; write {known:?}"),
        None if is_lower => bail!("{version} has no kind {kind:?}; kinds begin with a capital letter"),
        _ => Ok(()),
    }
}

/// Returns the manifests of a folder and of the folders in it.
fn files_below(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let name = || folder.display().to_string();
        for entry in std::fs::read_dir(&folder).with_context(name)? {
            let entry = entry.with_context(name)?;
            // A link to a folder may lead back.
            if entry.file_type().with_context(name)?.is_dir() {
                folders.push(entry.path());
            } else if entry.path().is_file() && crate::manifests::is_manifest(&entry.path()) {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    if files.is_empty() {
        bail!(
            "{}: no file of this folder, or of the folders in it, ends in .json, .yaml or .yml",
            folder.display()
        );
    }
    Ok(files)
}

/// Raises `newest` to the newest time in a field of something that has happened.
fn note_times(field: &str, value: &Value, newest: &mut Option<Timestamp>) {
    match value {
        Value::String(text) if TIMES.contains(&field) => *newest = text.parse().ok().max(*newest),
        Value::Object(fields) => fields.iter().for_each(|(field, value)| note_times(field, value, newest)),
        Value::Array(items) => items.iter().for_each(|item| note_times("", item, newest)),
        _ => {}
    }
}
