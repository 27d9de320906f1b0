//! Plays the kubelet and the scheduler for the pods that clients create, if
//! [`Builder::kubelet`](crate::Builder::kubelet) asks for it.
//!
//! A pod belongs to the kubelet from its creation until somebody else writes more of its status
//! than the conditions of readiness gates. Loaded pods never belong to it. As the garbage
//! collector, it reacts a moment after a change, and only to the changed pod. A change of a node,
//! and the first free address after all were in use, concern the pods that wait.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kube_endpoint_apiserver_printers::git_version;
use kube_endpoint_apiserver_rules::kubelet::{self, NODE_NAME, Next, Unfit};
use kube_endpoint_apiserver_rules::resource::{NODES, PODS, Resource};
use kube_endpoint_apiserver_rules::strategy::{Addresses, ClusterIps, RangeError};
use parking_lot::MutexGuard;
use serde_json::Value;

use crate::metadata::text;
use crate::server::{Conflict, Inner};
use crate::store::{CowMap, Store, Stored};
use crate::verbs::DeleteOptions;

/// The time from a pod's start until it is ready.
const READY_AFTER: Duration = Duration::from_secs(1);

/// The time from the end of a deleted pod's containers until the pod is gone. Until then it is
/// Succeeded and still there.
const REMOVED_AFTER: Duration = Duration::from_millis(500);

/// The ranges of pod addresses of each family. The second one is for a cluster whose Services have
/// the first one.
const RANGES: [[&str; 2]; 2] =
    [["10.244.0.0/14", "172.24.0.0/14"], ["fd00:10:244::/108", "fd00:10:245::/108"]];

/// The state of the kubelet.
pub(crate) struct Kubelet {
    /// The pods that it has run, by uid.
    pods: BTreeMap<String, Run>,
    /// The keys of its pods that no node takes, or that get no address.
    waiting: BTreeSet<String>,
    /// The node of the latest pod. The next pod gets the next one.
    latest_node: String,
    /// The ranges of pod addresses, in the order of the ranges of Services.
    ranges: Vec<Addresses>,
    /// True from the first pod that gets no address until one becomes free. Looking for a free
    /// address in a full range takes long.
    is_full: bool,
}

/// The kubelet's notes about a pod.
#[derive(Default)]
struct Run {
    /// True after somebody else has written the status.
    is_taken_over: bool,
    /// The addresses that it has allocated for the pod.
    addresses: Vec<IpAddr>,
}

/// The nodes at one time. It decodes each at most once, and only those that a pod is compared with.
#[derive(Default)]
struct Nodes {
    objects: Option<CowMap>,
    decoded: BTreeMap<Box<str>, Value>,
}

