//! The rules for Services that change hands between kube-controller-manager and the endpoint
//! selector controller beside it.
//!
//! - `objects`: the objects that decide who publishes a pod, read without the product's code.
//! - `tracker`: a model of what kube-controller-manager expects of its slices.
//! - `leases`, `leading`: a model of the Leases, and the rules for Services with one ready pod.
//! - `cared`: the rules for what nobody maintains.
//! - `quiet`: the rules for times without trouble.
//!
//! A rule about a write counts what the process had surely read, as the other rules do. The live
//! read of a Service before a deletion counts, too.

mod cared;
mod leading;
mod leases;
mod objects;
mod quiet;
mod tracker;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube_endpoint_core_model::well_known::SELECTOR_CONTROLLER;
use kube_endpoint_embedded_apiserver::ChangeKind;
use serde_json::Value;

use super::positions::{LONGEST_PLAN, Position};
use super::world::{FROM_PODS, MIRRORED, Since, managed_by};
use super::writes::ManagerWrite;
use super::{Watcher, rules};
use crate::history::Manager;
use leading::Leading;
pub use leading::Led;
use leases::Leases;
use objects::{Endpoint, KUBERNETES, Objects, Pod, Slice, Source};
use tracker::Tracker;

pub(super) const TRACKED: &str = "a slice of kube-controller-manager leaves its list by deletion only";
const KUBERNETES_STAYS: &str = "the Service of the API server is never attached";
const OF_PODS: &str = "each address is that of a pod of the namespace";
const SHRINKS: &str = "while its selector is missing, the slices of a Service only shrink";
const ASKED: &str = "a read of the Service precedes each write to what others made";
const ATTACHED: &str = "the outputs of others are written of attached Services only";
const HELD: &str = "a take-over is held until a ready endpoint exists";
const CONSTANT: &str = "a pod that is ready before and after a hand-over is ready all the time";
const BACKEND: &str = "a Service with a ready pod has a backend";

type Broken = (&'static str, String);

/// Counts of the rules that were put to the test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tested {
    /// Slices and Endpoints of kube-controller-manager that a take-over deleted.
    pub taken_over: usize,
    /// Slices that were deleted because their Service has a selector again.
    pub handed_back: usize,
    /// Writes of slices while the selector was missing or invalid.
    pub shrunk: usize,
    /// Ready endpoints that left a slice and had to be ready in another one.
    pub constant: usize,
    /// Judgements of quiet Services: attached ones, those with a held take-over among them, those
    /// whose selector is unknown, and those that have been handed back.
    pub attached: usize,
    pub held: usize,
    pub unknown: usize,
    pub own: usize,
    /// Updates of slices and Endpoints that kube-controller-manager left, and the times at which no
    /// ready endpoint could be one of a pod that is gone.
    pub cared: usize,
    pub dead: usize,
}

impl Tested {
    fn counts(&mut self) -> [&mut usize; 10] {
        let Self { taken_over, handed_back, shrunk, constant, attached, held, unknown, own, cared, dead } =
            self;
        [taken_over, handed_back, shrunk, constant, attached, held, unknown, own, cared, dead]
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        let mut other = *other;
        for (sum, other) in self.counts().into_iter().zip(other.counts()) {
            *sum += *other;
        }
    }

    /// Returns the smallest of the counts.
    pub fn least(&self) -> usize {
        let mut counts = *self;
        counts.counts().into_iter().map(|count| *count).min().unwrap_or_default()
    }
}

/// The state of the rules.
#[derive(Debug, Default)]
pub(super) struct Beside {
    objects: Objects,
    tracker: Tracker,
    /// When a process last read a Service from the server.
    asked: BTreeMap<(String, String), Duration>,
    tested: Tested,
    leases: Leases,
    leading: Leading,
    /// The Services with an event about a refused write.
    reported: BTreeSet<String>,
}

/// A write of a slice or of Endpoints that the objects show already.
struct Judged<'a> {
    at: Duration,
    manager: Manager,
    /// Namespace and name of the Service.
    service: &'a str,
    before: Option<&'a Slice>,
    after: Option<&'a Slice>,
    /// The ready endpoints before the write, also those of Endpoints.
    ready: Vec<Endpoint>,
    /// The versions that the process had surely read.
    read: Option<Position>,
    /// When the process last read the Service from the server.
    asked: Option<Duration>,
}

