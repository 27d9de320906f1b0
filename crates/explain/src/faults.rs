//! Looks for faults of a Service itself, its slices and its Endpoints.

mod addresses;
mod annotations;
mod attached;
mod behind;
mod consumers;
mod duplicates;
mod hints;
mod left;
mod ports;
mod undeclared;
mod unselected;
mod versions;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_endpoint_core_model::publish::publish_not_ready;
use kube_endpoint_core_model::well_known::{
    ANNOTATION_LEADER, ANNOTATION_TOLERATE_UNREADY, ENDPOINTSLICE_CONTROLLER, LABEL_MANAGED_BY,
    LABEL_SKIP_MIRROR, MIRRORING_CONTROLLER, SELECTOR_CONTROLLER,
};
use kube_endpoint_core_model::{EndpointSlice, Pod, Service, Text, Timestamp, address};
use kube_endpoint_mirroring::plan::{AddressVerdict, MirrorVerdict, NotMirrored, SkipReason};

use crate::across::Across;
use crate::cluster::ClusterFacts;
use crate::consumers::kube_proxy::TrafficPolicies;
use crate::explanation::Counts;
use crate::hand_over::made_by_controller;
use crate::leftovers::Remains;
use crate::near::NearMatches;
use crate::pod::PodExplanation;
use crate::selection::Selection;
use crate::traffic::{Served, ServedBy};
use crate::{Fault, Objects, Open, Options, Planned, SelectedBy, traffic};

use duplicates::duplicates;

/// The objects in which this looks for faults.
pub(crate) struct Looked<'a> {
    pub(crate) objects: &'a Objects,
    pub(crate) service: &'a Service,
    pub(crate) selection: Selection<'a>,
    pub(crate) selected_by: Option<&'a SelectedBy>,
    pub(crate) pods: &'a [Arc<Pod>],
    pub(crate) planned: &'a Planned,
    pub(crate) served: &'a Served<'a>,
    pub(crate) policies: TrafficPolicies,
    pub(crate) explained: &'a [PodExplanation],
    pub(crate) nearly_matching: &'a NearMatches,
    pub(crate) across: &'a Across<'a>,
    pub(crate) counts: Counts,
    pub(crate) now: Timestamp,
    /// Time of the newest change that should be published.
    pub(crate) newest: Option<Timestamp>,
    pub(crate) options: &'a Options,
    pub(crate) cluster: &'a ClusterFacts,
}