impl Nodes {
    fn value(&mut self, node: &Stored) -> &Value {
        self.decoded.entry(node.key.clone()).or_insert_with(|| node.value())
    }
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
            is_full: false,
        })
    }

    /// Adds a pod that a client has created.
    pub(crate) fn run(&mut self, pod: &Stored) {
        self.pods.insert(pod.meta.uid.to_string(), Run::default());
    }

    /// Returns true if a pod belongs to the kubelet.
    pub(crate) fn runs(&self, uid: &str) -> bool {
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
        if self.is_full {
            return Vec::new();
        }
        let addresses: Vec<IpAddr> = self.ranges.iter_mut().map_while(Addresses::take_next).collect();
        if addresses.len() == self.ranges.len() {
            return addresses;
        }
        self.release(&addresses);
        self.is_full = true;
        Vec::new()
    }

    fn release(&mut self, addresses: &[IpAddr]) {
        self.is_full &= addresses.is_empty();
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

    /// Reacts to a change of an object by a client.
    pub(crate) fn tell_kubelet(&self, resource: &Resource, key: &str) {
        if self.kubelet.is_none() {
            return;
        }
        if *resource == PODS {
            self.sync_pod_later(key, self.settings.gc_delay, false);
        } else if *resource == NODES {
            self.wake_waiting_pods_later();
        }
    }

    /// Looks at the waiting pods once, however many changes come until then.
    fn wake_waiting_pods_later(&self) {
        if self.wakes_waiting_pods.swap(true, Ordering::Relaxed) {
            return;
        }
        self.later(self.settings.gc_delay, |inner| {
            inner.wakes_waiting_pods.store(false, Ordering::Relaxed);
            let waiting = inner.kubelet_of(&PODS).map(|kubelet| kubelet.waiting.clone());
            let mut nodes = Nodes::default();
            waiting.unwrap_or_default().iter().for_each(|key| inner.sync_pod(key, false, &mut nodes));
        });
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

    /// Forgets a removed pod. Its addresses are free for pods that wait for one.
    pub(crate) fn forget_pod(&self, resource: &Resource, pod: &Stored) {
        let Some(mut kubelet) = self.kubelet_of(resource) else { return };
        let Some(run) = kubelet.pods.remove(&*pod.meta.uid) else { return };
        kubelet.waiting.remove(&*pod.key);
        let was_full = kubelet.is_full;
        kubelet.release(&run.addresses);
        let has_room = was_full && !kubelet.is_full;
        // Without a runtime the waiting pods start at once.
        drop(kubelet);
        if has_room {
            self.wake_waiting_pods_later();
        }
    }

    fn sync_pod_later(&self, key: &str, delay: Duration, is_ripe: bool) {
        let key = key.to_owned();
        self.later(delay, move |inner| inner.sync_pod(&key, is_ripe, &mut Nodes::default()));
    }

    /// Takes the next step of a pod, and schedules the one after it. `is_ripe` is true once the pod
    /// has run long enough to be ready.
    fn sync_pod(&self, key: &str, is_ripe: bool, nodes: &mut Nodes) {
        let soon = (self.settings.gc_delay, is_ripe);
        let again = self.take_step(key, is_ripe, nodes).unwrap_or(Some(soon));
        if let Some((delay, is_ripe)) = again {
            self.sync_pod_later(key, delay, is_ripe);
        }
    }

    /// Takes the next step of a pod. Returns when to look at it again, and `is_ripe` of that time.
    fn take_step(
        &self,
        key: &str,
        is_ripe: bool,
        nodes: &mut Nodes,
    ) -> Result<Option<(Duration, bool)>, Conflict> {
        let Some(mut kubelet) = self.kubelet_of(&PODS) else { return Ok(None) };
        let Some(current) = self.current(&PODS, key).filter(|pod| kubelet.runs(&pod.meta.uid)) else {
            kubelet.waiting.remove(key);
            return Ok(None);
        };
        let (pod, now) = (current.value(), self.now());
        let write = |pod: Value| self.commit(&PODS, key, Some(current.version), &pod);
        match kubelet::next(&pod) {
            Next::Start => self.start_pod(&mut kubelet, &current, pod, nodes),
            Next::BecomeReady if is_ripe => write(kubelet::ready(pod, now)).map(|_| None),
            // The end of a deletion may be the step after this one.
            Next::UpdateReady => {
                write(kubelet::ready(pod, now)).map(|_| Some((self.settings.gc_delay, is_ripe)))
            }
            Next::Observe => write(kubelet::observed(pod)).map(|_| Some((self.settings.gc_delay, is_ripe))),
            Next::Nothing | Next::BecomeReady => Ok(None),
            Next::End(end) => match Duration::try_from(end.duration_since(now)) {
                Ok(left) if !left.is_zero() => Ok(Some((left, false))),
                _ => write(kubelet::ended(pod, now)).map(|_| Some((REMOVED_AFTER, false))),
            },
            Next::Remove => {
                drop(kubelet);
                self.remove_pod(&current).map(|()| None)
            }
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
    fn start_pod(
        &self,
        kubelet: &mut Kubelet,
        current: &Stored,
        pod: Value,
        nodes: &mut Nodes,
    ) -> Result<Option<(Duration, bool)>, Conflict> {
        let (key, version) = (&*current.key, Some(current.version));
        let node = match pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty()) {
            // A pod whose node does not exist waits for it.
            Some(name) => self.current(&NODES, name).map(|node| node.value()).ok_or_else(BTreeMap::new),
            None => self.choose_node(kubelet, &pod, nodes),
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
                    return Ok(None);
                }
                return self.commit(&PODS, key, version, &written).map(|_| None);
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
        Ok(Some((READY_AFTER, true)))
    }

    /// Returns the first node after the latest one, by name, that takes a pod, or the number of
    /// nodes for each reason against it. Makes a node if there is none.
    fn choose_node(
        &self,
        kubelet: &mut Kubelet,
        pod: &Value,
        nodes: &mut Nodes,
    ) -> Result<Value, BTreeMap<Unfit, usize>> {
        let stored = || self.store.lock().table(Store::table_of(&NODES)).objects.clone();
        let objects = nodes.objects.get_or_insert_with(|| {
            if stored().len() == 0 {
                // If this fails, somebody else has made it.
                let _ = self.create(
                    &NODES,
                    "",
                    kubelet::node(&git_version(self.settings.minor_version), self.now()),
                    false,
                    NODE_NAME,
                );
            }
            stored()
        });
        let latest = kubelet.latest_node.clone();
        let after = objects.cursor(&latest, "").skip_while(|node| *node.key == *latest);
        let all = after.chain(objects.cursor("", "")).take(objects.len());
        let mut unfit = BTreeMap::new();
        for node in all {
            let value = nodes.value(&node);
            match kubelet::fits(pod, value) {
                Ok(()) => {
                    node.name().clone_into(&mut kubelet.latest_node);
                    return Ok(value.clone());
                }
                Err(why) => *unfit.entry(why).or_default() += 1,
            }
        }
        Err(unfit)
    }
}

#[cfg(test)]
mod tests;