impl Judged<'_> {
    /// Returns the ready endpoints that this write removes from the slice.
    fn left(&self) -> impl Iterator<Item = &Endpoint> {
        let stays = |it: &&Endpoint| self.after.is_some_and(|after| after.has_ready(&it.address));
        self.before.into_iter().flat_map(Slice::ready).filter(move |it| !stays(it))
    }
}

impl Beside {
    pub(super) fn apply(
        &mut self,
        plural: &str,
        key: &str,
        object: Option<&Value>,
        since: Since,
    ) -> Option<Slice> {
        if plural == "pods" {
            self.leading.pod_changed(key, since);
        }
        self.objects.apply(plural, key, object, since)
    }

    /// Notes that a process read a Service from the server.
    pub(super) fn asked(&mut self, at: Duration, process: &str, service: String) {
        self.asked.insert((process.to_owned(), service), at);
    }

    /// Notes an event about a Service.
    pub(super) fn event(&mut self, service: String, reason: &str) {
        if cared::REPORTS.contains(&reason) {
            self.reported.insert(service);
        }
    }

    /// Notes a change of a slice. `author` is the manager that made it.
    pub(super) fn track(
        &mut self,
        key: &str,
        before: Option<&Slice>,
        author: Option<Manager>,
    ) -> Result<(), String> {
        self.tracker.changed(before, self.objects.slices.get(key), author == Some(Manager::K))
    }

    /// Returns true if the pod of an endpoint is ready, and the process knew it.
    fn is_ready_pod(&self, endpoint: &Endpoint, read: Option<Position>) -> bool {
        let Some((pod, since)) = self.objects.pods.get(&endpoint.pod) else { return false };
        let is_known = read.is_some_and(|read| since.version <= read.pods);
        is_known && pod.is_ready && pod.is_behind(endpoint)
    }

    fn own_is_ready(&self, service: &str) -> bool {
        let mut own = self.objects.slices_of(service, SELECTOR_CONTROLLER);
        own.any(|slice| slice.ready().next().is_some())
    }

    /// Checks a deletion of an output of kube-controller-manager, or of an own slice of a Service
    /// that is no longer attached.
    fn judge_deletion(&mut self, judged: &Judged<'_>, manager: &str) -> Result<(), Broken> {
        let Some((source, since)) = self.objects.source(judged.service) else { return Ok(()) };
        let is_own = manager == SELECTOR_CONTROLLER;
        if is_own && source.names_selector() {
            // The plan needs fewer slices.
            return Ok(());
        }
        let Some(asked) = judged.asked.filter(|asked| judged.at < *asked + LONGEST_PLAN) else {
            return Err((ASKED, format!("{} was not read before", judged.service)));
        };
        let knew = asked >= since.at;
        if !is_own && knew && !source.names_selector() {
            return Err((ATTACHED, format!("{} is {source:?}", judged.service)));
        }
        let is_handed_back = matches!(source, Source::Own(_));
        if is_own {
            self.tested.handed_back += usize::from(is_handed_back);
            return Ok(());
        }
        let is_needed = judged.ready.iter().any(|it| self.is_ready_pod(it, judged.read));
        if is_needed && !self.own_is_ready(judged.service) {
            return Err((HELD, format!("no own endpoint of {} is ready", judged.service)));
        }
        self.tested.taken_over += 1;
        Ok(())
    }

    /// Checks an update of an output of kube-controller-manager.
    fn judge_care(&mut self, judged: &Judged<'_>) -> Result<(), Broken> {
        let Some((source, since)) = self.objects.source(judged.service) else { return Ok(()) };
        let Some(asked) = judged.asked.filter(|asked| judged.at < *asked + LONGEST_PLAN) else {
            return Err((ASKED, format!("{} was not read before", judged.service)));
        };
        if asked >= since.at && !source.names_selector() {
            return Err((ATTACHED, format!("{} is {source:?}", judged.service)));
        }
        self.tested.cared += 1;
        Ok(())
    }

