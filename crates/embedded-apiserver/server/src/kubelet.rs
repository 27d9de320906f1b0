//! Plays the kubelet and the scheduler for the pods that clients create, if
//! [`Builder::kubelet`](crate::Builder::kubelet) asks for it.
//!
//! A pod belongs to the kubelet from its creation until somebody else writes its status. Loaded
//! pods never belong to it. As the garbage collector, it reacts a moment after a change, and only
//! to the changed pod; a change of a node concerns the pods that wait for one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use kube_endpoint_apiserver_printers::GIT_VERSION;
use kube_endpoint_apiserver_rules::kubelet::{self, NODE_NAME, Next, Unfit};
use kube_endpoint_apiserver_rules::resource::{NODES, PODS, Resource};
use kube_endpoint_apiserver_rules::strategy::{Addresses, ClusterIps, RangeError};
use parking_lot::MutexGuard;
use serde_json::Value;

use crate::metadata::text;
use crate::server::{Conflict, Inner};
use crate::store::{Store, Stored};
use crate::verbs::DeleteOptions;

/// The time from a pod's start until it is ready.
const READY_AFTER: Duration = Duration::from_secs(1);

/// The ranges of pod addresses of each family. The second one is for a cluster whose Services have
/// the first one.
const RANGES: [[&str; 2]; 2] =
    [["10.244.0.0/14", "172.24.0.0/14"], ["fd00:10:244::/108", "fd00:10:245::/108"]];

/// The state of the kubelet.
pub(crate) struct Kubelet {
    /// The pods that it has run, by uid.
    pods: BTreeMap<String, Run>,
    /// The keys of its pods that no node takes.
    waiting: BTreeSet<String>,
    /// The node of the latest pod. The next pod gets the next one.
    latest_node: String,
    /// The ranges of pod addresses, in the order of the ranges of Services.
    ranges: Vec<Addresses>,
}

/// The kubelet's notes about a pod.
#[derive(Default)]
struct Run {
    /// True after somebody else has written the status.
    is_taken_over: bool,
    /// The addresses that it has allocated for the pod.
    addresses: Vec<IpAddr>,
}

impl Kubelet {
    /// Returns a kubelet that gives pods addresses of the families of Services.
    pub(crate) fn new(cluster_ips: &ClusterIps) -> Result<Self, RangeError> {
        let of_pods = |services: &Addresses| {
            let [first, second] = RANGES[usize::from(!services.is_ipv4())];
            let range = Addresses::parse(first)?;
            if range.overlaps(services) { Addresses::parse(second) } else { Ok(range) }
        };
        Ok(Self {
            pods: BTreeMap::new(),
            waiting: BTreeSet::new(),
            latest_node: String::new(),
            ranges: cluster_ips.ranges().iter().map(of_pods).collect::<Result<_, _>>()?,
        })
    }

    fn runs(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(|run| !run.is_taken_over)
    }

    /// Leaves a pod to the writer of its status, and its addresses to nobody else.
    pub(crate) fn give_up(&mut self, pod: &Value) {
        if let Some(run) = self.pods.get_mut(text(pod, "uid")) {
            run.is_taken_over = true;
        }
        for ip in pod["status"]["podIPs"].as_array().into_iter().flatten() {
            let address = ip["ip"].as_str().and_then(|ip| ip.parse::<IpAddr>().ok());
            if let Some((address, range)) =
                address.and_then(|it| Some((it, self.ranges.iter_mut().find(|range| range.contains(it))?)))
            {
                range.occupy(address);
            }
        }
    }

    /// Returns an address of each range. Returns an empty list if a range is full.
    fn allocate(&mut self) -> Vec<IpAddr> {
        let addresses: Vec<IpAddr> = self.ranges.iter_mut().map_while(Addresses::take_next).collect();
        if addresses.len() == self.ranges.len() {
            return addresses;
        }
        self.release(&addresses);
        Vec::new()
    }

