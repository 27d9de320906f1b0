//! Looks at Services that get no pods or no names from their selector, and at what else sends
//! clients somewhere.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use kube_endpoint_core_model::well_known::LABEL_HEADLESS;
use kube_endpoint_core_model::{EndpointSlice, Endpoints, ObjectKey, Pod, Text, address};

use super::Looked;
use crate::consumers::kube_proxy::numbers_used;
use crate::fault::{Governing, NoPods, no_name};
use crate::selection::Selection;
use crate::traffic::ServedBy;
use crate::{Fault, age};

/// The first minor version whose kube-proxy uses a Service with the label of headless slices.
const USES_LABELLED_SERVICES: u32 = 36;

impl Looked<'_> {
    /// Returns the fault of a Service that is being deleted.
    pub(super) fn terminating(&self) -> Fault {
        let service = self.service;
        Fault::ServiceTerminating {
            seconds: service.deletion_timestamp.map(|time| age::since(time, self.now)),
            finalizers: self.objects.unviewed.finalizers.get(&service.key).cloned().unwrap_or_default(),
            none_is_left: self.counts.is_down(),
        }
    }

    /// Returns the fault of an alias.
    pub(super) fn alias(&self) -> Fault {
        let external_name = self.objects.unviewed.external_names.get(&self.service.key);
        match external_name.and_then(|name| Some((name, no_name(name)?))) {
            Some((name, why)) => Fault::ExternalNameInvalid { external_name: name.clone(), why },
            None => Fault::ExternalName,
        }
    }

    /// Returns the likely reason why no pod has the labels of the selector.
    pub(super) fn why_no_pod(&self) -> NoPods {
        let selector = self.service.selector.clone().unwrap_or_default();
        self.nearly_matching.cause(&selector, &self.service.labels)
    }

    /// Returns a fault if the API server refuses the pods of the Service's workload, and no pod
    /// runs. Events tell only the name of the workload, which begins with that of the Service or
    /// with a label of its pods.
    pub(super) fn pods_not_created(&self) -> Option<Fault> {
        let known = self.options.known.pods && self.pods.iter().all(|pod| pod.is_terminal());
        if !known || self.why_no_pod() == (NoPods::ScaledToZero { by: "Knative" }) {
            return None;
        }
        let unviewed = &self.objects.unviewed;
        let values: Vec<&str> = match self.selection {
            Selection::Own(selector) => selector.iter().map(|(_, value)| &**value).collect(),
            Selection::Attached { selector, .. } => {
                selector.alternatives().flat_map(|(_, values)| values).map(String::as_str).collect()
            }
            _ => Vec::new(),
        };
        let values = values.into_iter().filter(|value| value.len() > 2);
        let names: Vec<&str> = std::iter::once(&*self.service.key.name).chain(values).collect();
        let owners = self.pods.iter().filter_map(|pod| unviewed.serving(&pod.key)?.owner.as_ref());
        let owners: Vec<&(Text, Text)> = owners.collect();
        let failed = unviewed.failed_create(&self.service.key.namespace, &names, &owners)?;
        Some(Fault::PodsNotCreated {
            kind: failed.kind.clone(),
            workload: failed.name.clone(),
            message: failed.event.message.clone(),
        })
    }

    /// Looks at the DNS names of pods, which they get from the headless Service whose name is their
    /// subdomain. If no pod has a hostname, nobody expects such names.
    pub(super) fn without_names(&self) -> Option<Fault> {
        let service = self.service;
        let named: Vec<&Arc<Pod>> = self.pods.iter().filter(|pod| pod.hostname.is_some()).collect();
        if !service.is_headless() || named.iter().any(|pod| pod.hostname_for(service).is_some()) {
            return None;
        }
        let without = named.into_iter().filter_map(|pod| Some((pod, self.governing(pod)?)));
        let (pod, governing) = without.min_by_key(|(_, governing)| *governing == Governing::NotNamed)?;
        Some(Fault::HeadlessWithoutNames {
            subdomain: pod.subdomain.clone().unwrap_or_default(),
            service: service.key.name.clone(),
            governing,
        })
    }

    /// Returns why a pod gets no name from the Service that its subdomain names, or `None` if it
    /// gets one.
    fn governing(&self, pod: &Pod) -> Option<Governing> {
        let Some(subdomain) = pod.subdomain.as_ref().filter(|it| !it.is_empty()) else {
            return Some(Governing::NotNamed);
        };
        let key = ObjectKey { namespace: pod.key.namespace.clone(), name: subdomain.clone() };
        let Some(other) = self.objects.service(&key) else { return Some(Governing::Missing) };
        // Without a selector, somebody writes its endpoints, and may name the pods.
        let selects = other.selector.as_ref().is_none_or(|selector| selector.selects(&pod.labels));
        match (other.is_headless(), selects) {
            (false, _) => Some(Governing::NotHeadless),
            (true, false) => Some(Governing::SelectsOthers),
            (true, true) => None,
        }
    }

    /// Returns a fault if kube-proxy of older nodes ignores the Service because of a label.
    pub(super) fn ignored_by_label(&self) -> Option<Fault> {
        let is_labelled = self.service.labels.contains_key(LABEL_HEADLESS);
        if !is_labelled || self.served.by != ServedBy::KubeProxy {
            return None;
        }
        let kubelets = &self.objects.unviewed.kubelets;
        #[expect(clippy::disallowed_methods, reason = "a number does not depend on the order")]
        let old = kubelets.values().filter(|minor| **minor < USES_LABELLED_SERVICES).count();
        (old > 0 || kubelets.is_empty()).then_some(Fault::ServiceLabelIgnored { old, known: kubelets.len() })
    }

    /// Returns the fault of a slice that names no controller, with the addresses to which it sends
    /// clients and that belong to no pod of the Service.
    pub(super) fn unmanaged(&self, slice: &EndpointSlice) -> Fault {
        let own: BTreeSet<IpAddr> = self.pods.iter().flat_map(|pod| pod.pod_ips.iter().copied()).collect();
        let addresses_sent = self.served.endpoints_of(slice);
        let number = numbers_used(self.service, slice).into_iter().next();
        let sent = slice.endpoints.iter().filter(|endpoint| endpoint.conditions.ready != Some(false));
        let sent = sent.flat_map(|endpoint| endpoint.addresses.iter().take(addresses_sent(endpoint)));
        let others = sent.filter_map(|text| match address::parse_sloppy(text) {
            Some(ip) if own.contains(&ip) => None,
            Some(ip) => {
                Some(number.map_or_else(|| text.clone(), |port| SocketAddr::new(ip, port).to_string().into()))
            }
            None => Some(text.clone()),
        });
        Fault::UnmanagedSlice {
            slice: slice.metadata.name.clone(),
            addresses: others.collect(),
            besides_pods: self.counts.receiving.is_some_and(|pods| pods > 0),
        }
    }

    /// Returns a fault if slices made from pods send clients to pods that the Service does not
    /// select, or that do not exist.
    pub(super) fn of_missing_pods(&self) -> Option<Fault> {
        if !self.selection.selects_pods() || !self.options.known.pods {
            return None;
        }
        let own: BTreeSet<&Text> = self.pods.iter().map(|pod| &pod.key.name).collect();
        let slices = self.objects.slices_of(&self.service.key).iter();
        let manager = &self.selection.plan_options(self.options).manager;
        let slices = slices.filter(|slice| slice.is_managed_by(manager));
        let mut missing: BTreeSet<Text> = BTreeSet::new();
        for slice in slices {
            let addresses_sent = self.served.endpoints_of(slice);
            let ready = slice.endpoints.iter().filter(|endpoint| endpoint.conditions.ready != Some(false));
            for endpoint in ready.filter(|endpoint| addresses_sent(endpoint) > 0) {
                let target = endpoint.target_ref.as_ref().filter(|target| *target.kind == *"Pod");
                missing.extend(target.map(|target| target.name.clone()).filter(|name| !own.contains(name)));
            }
        }
        (!missing.is_empty()).then(|| Fault::MissingPodsServed {
            pods: missing.into_iter().collect(),
            none_is_left: self.counts.receiving == Some(0),
            is_attached: matches!(self.selection, Selection::Attached { .. }),
            left: Vec::new(),
        })
    }

    /// Returns the fault of Endpoints that another client wrote, with the effect: most clients read
    /// slices.
    pub(super) fn endpoints_of_others(&self, endpoints: &Endpoints, by: Option<&Text>) -> Fault {
        let slices = self.objects.slices_of(&self.service.key).iter();
        let in_slices = slices.flat_map(|slice| &slice.endpoints);
        let in_slices = in_slices.filter(|endpoint| endpoint.conditions.ready != Some(false)).count();
        Fault::EndpointsWrittenByOthers {
            by: by.cloned(),
            in_endpoints: endpoints.subsets.counts().0,
            in_slices: self.options.known.slices.then_some(in_slices),
        }
    }
}
