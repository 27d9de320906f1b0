//! Reads the manifests of `integration-tests/faults`, which have one fault each. Any program takes
//! them as they are: `render`, `--embedded-load` and kubectl. The comments at the top of each are
//! YAML, too, and tell tests what to expect.
#![allow(dead_code, reason = "the tests of two crates read it, each a part")]
#![allow(
    clippy::unwrap_used,
    reason = "a helper that panics fails its test; some includers are exempt anyway"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kube_endpoint_core_model::{ObjectKey, Timestamp};
use kube_endpoint_explain::{Known, Objects, Options, Planned};
use kube_endpoint_testing::Cluster;
use serde::Deserialize;
use serde_json::Value;

/// A manifest with one fault of the Service `web` in the namespace `default`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Fault {
    pub(crate) about: String,
    /// The code that the explanation contains.
    pub(crate) code: String,
    /// The code of the verdict, if it differs.
    pub(crate) verdict: Option<String>,
    /// The controllers that run, or `None` for all of them.
    pub(crate) controllers: Option<Vec<String>>,
    /// Capacity of Endpoints objects, if it is not the default.
    pub(crate) endpoints_capacity: Option<usize>,
    /// Kinds that the reader may not read: `pods`, `nodes`, `endpointslices`, `endpoints` or
    /// `endpointselectors`.
    #[serde(default)]
    pub(crate) forbidden: Vec<String>,
    /// The names of the pods, and the addresses of other endpoints, to which the owner of the
    /// Service wants clients to be sent.
    pub(crate) receives: Vec<String>,
    /// The work of the person whom the remedy asks.
    #[serde(default)]
    pub(crate) person: Vec<Change>,
    /// The objects, before the controllers write.
    #[serde(skip)]
    pub(crate) objects: Vec<Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Change {
    /// A merge patch.
    Patch {
        kind: String,
        name: String,
        merge: Value,
    },
    Create(Value),
    Delete {
        kind: String,
        name: String,
    },
    /// The reader may read all kinds.
    Permit(bool),
    /// All controllers run from now on.
    StartControllers(bool),
}

impl Fault {
    /// Returns the options of the controllers.
    pub(crate) fn options(&self) -> Options {
        let mut options = Options::default();
        if let Some(capacity) = self.endpoints_capacity {
            options.endpoints = options.endpoints.with_capacity(capacity);
        }
        options
    }

    /// Returns the kinds that the explanation may read; the controllers read all.
    pub(crate) fn known(&self) -> Known {
        let may = |kind: &str| !self.forbidden.iter().any(|forbidden| forbidden == kind);
        Known {
            pods: may("pods"),
            nodes: may("nodes"),
            slices: may("endpointslices"),
            endpoints: may("endpoints"),
            selectors: may("endpointselectors"),
        }
    }

    /// Returns those of the objects that the explanation may read. As the plugin does, it assumes
    /// that other nodes are ready.
    pub(crate) fn readable(&self, cluster: &Cluster) -> Objects {
        let known = self.known();
        let may = |object: &&Value| match object["kind"].as_str().unwrap() {
            "Pod" => known.pods,
            "EndpointSlice" => known.slices,
            "Endpoints" => known.endpoints,
            "EndpointSelector" => known.selectors,
            _ => true,
        };
        Objects::read(cluster.objects().iter().filter(may).cloned()).unwrap()
    }

    /// Returns the objects after the controllers have written, until they write nothing.
    pub(crate) fn settled(&self, now: Timestamp, options: &Options) -> Cluster {
        let runs = |name: &str| self.controllers.as_ref().is_none_or(|all| all.iter().any(|it| it == name));
        let mut cluster = self.objects.iter().fold(Cluster::new(), Cluster::with);
        for _ in 0..5 {
            let before = cluster.clone();
            let objects = Objects::read(cluster.objects().iter().cloned()).unwrap();
            let key = ObjectKey::new("default", "web");
            let planned = Planned::new(&objects, &key, &objects.topology(0.0), now, options);
            let is_attached = objects.service(&key).is_some_and(|it| it.endpoint_selector().is_some());
            let of_slices = if is_attached { "selectors" } else { "endpointslice" };
            let slices = planned.slices.filter(|_| runs(of_slices));
            let slices = slices.into_iter().flat_map(|plan| plan.sub_plans).map(|plan| plan.writes);
            let passes = runs("selectors") && planned.hand_over.held.is_empty();
            let slices = slices.chain(Some(planned.hand_over.slices).filter(|_| passes));
            let endpoints = planned.endpoints.filter(|_| runs("endpoints")).map(|plan| plan.writes);
            let mirrored = planned.mirroring.filter(|_| runs("mirroring")).map(|plan| plan.writes);
            for writes in slices {
                cluster = cluster.apply(&writes);
            }
            if let Some(writes) = endpoints {
                cluster = cluster.apply(&writes);
            }
            if let Some(writes) = mirrored {
                cluster = cluster.apply(&writes);
            }
            if cluster == before {
                return cluster;
            }
        }
        panic!("the controllers do not settle");
    }
}

/// Returns the folder of the manifests.
fn folder() -> PathBuf {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|root| root.join("integration-tests/faults"));
    folder.into_iter().find(|folder| folder.is_dir()).unwrap()
}

/// Returns the manifest of a file.
pub(crate) fn manifest(name: &str) -> Fault {
    let text = std::fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    read(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns all manifests, by file name.
pub(crate) fn manifests() -> BTreeMap<String, Fault> {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name());
    let names = files.map(|name| name.into_string().unwrap());
    names.map(|name| (name.clone(), manifest(&name))).collect()
}

fn read(text: &str) -> Result<Fault, serde_saphyr::Error> {
    let head: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("# ")).collect();
    Ok(Fault { objects: serde_saphyr::from_multiple(text)?, ..serde_saphyr::from_str(&head.join("\n"))? })
}
