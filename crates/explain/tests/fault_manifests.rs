//! Reads the manifests of `integration-tests/faults`, which have one fault each, and the small
//! clusters of `integration-tests/diagnosis`: some of these only look as if they had one. Any
//! program takes them as they are: `render`, `--embedded-load` and kubectl. The comments at the top
//! of each are YAML, too, and tell tests what to expect.
#![allow(dead_code, reason = "the tests of two crates read it, each a part")]
#![allow(
    clippy::unwrap_used,
    reason = "a helper that panics fails its test; some includers are exempt anyway"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use kube_endpoint_core_model::{EndpointSlice, IpFamily, ObjectKey, Timestamp};
use kube_endpoint_explain::consumers::kube_proxy::{KubeProxy, Through};
use kube_endpoint_explain::{Known, Objects, Options, Planned};
use kube_endpoint_testing::Cluster;
use serde::Deserialize;
use serde_json::Value;

/// A manifest with one fault, of the Service `web` in the namespace `default` unless it names
/// another object.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Fault {
    pub(crate) about: String,
    /// The code that the explanation contains. A case of diagnosis has it first, and a healthy one
    /// has none.
    #[serde(default)]
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
    #[serde(default)]
    pub(crate) receives: Vec<String>,
    /// The work of the person whom the remedy asks.
    #[serde(default)]
    pub(crate) person: Vec<Change>,
    /// The public suite, check or project whose users meet a case of diagnosis.
    #[serde(default)]
    pub(crate) source: String,
    /// The group of a case of diagnosis.
    #[serde(default)]
    pub(crate) kind: String,
    /// True if nothing is wrong.
    #[serde(default)]
    pub(crate) healthy: bool,
    /// The object that is explained.
    #[serde(default = "Fault::web")]
    pub(crate) subject: String,
    /// The pod, as `NAMESPACE/POD`, that connects to the Service, if the explanation is about one.
    pub(crate) from: Option<String>,
    /// The time of the explanation.
    #[serde(default = "Fault::start")]
    pub(crate) at: String,
    /// Texts that the explanation of a case of diagnosis contains.
    #[serde(default)]
    pub(crate) says: Vec<String>,
    #[serde(default)]
    pub(crate) says_not: Vec<String>,
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
    fn web() -> String {
        "service/web".to_owned()
    }

    fn start() -> String {
        "2026-01-01T00:10:00Z".to_owned()
    }

    /// Returns the time of the explanation.
    pub(crate) fn now(&self) -> Timestamp {
        self.at.parse().unwrap()
    }

    /// Returns the key of the object that is explained.
    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey::new("default", self.subject.split_once('/').unwrap().1)
    }

    /// Returns true if `kubectl describe` of the Service and its pods may tell the fault.
    pub(crate) fn is_described(&self) -> bool {
        !self.healthy && ["service/", "pod/"].iter().any(|kind| self.subject.starts_with(kind))
    }

    /// Returns the options of the controllers.
    pub(crate) fn options(&self) -> Options {
        let from = self.from.as_ref().and_then(|from| from.split_once('/'));
        let from = from.map(|(namespace, pod)| ObjectKey::new(namespace, pod));
        let mut options = Options::default().with_from(from);
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
        let mut objects = Objects::read(cluster.objects().iter().filter(may).cloned()).unwrap();
        // As the plugin does, it counts as absent what is not there beside others of its kind.
        let has = |kind: &str| cluster.objects().iter().any(|object| object["kind"] == kind);
        let absent = objects.named_and_unread().into_iter().filter(|it| has(it.kind));
        absent.for_each(|it| objects.note_absent(it));
        objects
    }

    /// Returns the objects after the controllers have written, until they write nothing.
    pub(crate) fn settled(&self, now: Timestamp, options: &Options) -> Cluster {
        self.settle(self.objects.iter().fold(Cluster::new(), Cluster::with), now, options)
    }

    /// Lets the controllers that run write, until they write nothing.
    pub(crate) fn settle(&self, mut cluster: Cluster, now: Timestamp, options: &Options) -> Cluster {
        for _ in 0..5 {
            let before = cluster.clone();
            let objects = Objects::read(cluster.objects().iter().cloned()).unwrap();
            let web = ObjectKey::new("default", "web");
            let services: BTreeSet<ObjectKey> = objects.services().cloned().chain([web]).collect();
            for key in &services {
                cluster = self.written(cluster, key, now, options);
            }
            if cluster == before {
                return cluster;
            }
        }
        panic!("the controllers do not settle");
    }

    /// Carries out what the controllers that run write for a Service.
    fn written(&self, mut cluster: Cluster, key: &ObjectKey, now: Timestamp, options: &Options) -> Cluster {
        let runs = |name: &str| self.controllers.as_ref().is_none_or(|all| all.iter().any(|it| it == name));
        let objects = Objects::read(cluster.objects().iter().cloned()).unwrap();
        let planned = Planned::new(&objects, key, &objects.topology(), now, options);
        let is_attached = objects.service(key).is_some_and(|it| it.endpoint_selector().is_some());
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
        cluster
    }
}

