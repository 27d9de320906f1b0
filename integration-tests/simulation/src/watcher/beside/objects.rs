//! The objects that decide who publishes the pods of a Service, read without the code of a
//! controller.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use kube_endpoint_core_model::well_known::SELECTOR_CONTROLLER;
use serde_json::Value;

use super::super::positions::Position;
use super::super::rules::writer_of_user;
use super::super::world::{Since, managed_by, service_of};
use crate::cluster::text;
use crate::objects::{LEADS, NAMES_SELECTOR};

pub(super) type Labels = BTreeMap<String, String>;

/// The Service of the API server, which no EndpointSelector can have.
pub(super) const KUBERNETES: &str = "default/kubernetes";

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pod {
    pub(super) uid: String,
    labels: Labels,
    /// Ready, and not terminating.
    pub(super) is_ready: bool,
    pub(super) is_terminating: bool,
    pub(super) has_ended: bool,
    /// The condition by which EndpointSelectors choose: if it is true, and since when.
    pub(super) leads: Option<(bool, String)>,
    restarts: u64,
    /// When its container restarted last.
    pub(super) restarted: Option<Duration>,
    pub(super) node: String,
    pub(super) addresses: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Service {
    pub(super) uid: String,
    /// Its own selector.
    pub(super) selector: Option<Labels>,
    /// The EndpointSelector that it names.
    pub(super) names: Option<String>,
    pub(super) publishes_unready: bool,
    pub(super) families: Vec<String>,
}

/// The pods that an EndpointSelector has ready, of those that it selects and that are ready.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Readiness {
    All,
    /// Those with a true condition.
    Condition,
    /// The one whose condition has become true last.
    Newest,
    /// The one that holds this Lease, by namespace and name.
    Lease(String),
    /// All but the one that holds this Lease.
    Followers(String),
}

/// The pods of an EndpointSelector.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Selected {
    requirements: Vec<Requirement>,
    pub(super) readiness: Readiness,
}

impl Selected {
    pub(super) fn has(&self, pod: &Pod) -> bool {
        pod.meets(&self.requirements)
    }

    /// Returns true if at most one pod is ready.
    pub(super) fn is_exclusive(&self) -> bool {
        matches!(self.readiness, Readiness::Newest | Readiness::Lease(_))
    }
}

/// The pods of an EndpointSelector, or `None` if it is invalid.
pub(super) type Selector = Option<Selected>;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Requirement {
    key: String,
    operator: String,
    values: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Endpoint {
    pub(super) address: String,
    /// Namespace and name of the pod.
    pub(super) pod: String,
    pub(super) uid: String,
    pub(super) is_ready: bool,
    pub(super) is_serving: bool,
    pub(super) is_terminating: bool,
    /// False for a pod that an EndpointSelector selects and does not choose: its own slices say so
    /// by an absent condition.
    pub(super) is_chosen: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Slice {
    pub(super) uid: String,
    /// Namespace and name.
    pub(super) service: String,
    pub(super) managed_by: String,
    pub(super) family: String,
    /// The uid of its first owner.
    pub(super) owner: String,
    pub(super) endpoints: Vec<Endpoint>,
    /// True if another client than a controller has written it.
    pub(super) is_by_user: bool,
}

fn labels(labels: &Value) -> Labels {
    let pairs = labels.as_object().into_iter().flatten();
    pairs.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}

fn texts(list: &Value) -> impl Iterator<Item = String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned)
}

impl Pod {
    pub(super) fn of(pod: &Value) -> Self {
        let conditions = || pod["status"]["conditions"].as_array().into_iter().flatten();
        let is_ready = conditions().filter(|it| it["type"] == "Ready").any(|it| it["status"] == "True");
        let leads = conditions().find(|it| it["type"] == LEADS);
        let is_terminating = !pod["metadata"]["deletionTimestamp"].is_null();
        let has_ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
        let addresses = pod["status"]["podIPs"].as_array().into_iter().flatten();
        Self {
            uid: text(pod, "/metadata/uid").to_owned(),
            labels: labels(&pod["metadata"]["labels"]),
            is_ready: is_ready && !has_ended && !is_terminating,
            is_terminating,
            has_ended,
            leads: leads.map(|it| (it["status"] == "True", text(it, "/lastTransitionTime").to_owned())),
            restarts: pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap_or_default(),
            restarted: None,
            node: text(pod, "/spec/nodeName").to_owned(),
            addresses: addresses.map(|it| text(it, "/ip").to_owned()).collect(),
        }
    }

