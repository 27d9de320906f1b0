//! Finds the Services that select the pods of a workload, and those that nearly select pods.

use kube_endpoint_core_model::{LabelSelector, ObjectKey, Service, StringMap, Text};
use serde::Serialize;

use crate::facts::objects::Objects;
use crate::facts::options::Known;
use crate::facts::references::Referrer;
use crate::models::near::{NearIndex, NearMatch};
use crate::models::selection::{NotSelected, Selection, not_selected};

/// A Service that does not select a pod because of one label.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NearService {
    pub service: Text,
    pub near: NearMatch,
}

/// A Service whose EndpointSelector does not select a pod because of one requirement.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NotSelecting {
    pub service: Text,
    #[serde(flatten)]
    pub not_selected: NotSelected,
}

/// The Services that nearly select a pod of this name and these labels.
pub(crate) struct NearServices<'a> {
    pod: (&'a Text, &'a StringMap),
    index: NearIndex,
    pub(crate) nearly: Vec<NearService>,
    pub(crate) not_selecting: Vec<NotSelecting>,
}

impl<'a> NearServices<'a> {
    pub(crate) fn of(name: &'a Text, labels: &'a StringMap) -> Self {
        let index = NearIndex::new([(name, labels)]);
        Self { pod: (name, labels), index, nearly: Vec::new(), not_selecting: Vec::new() }
    }

    /// Looks at a Service that does not select the pod.
    pub(crate) fn look_at(&mut self, service: &Text, selection: Selection<'_>) {
        match selection {
            Selection::Own(selector) => {
                let near = self.index.near(selector).groups.into_iter();
                self.nearly.extend(near.map(|near| NearService { service: service.clone(), near }));
            }
            Selection::Attached { selector, .. } => {
                let (_, labels) = self.pod;
                let pod = |miss: &LabelSelector| miss.matches(labels).then_some(self.pod).into_iter();
                let not = not_selected(selector, pod).into_iter();
                let of = |not_selected| NotSelecting { service: service.clone(), not_selected };
                self.not_selecting.extend(not.map(of));
            }
            _ => {}
        }
    }
}

/// The Services of the namespace of a workload.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServicesOf {
    /// Those that select pods with the labels of its template, or some of its pods.
    pub selecting: Vec<ObjectKey>,
    pub nearly: Vec<NearService>,
    pub not_selecting: Vec<NotSelecting>,
    /// The selector of its pods, if some have labels for which a Service asks and which the
    /// template lacks, such as the names of the pods of a StatefulSet.
    pub asks_for_pods: Option<LabelSelector>,
}

/// Returns the Services that select the pods of a workload, or nearly. Returns `None` if the
/// objects do not contain it.
pub fn services_of(objects: &Objects, of: &Referrer, known: Known) -> Option<ServicesOf> {
    let workload = objects.workload(of.kind, &of.object)?;
    let own = workload.selector.as_ref();
    let pods: Vec<&StringMap> = objects
        .pods_of(&of.object.namespace)
        .filter(|pod| own.is_some_and(|own| own.matches(&pod.labels)))
        .map(|pod| &pod.labels)
        .collect();
    let mut near = NearServices::of(&of.object.name, &workload.labels);
    let (mut selecting, mut asks_for_pods) = (Vec::new(), None);
    let in_namespace = objects.services().filter(|service| service.namespace == of.object.namespace);
    for service in in_namespace.filter_map(|service| objects.service(service)) {
        let selection = Selection::of(objects, service, known);
        if selection.matches(&workload.labels) || pods.iter().any(|labels| selection.matches(labels)) {
            selecting.push(service.key.clone());
            continue;
        }
        let asks = may_select_some(service, &workload.labels);
        if asks {
            asks_for_pods = own.cloned();
        }
        // Pods that are not known may have the labels that the template lacks.
        if !asks || !pods.is_empty() {
            near.look_at(&service.key.name, selection);
        }
    }
    let NearServices { nearly, not_selecting, .. } = near;
    Some(ServicesOf { selecting, nearly, not_selecting, asks_for_pods })
}

/// Returns true if a Service asks for labels that a template lacks, and for no other value of those
/// that it has.
fn may_select_some(service: &Service, template: &StringMap) -> bool {
    let Some(selector) = service.selector.as_ref().filter(|_| service.selects_pods()) else { return false };
    selector.iter().all(|(label, value)| template.get(label).is_none_or(|own| own == value))
}