impl Looked<'_> {
    /// Returns the faults, in no particular order.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        if self.service.deletion_timestamp.is_some() {
            faults.push(self.terminating());
        }
        if self.service.service_type == kube_endpoint_core_model::service::ServiceType::ExternalName {
            faults.push(self.alias());
            self.of_left_slices(&mut faults);
        } else {
            match self.selection {
                Selection::None => self.without_selector(&mut faults),
                Selection::Own(_) | Selection::Attached { .. } => {
                    self.of_selector(&mut faults);
                    self.of_hints(&mut faults);
                }
                Selection::Unusable { .. } | Selection::NotKnown { .. } => {}
            }
            self.of_endpoint_selector(&mut faults);
            faults.extend(self.kept_slices());
        }
        self.of_consumers(&mut faults);
        self.of_reading(&mut faults);
        self.of_spec(&mut faults);
        if self.options.known.slices {
            self.of_slices(&mut faults);
            faults.extend(self.cluster_ips());
            faults.extend(self.headless_ports());
        }
        if self.options.known.endpoints {
            self.of_endpoints(&mut faults);
        }
        self.of_cluster(&mut faults);
        faults
    }

    /// Adds the questions that stay open because a kind could not be read. An alias has no
    /// endpoints.
    fn of_reading(&self, faults: &mut Vec<Fault>) {
        let is_alias = self.served.by == ServedBy::Nobody;
        let slices = self.objects.slices_of(&self.service.key);
        let known = self.options.known;
        let not_known = traffic::not_known(
            self.service,
            &self.selection,
            self.served,
            slices,
            self.explained,
            self.counts,
            known,
        );
        // The slices show why.
        let tells = |fault: &Fault| {
            matches!(
                fault,
                Fault::EndpointPortsDiffer { .. }
                    | Fault::EndpointFamiliesDiffer { .. }
                    | Fault::SlicesIgnored { .. }
            )
        };
        let is_told = faults.iter().any(tells);
        let is_open = |fault: &Fault| {
            !(is_alias || is_told && matches!(fault, Fault::NotKnown { open: Open::NoTraffic, .. }))
        };
        faults.extend(not_known.filter(is_open));
    }

    fn of_selector(&self, faults: &mut Vec<Fault>) {
        if let Some(refused) = self.pods_not_created() {
            faults.push(refused);
            return;
        }
        if !self.pods.is_empty() || !self.options.known.pods {
            return;
        }
        if let Selection::Attached { name, selector, .. } = self.selection {
            faults.push(self.selects_no_pod(name, selector));
        }
        let Some(selector) = &self.service.selector else { return };
        let pairs: Vec<String> = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let pairs = pairs.join(",");
        let near = self.nearly_matching;
        let count = near.typos().map(|group| group.count).sum();
        let namespaces = self.across.with_labels(selector);
        if !namespaces.is_empty() {
            let (selector, namespaces) = (pairs.clone(), namespaces.to_vec());
            faults.push(Fault::PodsElsewhere { selector, namespaces });
        }
        faults.push(match (near.typos().next(), &near.other_keys) {
            (Some(nearest), _) => {
                Fault::PodsNearlyMatch { endpoint_selector: None, nearest: nearest.clone(), count }
            }
            (None, Some(other_keys)) => Fault::LabelKeysDiffer(other_keys.clone()),
            (None, None) => {
                Fault::NoPodMatches { selector: pairs, endpoint_selector: None, cause: self.why_no_pod() }
            }
        });
    }

    fn of_spec(&self, faults: &mut Vec<Fault>) {
        let service = self.service;
        let annotation = service.annotations.get(ANNOTATION_TOLERATE_UNREADY);
        let publishes = |reads_annotation| publish_not_ready(service, reads_annotation).0;
        // Many Services have the annotation besides the field, for old versions.
        let is_missed =
            !self.options.slices.tolerate_unready_annotation && publishes(true) != publishes(false);
        if let Some(value) = annotation.filter(|_| is_missed) {
            faults.push(Fault::AnnotationIgnored {
                annotation: ANNOTATION_TOLERATE_UNREADY.into(),
                value: value.clone(),
            });
        }
        self.of_annotations(faults);
        if service.ports.is_empty() && self.served.by == ServedBy::KubeProxy {
            faults.push(Fault::NoServicePorts);
        }
        faults.extend(self.without_names());
        faults.extend(self.ports_not_declared());
        faults.extend(self.shared_addresses());
        faults.extend(self.ports_not_declared_by_some());
        faults.extend(self.ports_of_other_protocol());
        faults.extend(self.ambiguous_names());
        faults.extend(self.ignored_by_label());
    }

    /// Looks for slices that were made from pods when the Service selected pods, and for Endpoints
    /// of this time, from which slices are mirrored.
    fn of_left_slices(&self, faults: &mut Vec<Fault>) {
        let is_of_pods = |slice: &&Arc<EndpointSlice>| {
            [ENDPOINTSLICE_CONTROLLER, SELECTOR_CONTROLLER].iter().any(|it| slice.is_managed_by(it))
        };
        let key = &self.service.key;
        let slices = self.objects.slices_of(key);
        let of_pods: Vec<_> = slices.iter().filter(is_of_pods).collect();
        // If an alias has a selector, the endpoints controller goes on with its Endpoints.
        let is_left = self.service.selector.is_none() && self.options.known.endpoints;
        let endpoints = self.objects.endpoints_of(key);
        let endpoints = endpoints.filter(|_| is_left && made_by_controller(self.objects, key));
        if of_pods.is_empty() && endpoints.is_none() {
            return;
        }
        let remains = Remains::of(self.service, endpoints, slices);
        let was_attached = of_pods.iter().any(|slice| slice.is_managed_by(SELECTOR_CONTROLLER));
        faults.push(Fault::SlicesLeftBehind {
            slices: of_pods.into_iter().map(|slice| slice.metadata.name.clone()).collect(),
            endpoints: endpoints.map(|_| key.name.clone()),
            mirrored: if endpoints.is_some() { remains.mirrored } else { Vec::new() },
            is_needed: !remains.missed.is_empty(),
            was_attached,
            is_alias: self.served.by == ServedBy::Nobody,
        });
    }

    /// Looks at a Service without a selector, whose endpoints somebody else writes. Slices tell
    /// which ports and addresses it has, even if the reader may not read its Endpoints.
    fn without_selector(&self, faults: &mut Vec<Fault>) {
        self.of_left_slices(faults);
        let known = self.options.known;
        if !known.slices {
            return;
        }
        let slices = self.objects.slices_of(&self.service.key);
        let endpoints = self.objects.endpoints_of(&self.service.key);
        let plan = self.planned.mirroring.as_ref();
        let cause = plan.and_then(|plan| plan.not_mirrored);
        let cause = endpoints.filter(|endpoints| !endpoints.subsets.is_empty()).and(cause);
        let not_mirrored: Vec<Fault> = match cause.and_then(|cause| Some((cause, prevents(cause)?))) {
            Some((cause, key)) if slices.iter().all(is_mirrored) => {
                let endpoints = self.service.key.name.clone();
                faults.push(Fault::EndpointsNotMirrored {
                    cause: cause.to_string(),
                    endpoints,
                    key: key.into(),
                });
                return;
            }
            Some(_) => Vec::new(),
            None => plan.iter().flat_map(|plan| not_mirrored(&plan.verdicts)).collect(),
        };
        if known.endpoints && endpoints.is_none() && slices.is_empty() {
            if !self.names_a_selector_wrongly() {
                let unlabelled = self.objects.unviewed.unlabelled_slices(&self.service.key);
                faults.push(Fault::NoSelector { unlabelled });
            }
            return;
        }
        let is_behind = plan.is_some_and(|plan| !plan.writes.is_empty());
        let is_told = is_behind || !not_mirrored.is_empty();
        faults.extend(not_mirrored);
        faults.extend(self.slices_that_stay_unused());
        let has_addresses = endpoints.is_some_and(|endpoints| endpoints.subsets.counts().0 > 0);
        let is_due = cause.is_none() && has_addresses && is_told;
        // Mirrored slices have the addresses of the Endpoints.
        let is_known = known.endpoints || (!slices.is_empty() && !slices.iter().any(is_mirrored));
        if self.counts.ready == 0 && is_known && !is_due {
            faults.push(Fault::NoAddressesWritten);
        }
    }

    /// Returns the faults of slices that kube-proxy does not use now, nor after the controller has
    /// mirrored the present Endpoints.
    fn slices_that_stay_unused(&self) -> Vec<Fault> {
        let slices = self.objects.slices_of(&self.service.key);
        let now = traffic::unused(self.service, slices);
        let plan = self.planned.mirroring.as_ref().filter(|plan| !plan.writes.is_empty());
        let Some(plan) = plan.filter(|_| !now.is_empty()) else { return now };
        let writes = &plan.writes;
        let deleted = writes.delete.iter().map(|slice| &**slice);
        let replaced: Vec<&Text> =
            writes.update.iter().chain(deleted).map(|slice| &slice.metadata.name).collect();
        let kept = slices.iter().filter(|slice| !replaced.contains(&&slice.metadata.name)).cloned();
        let written = writes.create.iter().chain(&writes.update).cloned().map(Arc::new);
        traffic::unused(self.service, &kept.chain(written).collect::<Vec<_>>())
    }

    fn of_slices(&self, faults: &mut Vec<Fault>) {
        let slices = self.objects.slices_of(&self.service.key);
        let manager = &self.selection.plan_options(self.options).manager;
        faults.extend(self.slices_behind().map(|behind| self.unless_unserved(behind)));
        for slice in slices {
            let name = slice.metadata.name.clone();
            match slice.metadata.labels.get(LABEL_MANAGED_BY) {
                // The writer of the endpoints of a Service without a selector need not name itself
                // as manager: the API server does not, for the Service `kubernetes`.
                None if matches!(self.selection, Selection::None) => {}
                None => faults.push(self.unmanaged(slice)),
                Some(manager) if self.is_of_controller(manager) || self.is_kept(slice) => {}
                Some(manager) => {
                    faults.push(Fault::ForeignSlice { slice: name.clone(), manager: manager.clone() });
                }
            }
            if slice.is_managed_by(manager) && !slice.is_owned_by(self.service) {
                let owner = slice.metadata.owner_references.first();
                let owner = owner.map(|owner| format!("{} {} ({})", owner.kind, owner.name, owner.uid));
                let is_attached = matches!(self.selection, Selection::Attached { .. });
                faults.push(Fault::WrongOwner { slice: name.clone(), owner, is_attached });
            }
            if slice.metadata.deletion_timestamp.is_some() {
                let finalizers = slice.metadata.finalizers.clone();
                faults.push(Fault::SliceTerminating { slice: name, finalizers });
            }
        }
        if faults.iter().any(|fault| matches!(fault, Fault::SlicesBehind(behind) if behind.is_late)) {
            faults.extend(self.of_missing_pods());
        }
        faults.extend(self.gone_pods_left());
        // During a hand-over both controllers publish the same pods.
        let hand_over = &self.planned.hand_over;
        let lasts = |slice: &&Arc<EndpointSlice>| {
            let mut leaving = hand_over.slices.delete.iter().chain(&hand_over.held);
            !leaving.any(|leaving| leaving.metadata.name == slice.metadata.name)
                // Another finding tells of these.
                && !self.is_kept(slice)
        };
        let lasting: Vec<Arc<EndpointSlice>> = slices.iter().filter(lasts).cloned().collect();
        faults.extend(duplicates(&lasting, &self.served.undefined));
    }
}