    /// Returns true if an endpoint stands for this pod.
    pub(super) fn is_behind(&self, endpoint: &Endpoint) -> bool {
        self.uid == endpoint.uid && self.addresses.contains(&endpoint.address)
    }

    pub(super) fn has(&self, wanted: &Labels) -> bool {
        wanted.iter().all(|(key, value)| self.labels.get(key) == Some(value))
    }

    pub(super) fn meets(&self, requirements: &[Requirement]) -> bool {
        requirements.iter().all(|it| {
            let value = self.labels.get(&it.key);
            match it.operator.as_str() {
                "In" => value.is_some_and(|value| it.values.contains(value)),
                "NotIn" => value.is_none_or(|value| !it.values.contains(value)),
                "Exists" => value.is_some(),
                _ => value.is_none(),
            }
        })
    }
}

impl Service {
    pub(super) fn of(service: &Value) -> Self {
        let selector = labels(&service["spec"]["selector"]);
        Self {
            uid: text(service, "/metadata/uid").to_owned(),
            selector: (!selector.is_empty()).then_some(selector),
            names: service["metadata"]["annotations"][NAMES_SELECTOR].as_str().map(str::to_owned),
            publishes_unready: service["spec"]["publishNotReadyAddresses"] == true,
            families: texts(&service["spec"]["ipFamilies"]).collect(),
        }
    }
}

pub(super) fn selector_of(object: &Value) -> Selector {
    let selector = &object["spec"]["selector"];
    let equals = labels(&selector["matchLabels"]).into_iter().map(|(key, value)| Requirement {
        key,
        operator: "In".to_owned(),
        values: BTreeSet::from([value]),
    });
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten().map(|it| Requirement {
        key: text(it, "/key").to_owned(),
        operator: text(it, "/operator").to_owned(),
        values: texts(&it["values"]).collect(),
    });
    let all: Vec<Requirement> = equals.chain(expressions).collect();
    let is_valid = !all.is_empty() && all.iter().all(|it| !it.key.contains(' '));
    let readiness = &object["spec"]["readiness"];
    let readiness = if let Some(lease) = readiness["lease"]["name"].as_str() {
        let key = format!("{}/{lease}", text(object, "/metadata/namespace"));
        if readiness["lease"]["role"] == "Follower" {
            Readiness::Followers(key)
        } else {
            Readiness::Lease(key)
        }
    } else if readiness["pick"] == "Newest" {
        Readiness::Newest
    } else if readiness["condition"].is_string() {
        Readiness::Condition
    } else {
        Readiness::All
    };
    is_valid.then_some(Selected { requirements: all, readiness })
}

/// Returns the ready endpoints for which the addresses of Endpoints stand.
pub(super) fn ready_addresses(endpoints: &Value) -> Vec<Endpoint> {
    let subsets = endpoints["subsets"].as_array().into_iter().flatten();
    let addresses = subsets.flat_map(|subset| subset["addresses"].as_array().into_iter().flatten());
    let ready = addresses.map(|address| Endpoint {
        address: text(address, "/ip").to_owned(),
        pod: format!("{}/{}", text(address, "/targetRef/namespace"), text(address, "/targetRef/name")),
        uid: text(address, "/targetRef/uid").to_owned(),
        is_ready: true,
        is_serving: true,
        is_terminating: false,
        is_chosen: true,
    });
    ready.collect()
}