    /// Checks a write of an own slice.
    fn judge_own(&mut self, judged: &Judged<'_>) -> Result<(), Broken> {
        let endpoints = |slice: Option<&Slice>| -> Vec<String> {
            slice.into_iter().flat_map(|it| &it.endpoints).map(|it| it.address.clone()).collect()
        };
        let (old, new) = (endpoints(judged.before), endpoints(judged.after));
        let (namespace, _) = judged.service.split_once('/').unwrap_or_default();
        let added: Vec<&String> = new.iter().filter(|it| !old.contains(it)).collect();
        for address in &added {
            if !self.objects.addresses.contains(&(namespace.to_owned(), address.to_string())) {
                return Err((OF_PODS, format!("{address} has never been one in {namespace}")));
            }
        }
        let sources = judged.read.and_then(|read| self.objects.possible_sources(judged.service, read));
        if sources.is_some_and(|it| it.iter().all(|source| **source == Source::Unknown)) {
            self.tested.shrunk += 1;
            if let Some(added) = added.first() {
                return Err((SHRINKS, format!("{added} was added to {}", judged.service)));
            }
        }
        Ok(())
    }

    /// Returns the pod of an endpoint if it is ready, and the process knew it and its node.
    fn constant_pod(&self, endpoint: &Endpoint, read: Position) -> Option<&Pod> {
        let (pod, since) = self.objects.pods.get(&endpoint.pod)?;
        let node = self.objects.nodes.get(&pod.node)?;
        let is_known = since.version <= read.pods && node.version <= read.nodes;
        (is_known && pod.is_ready && pod.is_behind(endpoint)).then_some(pod)
    }

    /// Checks that pods stay ready for clients that are ready all the time, and that the Service
    /// publishes before and after all hand-overs that the process may not know.
    fn judge_left(&mut self, judged: &Judged<'_>) -> Result<(), Broken> {
        let (Some(read), Some(before)) = (judged.read, judged.before) else { return Ok(()) };
        let Some(service) = self.objects.services.get(judged.service) else { return Ok(()) };
        let Some(sources) = self.objects.possible_sources(judged.service, read) else { return Ok(()) };
        if !service.families.contains(&before.family) {
            return Ok(());
        }
        let mut constant = 0;
        for endpoint in judged.left() {
            let Some(pod) = self.constant_pod(endpoint, read) else { continue };
            if !sources.iter().all(|source| source.keeps(pod)) {
                continue;
            }
            constant += 1;
            if !self.objects.publishes(judged.service, &before.family, &endpoint.address) {
                return Err((CONSTANT, format!("{} ({}) is in no slice", endpoint.pod, endpoint.address)));
            }
        }
        self.tested.constant += constant;
        Ok(())
    }

    /// Checks that the last backend stays while its pod is ready and either side selects it. This
    /// holds for the writes of both sides: kube-controller-manager deletes mirrored slices
    /// because their Endpoints are gone.
    fn judge_last(&self, judged: &Judged<'_>) -> Result<(), Broken> {
        let of_service = || self.objects.slices.values().filter(|it| it.service == judged.service);
        if of_service().any(|it| it.ready().next().is_some()) {
            return Ok(());
        }
        let Some(read) = judged.read else { return Ok(()) };
        let Some(sources) = self.objects.possible_sources(judged.service, read) else { return Ok(()) };
        // In a hand-back or without one, its own order of writes decides.
        if judged.manager == Manager::K && !sources.iter().all(|source| source.names_selector()) {
            return Ok(());
        }
        // Own slices follow the EndpointSelector. The slices that others left have the pods of the
        // last selector.
        let is_left = judged.before.is_some_and(|it| it.managed_by != SELECTOR_CONTROLLER);
        let last_selector = self.objects.last_selectors.get(judged.service).filter(|_| is_left);
        let keeps = |source: &Source, pod: &Pod| {
            let by_last = source.names_selector() && last_selector.is_some_and(|last| pod.has(last));
            source.keeps(pod) || by_last
        };
        let is_kept = |endpoint: &&Endpoint| {
            let pod = self.constant_pod(endpoint, read);
            pod.is_some_and(|pod| sources.iter().all(|source| keeps(source, pod)))
        };
        match judged.left().find(is_kept) {
            Some(last) => Err((BACKEND, format!("{} was the last of {}", last.pod, judged.service))),
            None => Ok(()),
        }
    }
}

