//! Explains one Service, or one pod.

use crate::answers::explanation::{self, EndpointsSummary, Explanation, Faults, Freshness, SliceSummary};
use crate::answers::from_pod::FromPod;
use crate::answers::history::Present;
use crate::answers::near_services::{NearService, NearServices, NotSelecting};
use crate::facts::across::Across;
use crate::facts::age;
use crate::facts::details::{LastWrite, RecentEvent};
use crate::facts::extent::FileContents;
use crate::facts::objects::Objects;
use crate::facts::options::{Known, Options};
use crate::facts::raw::{PodOwner, Serving};
use crate::findings::counts::{self, Counts};
use crate::findings::evidence::{PodRead, Read};
use crate::findings::finding::Problem;
use crate::findings::inputs::{FaultInputs, Unselected};
use crate::findings::pod::{
    Judged, Place, PodExplanation, PortNames, Publication, failed_templates, ports_of, template,
};
use crate::findings::{self, Code, Fault, MissingPodsServed, NotKnown};
use crate::models::cluster::ClusterFacts;
use crate::models::dead::{self, DeadEndpoint, Living};
use crate::models::leader::Leads;
use crate::models::near::{NearMatches, near_matches};
use crate::models::planned::Planned;
use crate::models::programs;
use crate::models::selection::{Attachment, SelectedBy, Selection, not_selected, required_labels};
use crate::models::traffic::{Served, is_ready};
use crate::models::unwritten::Changes;
use crate::models::{hint, traffic};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_endpoint_core_model::service::{ServicePort, TargetPort};
use kube_endpoint_core_model::well_known::ANNOTATION_OVER_CAPACITY;
use kube_endpoint_core_model::{
    EndpointSlice, NodeLookup, ObjectKey, Pod, PodVerdict, Service, StringMap, Text, Timestamp, Verdict,
};
use kube_endpoint_slice_plan::{Plan, TopologyState};
use serde::Serialize;

/// The maximum number of events in an explanation.
const EVENTS: usize = 5;

/// Explains why a Service has its endpoints. Returns `None` if the objects do not contain the
/// Service.
///
/// Ages count up to `now`. `metadata` are names and labels of pods of the namespace, among which
/// this looks for nearly matching pods; without it, it looks at the pods of `objects`.
pub fn explain(
    objects: &Objects,
    key: &ObjectKey,
    topology: &TopologyState,
    now: Timestamp,
    metadata: Option<&[(Text, StringMap)]>,
    options: &Options,
) -> Option<Explanation> {
    let near = |selector: &StringMap| match metadata {
        Some(metadata) => near_matches(selector, metadata.iter().map(|(name, labels)| (name, labels))),
        None => near_matches(selector, objects.labels_of(&key.namespace)),
    };
    let near = Near { near, metadata };
    let cluster = ClusterFacts::of(objects, options, now);
    let across = Across::new(objects, options);
    explain_with(objects, key, (topology, &cluster), now, near, &across, options)
}

/// Looks for pods of a namespace that a selector nearly selects.
pub(crate) struct Near<'a, F> {
    /// Returns those of the selector of a Service.
    pub(crate) near: F,
    /// Names and labels of pods that an EndpointSelector may nearly select, or `None` if these are
    /// all pods.
    pub(crate) metadata: Option<&'a [(Text, StringMap)]>,
}