impl Slice {
    pub(super) fn of(slice: &Value) -> Self {
        let endpoint = |endpoint: &Value| Endpoint {
            address: text(endpoint, "/addresses/0").to_owned(),
            pod: format!("{}/{}", text(endpoint, "/targetRef/namespace"), text(endpoint, "/targetRef/name")),
            uid: text(endpoint, "/targetRef/uid").to_owned(),
            is_ready: endpoint["conditions"]["ready"].as_bool().unwrap_or(true),
            is_serving: endpoint["conditions"]["serving"].as_bool().unwrap_or(true),
            is_terminating: endpoint["conditions"]["terminating"] == true,
            is_chosen: managed_by(slice) != SELECTOR_CONTROLLER
                || endpoint["conditions"]["terminating"].is_boolean(),
        };
        Self {
            uid: text(slice, "/metadata/uid").to_owned(),
            service: service_of(slice),
            managed_by: managed_by(slice).to_owned(),
            family: text(slice, "/addressType").to_owned(),
            owner: text(slice, "/metadata/ownerReferences/0/uid").to_owned(),
            endpoints: slice["endpoints"].as_array().into_iter().flatten().map(endpoint).collect(),
            is_by_user: writer_of_user(slice).is_some(),
        }
    }

    pub(super) fn ready(&self) -> impl Iterator<Item = &Endpoint> {
        self.endpoints.iter().filter(|endpoint| endpoint.is_ready)
    }

    pub(super) fn has_ready(&self, address: &str) -> bool {
        self.ready().any(|endpoint| endpoint.address == address)
    }
}

/// The pods that a Service publishes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Source {
    /// Those of its own selector.
    Own(Labels),
    /// Those of the EndpointSelector that it names.
    Attached(Selected),
    /// Nobody knows: the EndpointSelector that it names does not exist or is invalid. Those that it
    /// has stay as long as they are ready.
    Unknown,
    /// None.
    Nothing,
}

impl Source {
    /// Returns true if a ready pod that is published stays so.
    pub(super) fn keeps(&self, pod: &Pod) -> bool {
        match self {
            Self::Own(labels) => pod.has(labels),
            Self::Attached(selected) => selected.readiness == Readiness::All && selected.has(pod),
            Self::Unknown => true,
            Self::Nothing => false,
        }
    }

    pub(super) fn names_selector(&self) -> bool {
        matches!(self, Self::Attached(_) | Self::Unknown)
    }
}

/// The sources that a Service has had, newest first, each since when.
type Sources = VecDeque<(Source, Since)>;
/// So many sources of a Service are kept.
const MOST_SOURCES: usize = 32;

/// The objects of the server, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) pods: BTreeMap<String, (Pod, Since)>,
    pub(super) services: BTreeMap<String, Service>,
    /// The EndpointSelectors. Those that are gone are `None`, as invalid ones are.
    selectors: BTreeMap<String, Selector>,
    /// The version of the last change of one of them.
    selectors_changed: u64,
    pub(super) nodes: BTreeMap<String, Since>,
    pub(super) slices: BTreeMap<String, Slice>,
    /// The Endpoints with addresses, since nobody mirrors others. True for those that another
    /// client than a controller has written.
    pub(super) endpoints: BTreeMap<String, bool>,
    /// The selector that a Service had before it had none.
    pub(super) last_selectors: BTreeMap<String, Labels>,
    sources: BTreeMap<String, Sources>,
    /// The addresses that pods have ever had, by namespace.
    pub(super) addresses: BTreeSet<(String, String)>,
    /// When a pod was deleted or ended, by uid.
    pub(super) gone: BTreeMap<String, Duration>,
}