impl Watcher {
    /// Checks a write of either side. `before` is the slice before it.
    pub(super) fn check_write_beside(&mut self, made: &ManagerWrite<'_>, before: Option<&Slice>) {
        let ManagerWrite { at, manager, key, kind, write, .. } = made;
        self.check("managers write outputs only", key, rules::only_outputs(write));
        let is_other = *manager == Manager::K;
        let is_cared = !is_other
            && write.previous.zip(write.object).is_some_and(|(before, _)| match write.plural {
                "endpointslices" => managed_by(before) == FROM_PODS,
                plural => plural == "endpoints",
            });
        if is_cared {
            self.check(cared::CARED, key, cared::only_takes(write));
        } else {
            self.check("each controller writes its own slices only", key, rules::own_slices_only(write));
        }
        self.check("no slice is over its limit", key, rules::within_limit(write, self.slice_limit));
        let is_deletion = *kind == ChangeKind::Deleted;
        if !is_other {
            let outcome = rules::nothing_of_users_deleted(write);
            self.check("nothing that users have written is deleted", key, outcome);
        }
        let read = self.surely_read(*at, *manager);
        let is_exempt = self.trouble.is_set_back(*at) || self.trouble.is_undone(*at);
        let is_overlapping = self.trouble.is_overlapping();
        let calm = self.calm(*at);
        let Some(beside) = &mut self.beside else { return };
        let after = beside.objects.slices.get(*key).cloned();
        let service = match write.plural {
            "endpointslices" => after.as_ref().or(before).map_or("", |slice| &slice.service),
            "endpoints" => key,
            _ => return,
        };
        let process = write.user_agent.split(' ').next().unwrap_or_default();
        let asked = beside.asked.get(&(process.to_owned(), service.to_owned())).copied();
        let (at, manager) = (*at, *manager);
        let ready = match (before, write.previous) {
            (None, Some(endpoints)) if write.plural == "endpoints" => objects::ready_addresses(endpoints),
            (before, _) => before.into_iter().flat_map(Slice::ready).cloned().collect(),
        };
        let judged = Judged { at, manager, service, before, after: after.as_ref(), ready, read, asked };
        let written_by = match write.plural {
            "endpoints" => "endpoints",
            _ => after.as_ref().or(before).map_or("", |slice| &slice.managed_by),
        };
        let mut outcome = Ok(());
        if !is_other {
            if service == KUBERNETES {
                outcome = Err((KUBERNETES_STAYS, format!("{} {key}", write.plural)));
            }
            if is_cared {
                outcome = outcome.and_then(|()| beside.judge_care(&judged));
            }
            if is_deletion && matches!(written_by, FROM_PODS | MIRRORED | SELECTOR_CONTROLLER | "endpoints") {
                outcome = outcome.and_then(|()| beside.judge_deletion(&judged, written_by));
            }
            if written_by == SELECTOR_CONTROLLER {
                outcome = outcome.and_then(|()| beside.judge_own(&judged));
            }
            // Two processes that write may undo each other's moves.
            if !is_exempt && !is_overlapping {
                outcome = outcome.and_then(|()| beside.judge_left(&judged));
                if written_by == SELECTOR_CONTROLLER {
                    outcome = outcome.and_then(|()| beside.judge_leading(&judged, calm));
                }
            }
        }
        if !is_exempt {
            outcome = outcome.and_then(|()| beside.judge_last(&judged));
        }
        if let Err((rule, detail)) = outcome {
            self.fails(rule, key, detail);
        }
    }

    /// Returns the counts of the rules that were put to the test.
    pub(crate) fn tested_beside(&self) -> Tested {
        self.beside.as_ref().map(|it| it.tested).unwrap_or_default()
    }
}