/// Explains a Service.
pub(crate) fn explain_with(
    objects: &Objects,
    key: &ObjectKey,
    (topology, cluster): (&TopologyState, &ClusterFacts),
    now: Timestamp,
    near: Near<'_, impl FnOnce(&StringMap) -> NearMatches>,
    across: &Across<'_>,
    options: &Options,
) -> Option<Explanation> {
    let service = objects.service(key)?;
    let options = &*options.within(&key.namespace);
    let selection = Selection::of(objects, service, options.known);
    let pods = selection.pods(objects, &key.namespace);
    let metadata = near.metadata;
    let near = nearly_matching(objects, service, (selection, &pods), near, options.known);
    let unselected = Unselected { objects, service, selection, near: &near };
    let are_made_by_others = pods.is_empty() && unselected.may_exist(options);
    let options = &*options.without_pods(are_made_by_others);
    let planned = Planned::with_pods(objects, key, &pods, topology, now, options);
    let nodes = options.known.nodes.then(|| objects.client_nodes());
    let served = Served::by(service, service.policies, objects.slices_of(key), nodes);
    let subject = Subject {
        objects,
        service,
        selection,
        pods: &pods,
        planned: &planned,
        served: &served,
        across,
        options,
        now,
    };
    let explained = subject.explained_pods();
    let selected_by = selected_by(objects, service, selection, &planned, metadata, options.known);
    let dead = subject.dead_of_others();
    let counts = subject.counts(&explained, &dead);
    let changes = Changes { objects, service, pods: &pods, leads: planned.leads.as_ref() };
    let newest = changes.newest();
    let inputs = FaultInputs {
        objects,
        service,
        selection,
        selected_by: selected_by.as_ref(),
        pods: &pods,
        planned: &planned,
        served: &served,
        policies: service.policies,
        explained: &explained,
        dead: &dead,
        nearly_matching: &near,
        across,
        counts,
        now,
        changes,
        options,
        cluster,
    };
    let faults = findings::find(&inputs);
    let from = options.from.as_ref().zip(inputs.connections());
    let from = from.map(|(pod, connections)| FromPod::new(pod, &connections));
    let nearly_matching = near;
    Some(subject.explanation(Found { faults, from, explained, nearly_matching, selected_by, counts, newest }))
}

/// Returns the pods that a selector nearly selects, if it selects none.
fn nearly_matching(
    objects: &Objects,
    service: &Service,
    (selection, pods): (Selection<'_>, &[Arc<Pod>]),
    near: Near<'_, impl FnOnce(&StringMap) -> NearMatches>,
    known: Known,
) -> NearMatches {
    let namespace = &service.key.namespace;
    if !pods.is_empty() || !known.pods {
        return NearMatches::default();
    }
    match selection {
        Selection::Own(selector) => (near.near)(selector).judged(objects, namespace),
        Selection::Attached { selector, .. } => {
            let of_pod = |name: &Text| {
                let of_metadata = near.metadata.into_iter().flatten().find(|(other, _)| other == name);
                let key = ObjectKey { namespace: namespace.clone(), name: name.clone() };
                of_metadata.map(|(_, labels)| labels).or_else(|| Some(&objects.pods.get(&key)?.labels))
            };
            let found = (near.near)(&required_labels(selector)).mistyped(selector, of_pod);
            found.judged(objects, namespace)
        }
        _ => NearMatches::default(),
    }
}

/// Returns what is not known, if a question about the Service is open.
fn open_question(faults: &[Fault]) -> Option<NotKnown> {
    faults.iter().find_map(|fault| match fault {
        Fault::NotKnown(not_known) => Some(not_known.clone()),
        _ => None,
    })
}

fn recent_events(objects: &Objects, key: &ObjectKey) -> Vec<RecentEvent> {
    let mut events = RecentEvent::summed(objects.events.get(key).into_iter().flatten());
    events.truncate(EVENTS);
    events
}

/// A Service, and what the models say about it.
struct Subject<'a> {
    objects: &'a Objects,
    service: &'a Service,
    selection: Selection<'a>,
    pods: &'a [Arc<Pod>],
    planned: &'a Planned,
    served: &'a Served<'a>,
    across: &'a Across<'a>,
    options: &'a Options,
    now: Timestamp,
}

/// The findings about a Service, and what they are made of.
struct Found {
    faults: Vec<Fault>,
    from: Option<FromPod>,
    explained: Vec<PodExplanation>,
    nearly_matching: NearMatches,
    selected_by: Option<SelectedBy>,
    counts: Counts,
    newest: Option<Timestamp>,
}