    fn release(&mut self, addresses: &[IpAddr]) {
        for address in addresses {
            if let Some(range) = self.ranges.iter_mut().find(|range| range.contains(*address)) {
                range.release(*address);
            }
        }
    }
}

impl Inner {
    /// Returns the kubelet, if there is one and a resource is pods.
    pub(crate) fn kubelet_of(&self, resource: &Resource) -> Option<MutexGuard<'_, Kubelet>> {
        self.kubelet.as_ref().filter(|_| *resource == PODS).map(|kubelet| kubelet.lock())
    }

    /// Gives a pod that a client has created to the kubelet.
    pub(crate) fn run_pod(&self, resource: &Resource, pod: &Stored) {
        if let Some(mut kubelet) = self.kubelet_of(resource) {
            kubelet.pods.insert(pod.meta.uid.to_string(), Run::default());
        }
    }

    /// Reacts to a change of an object by a client.
    pub(crate) fn tell_kubelet(&self, resource: &Resource, key: &str) {
        if self.kubelet.is_none() {
            return;
        }
        if *resource == PODS {
            self.sync_pod_later(key, self.settings.gc_delay, false);
        } else if *resource == NODES {
            self.later(self.settings.gc_delay, |inner| {
                let waiting = inner.kubelet_of(&PODS).map(|kubelet| kubelet.waiting.clone());
                waiting.unwrap_or_default().iter().for_each(|key| inner.sync_pod(key, false));
            });
        }
    }

    /// Goes on with all pods of the kubelet after a restore.
    pub(crate) fn resume_pods(&self) {
        let keys: Vec<String> = {
            let Some(kubelet) = self.kubelet_of(&PODS) else { return };
            let store = self.store.lock();
            let places = kubelet.pods.keys().filter_map(|uid| store.place_of(uid));
            places.map(|(_, key)| key.to_string()).collect()
        };
        keys.iter().for_each(|key| self.sync_pod_later(key, READY_AFTER, true));
    }

    /// Forgets a removed pod.
    pub(crate) fn forget_pod(&self, resource: &Resource, pod: &Stored) {
        if let Some(mut kubelet) = self.kubelet_of(resource)
            && let Some(run) = kubelet.pods.remove(&*pod.meta.uid)
        {
            kubelet.release(&run.addresses);
            kubelet.waiting.remove(&*pod.key);
        }
    }

    fn sync_pod_later(&self, key: &str, delay: Duration, is_ripe: bool) {
        let key = key.to_owned();
        self.later(delay, move |inner| inner.sync_pod(&key, is_ripe));
    }

    /// Takes the next step of a pod. `is_ripe` is true once it has run long enough to be ready.
    fn sync_pod(&self, key: &str, is_ripe: bool) {
        let Some(mut kubelet) = self.kubelet_of(&PODS) else { return };
        let Some(current) = self.current(&PODS, key).filter(|pod| kubelet.runs(&pod.meta.uid)) else {
            kubelet.waiting.remove(key);
            return;
        };
        let (pod, now) = (current.value(), self.now());
        let done = match kubelet::next(&pod) {
            Next::Nothing => Ok(()),
            Next::Start => self.start_pod(&mut kubelet, &current, pod),
            Next::BecomeReady if is_ripe => {
                self.commit(&PODS, key, Some(current.version), &kubelet::ready(pod, now)).map(drop)
            }
            Next::BecomeReady => Ok(()),
            Next::End(end) => match Duration::try_from(end.duration_since(now)) {
                Ok(left) if !left.is_zero() => {
                    self.sync_pod_later(key, left, false);
                    Ok(())
                }
                _ => {
                    let ended = kubelet::ended(pod, now);
                    let written = self.commit(&PODS, key, Some(current.version), &ended);
                    drop(kubelet);
                    written.and_then(|ended| self.remove_pod(&ended))
                }
            },
        };
        if done.is_err() {
            self.sync_pod_later(key, self.settings.gc_delay, is_ripe);
        }
    }

    /// Confirms that the containers of a pod have ended, as a kubelet does: by a deletion without
    /// grace period. Finalizers still hold the pod.
    fn remove_pod(&self, pod: &Stored) -> Result<(), Conflict> {
        let options = DeleteOptions {
            grace: Some(0),
            uid: Some(pod.meta.uid.to_string()),
            version: Some(pod.version.to_string()),
            propagation: None,
        };
        match self.delete(&PODS, &pod.key, &options, false) {
            Err(status) if status.code == 409 => Err(Conflict),
            _ => Ok(()),
        }
    }

    /// Gives a pod a node and addresses, and starts its containers.
    fn start_pod(&self, kubelet: &mut Kubelet, current: &Stored, pod: Value) -> Result<(), Conflict> {
        let (key, version) = (&*current.key, Some(current.version));
        let node = match pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty()) {
            // A pod whose node does not exist waits for it.
            Some(name) => self.current(&NODES, name).map(|node| node.value()).ok_or_else(BTreeMap::new),
            None => self.choose_node(kubelet, &pod),
        };
        let on_host = kubelet::uses_host_network(&pod);
        let placed = node.and_then(|node| match on_host {
            true => Ok((node, Vec::new())),
            false => match kubelet.allocate() {
                own if own.is_empty() => Err(BTreeMap::from([(Unfit::NoAddress, 1)])),
                own => Ok((node, own)),
            },
        });
        let (node, own) = match placed {
            Ok(placed) => placed,
            Err(unfit) => {
                kubelet.waiting.insert(key.to_owned());
                let written = kubelet::unschedulable(pod.clone(), &unfit, self.now());
                if unfit.is_empty() || written == pod {
                    return Ok(());
                }
                return self.commit(&PODS, key, version, &written).map(drop);
            }
        };
        let is_served =
            |address: &IpAddr| kubelet.ranges.iter().any(|range| range.is_ipv4() == address.is_ipv4());
        let host: Vec<IpAddr> = kubelet::node_addresses(&node).into_iter().filter(is_served).collect();
        let shown = if on_host { &host } else { &own };
        let started = kubelet::started(pod, text(&node, "name"), &host, shown, self.now());
        if let Err(conflict) = self.commit(&PODS, key, version, &started) {
            kubelet.release(&own);
            return Err(conflict);
        }
        kubelet.waiting.remove(key);
        if let Some(run) = kubelet.pods.get_mut(&*current.meta.uid) {
            run.addresses = own;
        }
        self.sync_pod_later(key, READY_AFTER, true);
        Ok(())
    }

    /// Returns the first node after the latest one, by name, that takes a pod, or the number of
    /// nodes for each reason against it. Makes a node if there is none.
    fn choose_node(&self, kubelet: &mut Kubelet, pod: &Value) -> Result<Value, BTreeMap<Unfit, usize>> {
        let nodes = || self.store.lock().table(Store::table_of(&NODES)).objects.clone();
        if nodes().len() == 0 {
            // If this fails, somebody else has made it.
            let _ = self.create(&NODES, "", kubelet::node(GIT_VERSION, self.now()), false, NODE_NAME);
        }
        let nodes = nodes();
        let latest = kubelet.latest_node.clone();
        let after = nodes.cursor(&latest, "").skip_while(|node| *node.key == *latest);
        let mut unfit = BTreeMap::new();
        for node in after.chain(nodes.cursor("", "")).take(nodes.len()) {
            let value = node.value();
            match kubelet::fits(pod, &value) {
                Ok(()) => {
                    node.name().clone_into(&mut kubelet.latest_node);
                    return Ok(value);
                }
                Err(why) => *unfit.entry(why).or_default() += 1,
            }
        }
        Err(unfit)
    }
}