impl Objects {
    /// Applies a change. `object` is `None` for a deletion. Returns the slice before it.
    pub(super) fn apply(
        &mut self,
        plural: &str,
        key: &str,
        object: Option<&Value>,
        since: Since,
    ) -> Option<Slice> {
        match (plural, object) {
            ("pods", Some(object)) => {
                let mut pod = Pod::of(object);
                if let Some((before, _)) = self.pods.get(key).filter(|(before, _)| before.uid == pod.uid) {
                    let is_restarted = before.restarts != pod.restarts;
                    pod.restarted = if is_restarted { Some(since.at) } else { before.restarted };
                }
                let namespace = text(object, "/metadata/namespace");
                self.addresses.extend(pod.addresses.iter().map(|it| (namespace.to_owned(), it.clone())));
                let before = self.pods.get(key).map(|(pod, _)| pod).filter(|before| before.uid != pod.uid);
                if !pod.has_ended {
                    // A history may bring a pod back.
                    self.gone.remove(&pod.uid);
                }
                let ended = Some(&pod).filter(|pod| pod.has_ended);
                for gone in before.into_iter().chain(ended) {
                    self.gone.entry(gone.uid.clone()).or_insert(since.at);
                }
                if self.pods.get(key).is_none_or(|(before, _)| *before != pod) {
                    self.pods.insert(key.to_owned(), (pod, since));
                }
            }
            ("pods", None) => {
                if let Some((pod, _)) = self.pods.remove(key) {
                    self.gone.entry(pod.uid).or_insert(since.at);
                }
            }
            ("services", Some(object)) => {
                let service = Service::of(object);
                if let Some(selector) = &service.selector {
                    self.last_selectors.insert(key.to_owned(), selector.clone());
                }
                self.services.insert(key.to_owned(), service);
                self.note_source(key, since);
            }
            ("services", None) => {
                self.services.remove(key);
                self.last_selectors.remove(key);
                self.sources.remove(key);
            }
            ("endpointselectors", object) => {
                let selector = object.and_then(selector_of);
                // A new status is no change.
                if self.selectors.insert(key.to_owned(), selector.clone()).as_ref() != Some(&selector) {
                    self.selectors_changed = since.version;
                }
                let services: Vec<String> = self.services.keys().cloned().collect();
                services.iter().for_each(|service| self.note_source(service, since));
            }
            ("nodes", Some(_)) => drop(self.nodes.entry(key.to_owned()).or_insert(since)),
            ("nodes", None) => drop(self.nodes.remove(key)),
            ("endpoints", Some(object)) if object["subsets"].as_array().is_some_and(|it| !it.is_empty()) => {
                self.endpoints.insert(key.to_owned(), writer_of_user(object).is_some());
            }
            ("endpoints", _) => drop(self.endpoints.remove(key)),
            ("endpointslices", Some(object)) => {
                return self.slices.insert(key.to_owned(), Slice::of(object));
            }
            ("endpointslices", None) => return self.slices.remove(key),
            _ => {}
        }
        None
    }

    fn source_now(&self, key: &str) -> Option<Source> {
        let service = self.services.get(key)?;
        if let Some(selector) = &service.selector {
            return Some(Source::Own(selector.clone()));
        }
        let Some(name) = service.names.as_ref().filter(|_| key != KUBERNETES) else {
            return Some(Source::Nothing);
        };
        let (namespace, _) = key.split_once('/')?;
        let selector = self.selectors.get(&format!("{namespace}/{name}"));
        Some(selector.cloned().flatten().map_or(Source::Unknown, Source::Attached))
    }

    fn note_source(&mut self, key: &str, since: Since) {
        let Some(source) = self.source_now(key) else { return };
        let sources = self.sources.entry(key.to_owned()).or_default();
        if sources.front().is_none_or(|(last, _)| *last != source) {
            sources.push_front((source, since));
            sources.truncate(MOST_SOURCES);
        }
    }

    /// Returns the pods that a Service publishes, and since when this is so.
    pub(super) fn source(&self, key: &str) -> Option<(&Source, Since)> {
        let (source, since) = self.sources.get(key)?.front()?;
        Some((source, *since))
    }

    /// Returns the sources that a process may act on: the present one and those before it, up to
    /// the one that it had surely read. Returns `None` if that is not known, as while it may use an
    /// older version of an EndpointSelector with a newer one of the Service.
    pub(super) fn possible_sources(&self, key: &str, read: Position) -> Option<Vec<&Source>> {
        let sources = self.sources.get(key).filter(|_| self.selectors_changed <= read.selectors)?;
        let is_read = |since: Since| since.version <= read.services.min(read.selectors);
        let read = sources.iter().position(|(_, since)| is_read(*since))?;
        Some(sources.iter().take(read + 1).map(|(source, _)| source).collect())
    }

    /// Returns the slices of a Service that a controller manages.
    pub(super) fn slices_of(&self, service: &str, manager: &str) -> impl Iterator<Item = &Slice> {
        self.slices.values().filter(move |it| it.service == service && it.managed_by == manager)
    }

    /// Returns true if an address is ready in some slice of a Service.
    pub(super) fn publishes(&self, service: &str, family: &str, address: &str) -> bool {
        let slices = self.slices.values();
        slices.filter(|it| it.service == service && it.family == family).any(|it| it.has_ready(address))
    }
}