impl Subject<'_> {
    fn slices(&self) -> &[Arc<EndpointSlice>] {
        self.objects.slices_of(&self.service.key)
    }

    /// Returns the explanation of what was found.
    fn explanation(&self, found: Found) -> Explanation {
        let Self { objects, service, pods, planned, served, options, now, .. } = *self;
        let Found { mut faults, from, explained, nearly_matching, selected_by, counts, newest } = found;
        let key = &service.key;
        let open = open_question(&faults);
        let read = Read::new(objects, key);
        let to_do = explanation::advice(service, &faults, &explained, counts, &read);
        faults.sort_by_key(|fault| {
            let lost = fault.traffic_lost(counts.is_down());
            (Reverse((fault.severity(), lost)), fault.code())
        });
        let what = if planned.slices.is_some() { "pods" } else { "addresses" };
        let slices: Vec<_> = self.slices().iter().map(|slice| summary(objects, slice, options)).collect();
        let endpoints = endpoints_summary(objects, key);
        let verdict = explanation::verdict(counts, what, &served.by, &to_do, open.as_ref());
        let present = Present {
            objects,
            service,
            status: verdict.status,
            cause: explanation::position_of_cause(&verdict, &to_do).and_then(|at| to_do.get(at)),
            faults: &faults,
            pods,
            explained: &explained,
            near: &nearly_matching,
            leads: planned.leads.as_ref(),
            now,
        };
        let since = present.since();
        let last_change = present.last_change(since);
        Explanation {
            service: key.clone(),
            verdict,
            since,
            last_change,
            from,
            served_by: served.by.clone(),
            selected_by,
            pods_by_publication: counts,
            faults: Faults::new(&read, faults),
            pods: explained,
            nearly_matching_pods: nearly_matching.pods,
            nearly_matching: nearly_matching.groups,
            freshness: freshness(&slices, endpoints.as_ref(), newest, now),
            slices,
            endpoints,
            endpoints_retired: service.selects_pods() && options.retires(service, now),
            events: recent_events(objects, key),
            to_do,
            not_read: Vec::new(),
        }
    }

    /// Returns the explanations of the pods that the plan for slices has.
    fn explained_pods(&self) -> Vec<PodExplanation> {
        let Self { objects, service, pods, planned, served, options, now, .. } = *self;
        let Some(plan) = &planned.slices else { return Vec::new() };
        let in_endpoints = planned.endpoints.as_ref().map_or(&[][..], |plan| &plan.verdicts);
        let of_service = OfService {
            service,
            in_endpoints: in_endpoints.iter().map(|one| (&one.pod.name, &one.verdict)).collect(),
            ports: port_names(service, pods),
            places: places(service, served, self.slices(), plan),
            failed: failed_templates(objects, pods, now),
            known: options.known,
            leads: planned.leads.as_ref(),
            files: options.files.as_deref(),
            now,
        };
        let mut explained: Vec<PodExplanation> =
            plan.verdicts.iter().filter_map(|one| explain_one(objects, &of_service, one)).collect();
        let is_left_to_ending = explanation::is_left_to_ending(&explained) && options.known.slices;
        if is_left_to_ending && !traffic::any_ready(self.slices()) {
            explained.iter_mut().for_each(|pod| pod.is_alone = true);
        }
        explained
    }

    /// Returns the dead endpoints of the slices that the Service's own controller does not write.
    fn dead_of_others(&self) -> Vec<DeadEndpoint> {
        let Self { objects, service, pods, served, options, now, .. } = *self;
        let manager = &self.selection.plan_options(options).manager;
        let is_of_others = |slice: &&Arc<EndpointSlice>| {
            matches!(self.selection, Selection::None) || !slice.is_managed_by(manager)
        };
        // The reasons of the Service's own pods tell why these are not ready.
        let is_told = |dead: &DeadEndpoint| {
            dead.may_come_back() && pods.iter().any(|pod| dead.pod.as_ref() == Some(&pod.key.name))
        };
        let living = Living { objects, service, served, across: self.across, options, now };
        let dead = self.slices().iter().filter(is_of_others).flat_map(|slice| living.dead(slice));
        dead.filter(|dead| !is_told(dead)).collect()
    }

    fn counts(&self, explained: &[PodExplanation], dead: &[DeadEndpoint]) -> Counts {
        let known = self.options.known;
        if self.planned.slices.is_none() {
            return counts::count_endpoints(self.served, self.slices(), known, dead);
        }
        let manager = &self.selection.plan_options(self.options).manager;
        let others = counts::count_others(self.served, explained, self.slices(), manager, dead);
        Counts { others, ..counts::count_pods(self.service, explained, self.options) }
    }
}

/// Compares the last write of slices and Endpoints with the newest change of what they depend on.
fn freshness(
    slices: &[SliceSummary],
    endpoints: Option<&EndpointsSummary>,
    newest: Option<Timestamp>,
    now: Timestamp,
) -> Freshness {
    let of_slices = slices.iter().filter_map(|slice| slice.last_write.as_ref());
    let of_endpoints = endpoints.and_then(|endpoints| endpoints.last_write.as_ref());
    let last_write = of_slices.chain(of_endpoints).map(|write| write.time).max();
    Freshness {
        last_write,
        last_write_seconds: last_write.map(|time| age::since(time, now)),
        newest_change: newest,
        newest_change_seconds: newest.map(|time| age::since(time, now)),
    }
}

