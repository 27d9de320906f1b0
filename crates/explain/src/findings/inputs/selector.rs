//! Selectors that match no pod.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_endpoint_core_model::well_known::ANNOTATION_ENDPOINT_SELECTOR;
use kube_endpoint_core_model::{LabelSelector, ObjectKey, Pod, Service, StringMap, Text};

use super::FaultInputs;
use crate::facts::objects::Objects;
use crate::facts::options::Options;
use crate::facts::workload::Workload;
use crate::models::near::{NearMatches, NoPods, stem};
use crate::models::programs;
use crate::models::selection::Selection;

impl FaultInputs<'_> {
    /// Returns the selector of the Service, if it is known that it selects no pod.
    pub(crate) fn selector_without_pods(&self) -> Option<&StringMap> {
        match self.selection {
            Selection::Own(selector) => self.is_without_pods().then_some(selector),
            _ => None,
        }
    }

    /// Returns name and selector of the EndpointSelector of the Service, if it is known that it
    /// selects no pod.
    pub(crate) fn endpoint_selector_without_pods(&self) -> Option<(&Text, &LabelSelector)> {
        match self.selection {
            Selection::Attached { name, selector, .. } => self.is_without_pods().then_some((name, selector)),
            _ => None,
        }
    }

    fn is_without_pods(&self) -> bool {
        self.is_selecting() && self.options.known.pods && self.pods.is_empty()
    }

    /// Returns what is known about a selector without pods.
    pub(crate) fn unselected(&self) -> Unselected<'_> {
        let &Self { objects, service, selection, nearly_matching: near, .. } = self;
        Unselected { objects, service, selection, near }
    }

    /// Returns true if nobody selects pods for the Service because the key of its annotation is
    /// mistyped.
    pub(crate) fn names_a_selector_wrongly(&self) -> bool {
        let mut mistyped = self.objects.raw.mistyped_keys(&self.service.key).iter();
        matches!(self.selection, Selection::None)
            && mistyped.any(|mistyped| mistyped.meant == ANNOTATION_ENDPOINT_SELECTOR)
    }
}

/// A Service whose selector selects no pod, and what is near it.
#[derive(Clone, Copy)]
pub(crate) struct Unselected<'a> {
    pub(crate) objects: &'a Objects,
    pub(crate) service: &'a Service,
    pub(crate) selection: Selection<'a>,
    pub(crate) near: &'a NearMatches,
}

impl<'a> Unselected<'a> {
    /// Returns true if pods of the Service may exist that manifests do not have, such as those that
    /// an operator makes: no workload of the manifests is plainly meant.
    pub(crate) fn may_exist(self, options: &Options) -> bool {
        let is_near = || {
            self.near.typos().next().is_some()
                || self.near.other_keys.is_some()
                || self.selected_workloads().next().is_some()
                // A program may set a role that no template has.
                || !matches!(self.why_no_pod(), NoPods::NotKnown | NoPods::NoPodHasRole { .. })
        };
        options.has_manifests_of_pods(&self.service.key.namespace) && !is_near()
    }

    /// Returns the workloads whose pods the selector would select.
    pub(crate) fn selected_workloads(self) -> impl Iterator<Item = &'a Workload> {
        let selection = self.selection;
        let of_namespace = self.objects.workloads_of(&self.service.key.namespace);
        of_namespace.filter(move |workload| match selection {
            Selection::Own(selector) => selector.selects(&workload.labels),
            Selection::Attached { selector, .. } => selector.matches(&workload.labels),
            _ => false,
        })
    }

    /// Returns the likely reason why no pod has the labels of the selector.
    pub(crate) fn why_no_pod(self) -> NoPods {
        match self.objects.raw.need_no_pods.get(&self.service.key) {
            Some(by @ &"Cilium") => return NoPods::InOtherClusters { by },
            Some(by) => return NoPods::ScaledToZero { by },
            None => {}
        }
        let selector = self.service.selector.clone().unwrap_or_default();
        match self.near.cause(&selector, &self.service.labels) {
            NoPods::NotKnown => {
                let named = self.pods_of_the_name(&selector);
                named.or_else(|| self.pods_without_a_label(&selector)).unwrap_or(NoPods::NotKnown)
            }
            cause => cause,
        }
    }

    /// Returns the pods of a workload with the name of the Service, if all of them differ from the
    /// selector in the same labels: they are plainly meant.
    fn pods_of_the_name(&self, selector: &StringMap) -> Option<NoPods> {
        let name = &self.service.key.name;
        let is_named = |pod: &&Arc<Pod>| !pod.is_terminal() && stem(&pod.key.name) == &**name;
        let pods: Vec<&Arc<Pod>> = self.objects.pods_named(&self.service.key).filter(is_named).collect();
        let differ = |pod: &Arc<Pod>| -> Vec<String> {
            let wrong = selector.iter().filter(|(key, wanted)| pod.labels.get(key) != Some(wanted));
            let said = |(key, wanted): (&Text, &Text)| match pod.labels.get(key) {
                Some(found) => format!("{key}={found} (asked: {wanted})"),
                None => format!("no label {key}"),
            };
            wrong.map(said).collect()
        };
        let first = differ(pods.first()?);
        let all_differ = pods.iter().all(|pod| differ(pod) == first);
        let pods = pods.iter().map(|pod| pod.key.name.clone()).collect();
        all_differ.then_some(NoPods::PodsOfTheName { pods, differ: first })
    }

    /// Returns the pods that lack one label, if the only pods near the selector are those of one
    /// workload.
    fn pods_without_a_label(&self, selector: &StringMap) -> Option<NoPods> {
        let [near] = &*self.near.groups else { return None };
        let of = |name: &Text| {
            let key = ObjectKey { namespace: self.service.key.namespace.clone(), name: name.clone() };
            let pod = self.objects.pod(&key)?;
            programs::workload_of(pod, self.objects.raw.serving(&key)?)
        };
        let workloads: BTreeSet<(Text, Text)> = near.pods.iter().map(of).collect::<Option<_>>()?;
        let (kind, name) = workloads.first().filter(|_| workloads.len() == 1)?;
        (near.found.is_none() && selector.len() > 1).then(|| NoPods::PodsLackLabel {
            workload: format!("{kind} {name}").into(),
            label: near.label.clone(),
            wanted: near.wanted.clone(),
            count: near.count,
            at_least: near.at_least,
            pods: near.pods.clone(),
        })
    }
}