pub(crate) fn is_mirrored(slice: &Arc<EndpointSlice>) -> bool {
    slice.is_managed_by(MIRRORING_CONTROLLER)
}

/// Returns the label or annotation of Endpoints that prevents mirroring.
fn prevents(cause: NotMirrored) -> Option<&'static str> {
    match cause {
        NotMirrored::SkipLabel => Some(LABEL_SKIP_MIRROR),
        NotMirrored::LeaderElection => Some(ANNOTATION_LEADER),
        _ => None,
    }
}

/// Returns a fault for each reason why the controller does not mirror addresses of Endpoints.
fn not_mirrored(verdicts: &[AddressVerdict]) -> impl Iterator<Item = Fault> {
    let mut skipped: BTreeMap<&SkipReason, Vec<Text>> = BTreeMap::new();
    for one in verdicts {
        if let MirrorVerdict::Skipped(reason) = &one.verdict {
            skipped.entry(reason).or_default().push(one.address.clone());
        }
    }
    skipped.into_iter().map(|(reason, mut addresses)| {
        // In the order of texts, .10 would come before .2.
        addresses.sort_by_cached_key(|address| (address::parse_sloppy(address), address.clone()));
        let maximum = match reason {
            SkipReason::OverMaximum { max } => Some(*max),
            _ => None,
        };
        Fault::AddressNotMirrored { addresses, cause: reason.to_string(), maximum }
    })
}