/// Returns what an explanation says about the EndpointSelector that a Service names.
fn selected_by(
    objects: &Objects,
    service: &Service,
    selection: Selection<'_>,
    planned: &Planned,
    metadata: Option<&[(Text, StringMap)]>,
    known: Known,
) -> Option<SelectedBy> {
    let is_held = !planned.hand_over.held.is_empty();
    let (name, state) = match selection {
        Selection::Attached { name, .. } if is_held => (name, Attachment::Held),
        Selection::Attached { name, .. } => (name, Attachment::Attached),
        Selection::Unusable { name, .. } => (name, Attachment::Shrinking),
        Selection::NotKnown { name } => (name, Attachment::NotKnown),
        Selection::Own(_) if is_held => (service.rehearsed_selector()?, Attachment::HandingBack),
        Selection::Own(_) => (service.rehearsed_selector()?, Attachment::HandedBack),
        Selection::None => return None,
    };
    let mut by = SelectedBy {
        endpoint_selector: name.clone(),
        requirements: Vec::new(),
        state,
        leads: planned.leads.clone(),
        not_selected: Vec::new(),
    };
    if let Selection::Attached { selector, .. } = selection {
        by.requirements = selector.requirements().map(|one| one.to_string()).collect();
        by.not_selected = match metadata {
            _ if !known.pods => Vec::new(),
            Some(metadata) => not_selected(selector, |miss| {
                let miss = miss.clone();
                let pods = metadata.iter().map(|(name, labels)| (name, labels));
                pods.filter(move |(_, labels)| miss.matches(labels))
            }),
            None => not_selected(selector, |miss| {
                let pods = objects.selected_by(&service.key.namespace, miss).into_iter();
                let key = |pod: Arc<Pod>| objects.pods.get_key_value(&pod.key);
                pods.filter_map(key).map(|(key, pod)| (&key.name, &pod.labels))
            }),
        };
    }
    Some(by)
}

/// Returns the endpoints of all slices, by the name of their pod.
fn places(
    service: &Service,
    served: &Served,
    slices: &[Arc<EndpointSlice>],
    plan: &Plan,
) -> BTreeMap<Text, Vec<(Text, Place)>> {
    let mut places: BTreeMap<Text, Vec<(Text, Place)>> = BTreeMap::new();
    for slice in slices {
        let used = traffic::uses(service, slice);
        let addresses_sent = served.endpoints_of(slice);
        for endpoint in &slice.endpoints {
            let Some(target) = endpoint.target_ref.as_ref().filter(|target| *target.kind == *"Pod") else {
                continue;
            };
            let hints = endpoint.hints.clone().unwrap_or_default();
            let sent = addresses_sent(endpoint);
            let place = Place {
                slice: slice.metadata.name.clone(),
                addresses: endpoint.addresses.clone(),
                used,
                receives: sent > 0,
                sent,
                ready: endpoint.conditions.ready != Some(false),
                last_resort: traffic::is_last_resort(endpoint.conditions),
                zone: endpoint.zone.clone(),
                for_zones: hints.for_zones.into_iter().map(|hint| hint.name).collect(),
                for_nodes: hints.for_nodes.into_iter().map(|hint| hint.name).collect(),
                hint: hint::reason(plan, slice.address_type, endpoint),
            };
            places.entry(target.name.clone()).or_default().push((target.uid.clone(), place));
        }
    }
    places
}

/// Returns the named ports of pods that have not ended, if the Service asks for ports by name.
fn port_names<'a>(service: &Service, pods: &'a [Arc<Pod>]) -> PortNames<'a> {
    let is_named = |port: &ServicePort| matches!(port.target_port, TargetPort::Name(_));
    let asks = service.ports.iter().any(is_named);
    let pods = pods.iter().filter(|pod| asks && !pod.is_terminal());
    pods.flat_map(|pod| pod.ports.iter()).map(|port| (&*port.name, &*port.protocol)).collect()
}