/// Returns the names of the pods, and the addresses of other endpoints, to which some client of a
/// Service is sent: a client on one of the nodes, or elsewhere.
pub(crate) fn receivers(objects: &Objects, key: &ObjectKey, nodes: &[Value]) -> BTreeSet<String> {
    let Some(service) = objects.service(key) else { return BTreeSet::new() };
    let slices = || objects.slices_of(key).iter().map(|slice| &**slice);
    let mut places: Vec<(String, String)> = vec![(String::new(), String::new())];
    places.extend(nodes.iter().map(|node| {
        let meta = &node["metadata"];
        let zone = meta["labels"]["topology.kubernetes.io/zone"].as_str().unwrap_or_default();
        (meta["name"].as_str().unwrap().to_owned(), zone.to_owned())
    }));
    let mut addresses = BTreeSet::new();
    for (node, zone) in &places {
        let proxy = KubeProxy { node, zone, ..KubeProxy::default() };
        for family in [IpFamily::IPv4, IpFamily::IPv6] {
            let routes = proxy.routes(service, service.policies, slices(), family, Through::ClusterIp);
            let backends = routes.ports.iter().flat_map(|port| &port.backends);
            addresses.extend(backends.map(|backend| backend.ip().to_string()));
        }
    }
    let of_dns = |slice: &EndpointSlice| {
        let ready = slice.endpoints.iter().filter(|endpoint| endpoint.conditions.ready != Some(false));
        ready.flat_map(|endpoint| &endpoint.addresses).map(ToString::to_string).collect::<Vec<_>>()
    };
    if service.is_headless() {
        addresses.extend(slices().flat_map(of_dns));
    }
    let names: BTreeMap<String, String> = slices()
        .flat_map(|slice| &slice.endpoints)
        .filter_map(|endpoint| {
            let target = endpoint.target_ref.as_ref()?;
            Some((endpoint.addresses.first()?.to_string(), target.name.to_string()))
        })
        .collect();
    addresses.into_iter().map(|ip| names.get(&ip).cloned().unwrap_or(ip)).collect()
}

/// Returns a folder of manifests.
pub(crate) fn folder(name: &str) -> PathBuf {
    let roots = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut folders = roots.map(|root| root.join("integration-tests").join(name));
    folders.find(|folder| folder.is_dir()).unwrap()
}

/// Returns the manifest of a file of `integration-tests/faults`.
pub(crate) fn manifest(name: &str) -> Fault {
    read(&folder("faults").join(name))
}

/// Returns all manifests of `integration-tests/faults`, by file name.
pub(crate) fn manifests() -> BTreeMap<String, Fault> {
    all_of("faults")
}

/// Returns the manifests of a folder, by file name.
pub(crate) fn all_of(name: &str) -> BTreeMap<String, Fault> {
    let files = std::fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap());
    let names = files.map(|file| (file.file_name().into_string().unwrap(), file.path()));
    let manifests = names.filter(|(name, _)| name.ends_with(".yaml"));
    manifests.map(|(name, path)| (name, read(&path))).collect()
}

fn read(path: &Path) -> Fault {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn parse(text: &str) -> Result<Fault, serde_saphyr::Error> {
    let head: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("# ")).collect();
    Ok(Fault { objects: serde_saphyr::from_multiple(text)?, ..serde_saphyr::from_str(&head.join("\n"))? })
}
