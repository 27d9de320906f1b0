//! Looks objects up across Services and namespaces: by cluster IP, by the address of a pod, and by
//! labels. It indexes the objects once, and only if somebody asks.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use kube_endpoint_core_model::{ObjectKey, Pod, Service, StringMap, Text};
use serde::Serialize;

use crate::facts::defaults;
use crate::facts::objects::Objects;
use crate::facts::options::Options;

/// The pods of a namespace that a selector would select.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Elsewhere {
    pub namespace: Text,
    pub pods: usize,
}

/// The indexes of some objects.
pub(crate) struct Across<'a> {
    objects: &'a Objects,
    options: &'a Options,
    cluster_ips: OnceCell<HashMap<IpAddr, ObjectKey>>,
    /// The addresses of pods, sorted.
    addresses: OnceCell<Vec<(IpAddr, Arc<Pod>)>>,
    /// The namespaces of the pods that have a label.
    namespaces: OnceCell<HashMap<(Text, Text), Vec<Text>>>,
    /// The results for selectors: many namespaces have the same programs.
    selected: RefCell<HashMap<StringMap, Arc<[Elsewhere]>>>,
}

impl<'a> Across<'a> {
    pub(crate) fn new(objects: &'a Objects, options: &'a Options) -> Self {
        Self {
            objects,
            options,
            cluster_ips: OnceCell::new(),
            addresses: OnceCell::new(),
            namespaces: OnceCell::new(),
            selected: RefCell::default(),
        }
    }

    /// Returns the Service with a cluster IP. `from` is the Service that the reader asks about.
    pub(crate) fn service_at(&self, address: IpAddr, from: &ObjectKey) -> Option<&ObjectKey> {
        let all = || {
            let of = |service: &'a Arc<Service>| service.cluster_ips().map(|it| (it, service.key.clone()));
            let used = self.objects.services.values().flat_map(of);
            used.filter(|(address, _)| !defaults::stands_for_a_cluster_ip(*address)).collect()
        };
        let found = self.cluster_ips.get_or_init(all).get(&address)?;
        (found.namespace == from.namespace || self.options.other_namespaces).then_some(found)
    }

    /// Returns the pods with an address, sorted. It leaves out pods in the network of their node,
    /// which have the address of the node.
    pub(crate) fn pods_with(&self, address: IpAddr) -> impl Iterator<Item = &Arc<Pod>> {
        let all = || {
            let pods = self.objects.pods.values().filter(|pod| !pod.host_network);
            let mut all: Vec<_> =
                pods.flat_map(|pod| pod.pod_ips.iter().map(move |it| (*it, Arc::clone(pod)))).collect();
            all.sort_by_key(|(address, _)| *address);
            all.dedup_by(|(one, pod), (other, before)| one == other && pod.key == before.key);
            all
        };
        let all = self.addresses.get_or_init(all);
        let from = all.partition_point(|(other, _)| *other < address);
        all[from..].iter().take_while(move |(other, _)| *other == address).map(|(_, pod)| pod)
    }

    /// Returns the pods that have an address now, if there are several, sorted.
    pub(crate) fn pods_that_share(&self, address: IpAddr) -> Vec<&ObjectKey> {
        let holding = self.pods_with(address).filter(|pod| self.holds_its_addresses(pod));
        let all: Vec<_> = holding.map(|pod| &pod.key).collect();
        if all.len() > 1 { all } else { Vec::new() }
    }

    /// Returns true if an address of a pod is that of no other one. A pod that has ended, that is
    /// being deleted, or whose node is gone, may have had it before. A pod that is not ready may
    /// get another one: after a restart of its node, the status has the old one for a while.
    fn holds_its_addresses(&self, pod: &Pod) -> bool {
        let node = pod.node_name.as_ref().filter(|_| self.options.known.nodes);
        let has_node = || node.is_some_and(|name| self.objects.nodes.contains_key(name));
        pod.is_ready() && !pod.is_terminal() && !pod.is_terminating() && has_node()
    }

    /// Returns the namespaces with pods that have the labels of a selector and have not ended,
    /// sorted.
    pub(crate) fn with_labels(&self, selector: &StringMap) -> Arc<[Elsewhere]> {
        if selector.is_empty() || !self.options.other_namespaces {
            return Arc::default();
        }
        if let Some(known) = self.selected.borrow().get(selector) {
            return Arc::clone(known);
        }
        let namespaces = self.namespaces.get_or_init(|| self.by_label());
        let with_label = |(label, value): (&Text, &Text)| {
            namespaces.get(&(label.clone(), value.clone())).map_or(&[][..], Vec::as_slice)
        };
        let fewest = selector.iter().map(with_label).min_by_key(|namespaces| namespaces.len());
        let in_namespace = |namespace: &Text| {
            let pods = self.objects.selected(namespace, selector);
            let pods = pods.iter().filter(|pod| !pod.is_terminal()).count();
            (pods > 0).then(|| Elsewhere { namespace: namespace.clone(), pods })
        };
        let found: Arc<[Elsewhere]> = fewest.into_iter().flatten().filter_map(in_namespace).collect();
        self.selected.borrow_mut().insert(selector.clone(), Arc::clone(&found));
        found
    }

    fn by_label(&self) -> HashMap<(Text, Text), Vec<Text>> {
        let mut namespaces: HashMap<(Text, Text), Vec<Text>> = HashMap::new();
        // Pods are sorted by namespace.
        for pod in self.objects.pods.values() {
            for (label, value) in pod.labels.iter() {
                let of_label = namespaces.entry((label.clone(), value.clone())).or_default();
                if of_label.last().is_none_or(|last| *last != pod.key.namespace) {
                    of_label.push(pod.key.namespace.clone());
                }
            }
        }
        namespaces
    }
}