/// The inputs that the explanations of a Service's pods share.
struct OfService<'a> {
    service: &'a Service,
    /// The verdicts of the plan for Endpoints.
    in_endpoints: BTreeMap<&'a Text, &'a Verdict>,
    /// The named ports of the pods.
    ports: PortNames<'a>,
    places: BTreeMap<Text, Vec<(Text, Place)>>,
    /// The templates of pods that have failed.
    failed: BTreeSet<Text>,
    known: Known,
    leads: Option<&'a Leads>,
    files: Option<&'a FileContents>,
    now: Timestamp,
}

fn explain_one(objects: &Objects, shared: &OfService<'_>, one: &PodVerdict) -> Option<PodExplanation> {
    let OfService { service, in_endpoints, ports, places, failed, known, leads, files, now } = shared;
    let pod = objects.pod(&one.pod)?;
    let is_assumed = files.is_some_and(|files| files.assumed.contains(&pod.key));
    let node = pod.node_name.as_deref().and_then(|name| objects.nodes.node(name));
    let of_pod = places.get(&pod.key.name).into_iter().flatten();
    let same = of_pod.filter(|(uid, _)| uid.is_empty() || *uid == pod.uid);
    let places: Vec<Place> = same.map(|(_, place)| place.clone()).collect();
    let judged = Judged {
        service,
        pod,
        details: objects.pod_details.get(&pod.key).map(|details| &**details),
        events: objects.pod_events.get(&pod.key).map_or(&[][..], Vec::as_slice),
        owner: objects.raw.serving(&pod.key).map(Serving::owner_kind).unwrap_or_default(),
        workload: objects.raw.serving(&pod.key).and_then(|serving| programs::workload_of(pod, serving)),
        node: node.as_deref(),
        node_details: pod.node_name.as_ref().and_then(|name| objects.raw.nodes.get(name)),
        nodes: &objects.raw.nodes,
        in_slices: &one.verdict,
        in_endpoints: in_endpoints.get(&pod.key.name).copied(),
        ports_of_pods: ports,
        leads: *leads,
        is_due: known.slices && !places.iter().any(|place| place.holds_as_ready(&pod.pod_ips)),
        has_failed_peer: template(pod).is_some_and(|template| failed.contains(template)),
        now: *now,
    };
    let reason = judged.reason();
    let of_service = Read::new(objects, &service.key);
    let read = PodRead { of_service, pod, details: judged.details };
    Some(PodExplanation {
        evidence: reason.as_ref().map(|reason| reason.finding().evidence(&read)).unwrap_or_default(),
        is_deleted: pod.is_terminating(),
        runs_nothing: judged.runs_nothing(),
        is_alone: false,
        is_assumed,
        cause: None,
        static_on: pod.node_name.clone().filter(|_| judged.owner == PodOwner::Node),
        service: service.key.clone(),
        name: pod.key.name.clone(),
        addresses: if is_assumed { Vec::new() } else { pod.pod_ips.to_vec() },
        node: pod.node_name.clone().filter(|_| !is_assumed),
        ports: ports_of(pod),
        publication: judged.publication(),
        reason,
        places,
    })
}

fn summary(objects: &Objects, slice: &EndpointSlice, options: &Options) -> SliceSummary {
    use kube_endpoint_core_model::well_known::{LABEL_MANAGED_BY, SELECTOR_CONTROLLER};
    let is_ready = |endpoint: &&kube_endpoint_core_model::Endpoint| endpoint.conditions.ready != Some(false);
    let is_ours = [&*options.slices.manager, SELECTOR_CONTROLLER].iter().any(|it| slice.is_managed_by(it));
    SliceSummary {
        name: slice.metadata.name.clone(),
        manager: slice.metadata.labels.get(LABEL_MANAGED_BY).cloned(),
        address_type: slice.address_type,
        ports: slice.ports.iter().map(ToString::to_string).collect(),
        endpoints: slice.endpoints.len(),
        ready: slice.endpoints.iter().filter(is_ready).count(),
        capacity: is_ours.then_some(options.slices.max_endpoints_per_slice),
        last_write: objects.slice_writes.get(&slice.key()).cloned(),
    }
}

fn endpoints_summary(objects: &Objects, key: &ObjectKey) -> Option<EndpointsSummary> {
    let endpoints = objects.endpoints_of(key)?;
    let last_write: Option<LastWrite> = objects.endpoints_writes.get(key).cloned();
    let (ready, not_ready) = endpoints.subsets.counts();
    Some(EndpointsSummary {
        ready,
        not_ready,
        truncated: endpoints.metadata.annotations.contains_key(ANNOTATION_OVER_CAPACITY),
        last_write,
    })
}

/// The Services that should publish a pod, and their explanations of it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PodServices {
    pub pod: ObjectKey,
    /// The explanations of the Services that select it, by name of the Service.
    pub services: Vec<ServiceSays>,
    /// Services that do not select it because of one label.
    pub nearly: Vec<NearService>,
    /// Services whose EndpointSelector does not select it because of one requirement.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_selecting: Vec<NotSelecting>,
    /// Slices of Services that do not select it, and name it or have its address.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub named_by: Vec<NamedBy>,
    /// Sentences about the kinds that could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_read: Vec<String>,
}

/// A slice that names a pod which its Service does not select, or that has its address.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NamedBy {
    pub service: Text,
    pub slice: Text,
    /// True if some client of the Service is sent to the pod.
    pub receives: bool,
    /// The findings about the endpoint: its pod does not answer there, or another one has its
    /// address.
    #[serde(skip_serializing_if = "is_empty")]
    pub faults: Faults,
}

fn is_empty(faults: &Faults) -> bool {
    faults.is_empty()
}

impl NamedBy {
    /// Returns the slices of a Service that name a pod, or that have its address.
    fn all_of(living: &Living<'_>, selection: Selection<'_>, pod: &Pod) -> Vec<Self> {
        let &Living { objects, service, .. } = living;
        let manager = &selection.plan_options(living.options).manager;
        let slices = objects.slices_of(&service.key).iter();
        let named = slices.filter_map(|slice| {
            let addresses_sent = living.served.endpoints_of(slice);
            let is_of_others = matches!(selection, Selection::None) || !slice.is_managed_by(manager);
            let (mut is_of_pod, mut receives, mut dead) = (false, false, Vec::new());
            for endpoint in &slice.endpoints {
                let sent = endpoint.addresses.get(..addresses_sent(endpoint)).unwrap_or_default();
                let judged = is_of_others && is_ready(endpoint.conditions) && !sent.is_empty();
                let fault = judged.then(|| living.judge(slice, endpoint)).flatten();
                let is_named = dead::names(endpoint, pod);
                let is_at = dead::is_at(&endpoint.addresses, pod);
                // An endpoint that names another pod is that one's, unless it is dead.
                let may_be_other = endpoint.target_ref.is_none() || fault.is_some();
                let is_other = is_at && may_be_other && !pod.is_terminal();
                if !is_named && !is_other {
                    continue;
                }
                is_of_pod = true;
                let is_reached = is_at || pod.host_network || objects.raw.has_other_networks(&pod.key);
                let is_dead = fault.as_ref().is_some_and(|it| it.pod.as_ref() == Some(&pod.key.name));
                receives |= !sent.is_empty() && is_reached && !is_dead;
                dead.extend(fault);
            }
            let faults = MissingPodsServed::of(objects, service, selection, &dead, false);
            let faults = faults.into_iter().map(Fault::MissingPodsServed).collect();
            is_of_pod.then(|| Self {
                service: service.key.name.clone(),
                slice: slice.metadata.name.clone(),
                receives,
                faults: Faults::new(&Read::new(objects, &service.key), faults),
            })
        });
        named.collect()
    }
}

/// The explanation of a pod for one Service.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServiceSays {
    pub service: Text,
    /// The code: [`Code::Published`] if nothing is wrong, [`Code::NotKnown`] if the slices that
    /// would tell could not be read.
    pub code: Code,
    /// True if the Service sends the pod traffic, or `None` if the slices that would tell could not
    /// be read.
    pub receives: Option<bool>,
    /// The explanation of the pod.
    pub pod: PodExplanation,
    /// The findings about the Service that keep clients from the pod, or that are the cause of its
    /// reason.
    #[serde(skip_serializing_if = "is_empty")]
    pub faults: Faults,
}

/// Explains which Services of its namespace should publish a pod. Returns `None` if the objects do
/// not contain the pod.
///
/// If pods are not [known](crate::facts::options::Known), the objects need not contain other pods:
/// the explanation of a pod does not depend on them, except that slices tell if a pod that is being
/// deleted is the last one.
pub fn explain_pod(
    objects: &Objects,
    key: &ObjectKey,
    topology: &TopologyState,
    now: Timestamp,
    options: &Options,
) -> Option<PodServices> {
    let pod = objects.pod(key)?;
    let alone = options.clone().with_known(Known { pods: true, ..options.known });
    let mut services = Vec::new();
    let mut named_by = Vec::new();
    let mut near = NearServices::of(&pod.key.name, &pod.labels);
    let across = Across::new(objects, &alone);
    let cluster = ClusterFacts::of(objects, options, now);
    let in_namespace = objects.services().filter(|service| service.namespace == key.namespace);
    for service in in_namespace.filter_map(|service| objects.service(service)) {
        let selection = Selection::of(objects, service, alone.known);
        if selection.matches(&pod.labels) {
            let none = Near { near: |_: &StringMap| NearMatches::default(), metadata: Some(&[]) };
            let explanation =
                explain_with(objects, &service.key, (topology, &cluster), now, none, &across, &alone)?;
            services.extend(says(objects, service, explanation, key, options));
            continue;
        }
        let nodes = (!objects.nodes.is_empty()).then(|| objects.client_nodes());
        let served = Served::by(service, service.policies, objects.slices_of(&service.key), nodes);
        let living = Living { objects, service, served: &served, across: &across, options, now };
        named_by.extend(NamedBy::all_of(&living, selection, pod));
        near.look_at(&service.key.name, selection);
    }
    let NearServices { nearly, not_selecting, .. } = near;
    Some(PodServices { pod: key.clone(), services, nearly, not_selecting, named_by, not_read: Vec::new() })
}

/// Returns the explanation of a pod for a Service.
fn says(
    objects: &Objects,
    service: &Service,
    explanation: Explanation,
    key: &ObjectKey,
    options: &Options,
) -> Option<ServiceSays> {
    let mut pod = explanation.pods.into_iter().find(|one| one.name == key.name)?;
    let options = options.within(&key.namespace);
    let known = options.known;
    let may_be_last = !service.is_headless() && pod.is_ending_and_serving();
    let receives = match pod.publication {
        Publication::Ready if pod.runs_nothing => Some(false),
        Publication::Ready => known.slices.then(|| pod.is_sent_traffic()),
        // Files without slices may show another moment than that of the clients.
        _ if !known.slices && (may_be_last || options.are_from_files()) => None,
        _ => Some(pod.is_last_resort() || pod.is_still_chosen()),
    };
    let is_cause =
        |fault: &&Fault| pod.reason.as_ref().is_some_and(|reason| fault.explains_pod(&pod.name, reason));
    let cause = explanation.faults.iter().find(is_cause).cloned();
    // It looks at the pods that are ready.
    let closed = explanation.faults.iter().find(|fault| matches!(fault, Fault::PolicyAdmitsNobody(_)));
    let closed = closed.filter(|_| pod.publication == Publication::Ready).cloned();
    pod.cause = cause.as_ref().map(|cause| cause.remedy(&service.key));
    let code = match pod.code() {
        Code::Published if receives.is_none() => Code::NotKnown,
        Code::Published => closed.as_ref().map_or(Code::Published, Problem::code),
        code => code,
    };
    let faults = cause.into_iter().chain(closed).collect();
    let faults = Faults::new(&Read::new(objects, &service.key), faults);
    Some(ServiceSays { service: service.key.name.clone(), code, receives, pod, faults })
}

impl PodServices {
    /// Sets [`not_read`](Self::not_read).
    pub fn with_not_read(self, not_read: Vec<String>) -> Self {
        Self { not_read, ..self }
    }

    /// Returns true if it is unknown for some Service if it sends the pod traffic, because slices
    /// could not be read.
    pub fn is_unknown(&self) -> bool {
        self.services.iter().any(|says| says.receives.is_none())
    }

    /// Returns the exit code of a program that prints this: 2 if it is not known whether the pod
    /// receives traffic, otherwise 0.
    pub fn exit_code(&self) -> u8 {
        if self.is_unknown() { 2 } else { 0 }
    }

    /// Returns true if each Service that selects the pod sends it traffic, or none selects it and
    /// one does.
    pub fn is_published(&self) -> bool {
        let is_sent = !self.services.is_empty() || self.is_sent_by_others();
        let is_fine = |says: &ServiceSays| says.receives == Some(true) && says.faults.is_empty();
        is_sent && self.services.iter().all(is_fine)
    }

    /// Returns true if a Service that does not select the pod sends it traffic on purpose.
    pub(crate) fn is_sent_by_others(&self) -> bool {
        self.named_by.iter().any(|named| named.receives && named.faults.is_empty())
    }
}
