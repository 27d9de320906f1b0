//! The book of one Service: everything that the controller knows of it between two syncs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_core_model::{EndpointSlice, ObjectKey, PlannedEvent, ResourceVersion, Service, Text};
use kube_endpoint_endpointslice_controller::slices::SliceState;
use tokio::time::{Instant, sleep};

use super::events::{Situation, Situations};
use super::leader::{Leadership, NamedPod};
use super::{Runtime, SelectorReconciler, selector_of};

/// The time for which requests fail until the situation says so.
const LASTING: Duration = Duration::from_secs(15);
/// The time between two events about the same.
const PERIOD: Duration = Duration::from_secs(1800);

/// The state that the controller keeps for a Service. The runtime makes it, and
/// `SelectorReconciler::forgotten` takes it apart.
#[derive(Debug, Default, PartialEq)]
pub struct ServiceState {
    pub(super) slices: SliceState,
    /// The slices of others whose makers a sync has asked for. One that no controller made stays,
    /// for this reason.
    pub(super) makers: BTreeMap<SliceVersion, Option<Situation>>,
    pub(super) endpoints: LeftEndpoints,
    /// The uids in slices that nobody maintains of pods that the cache knows, or has known.
    pub(super) known_pods: BTreeSet<Text>,
    /// The pods of these slices, by which [`ListedPods`](super::listed_pods::ListedPods) leads to
    /// the Service.
    pub(super) listed_pods: BTreeSet<ObjectKey>,
    /// The pod that the holder of a Lease names.
    pub(super) named: Option<NamedPod>,
    pub(super) leadership: Leadership,
    /// When the first of the syncs failed that have failed since, for a reason that may pass.
    pub(super) failing_since: Option<Instant>,
    /// `None` until a sync has found it out.
    pub(super) found: Option<Found>,
}

/// The situation of a Service, as its last sync found it.
#[derive(Debug, PartialEq)]
pub(super) struct Found {
    /// The EndpointSelector that the Service names.
    pub(super) selector: Option<ObjectKey>,
    pub(super) situations: Situations,
}

/// The Endpoints of a Service that is attached, by what its syncs know.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum LeftEndpoints {
    /// No sync has asked.
    #[default]
    NotAsked,
    /// There are none that a controller made.
    Settled,
    /// The API server has refused to tell or to delete them, at this time.
    Refused(Instant),
}

/// The name and the version of a slice.
pub(super) type SliceVersion = (Text, ResourceVersion);

pub(super) fn version_of(slice: &EndpointSlice) -> SliceVersion {
    (slice.metadata.name.clone(), slice.metadata.resource_version)
}

impl ServiceState {
    /// Forgets who made slices that no longer exist in this version.
    pub(super) fn keep_only<'a>(&mut self, slices: impl Iterator<Item = &'a Arc<EndpointSlice>> + Clone) {
        self.makers.retain(|version, _| slices.clone().any(|slice| *version == version_of(slice)));
    }

    /// Returns true if an earlier sync has found that somebody else made a slice.
    pub(super) fn is_of_somebody_else(&self, slice: &EndpointSlice) -> bool {
        matches!(self.makers.get(&version_of(slice)), Some(Some(_)))
    }

    /// Takes whether a sync has failed for a reason that may pass. Returns true if such failures
    /// last.
    pub(super) fn keeps_failing(&mut self, fails: bool, now: Instant) -> bool {
        let since = fails.then(|| self.failing_since.unwrap_or(now));
        self.failing_since = since;
        since.is_some_and(|since| now.duration_since(since) >= LASTING)
    }

    /// Takes the situation that a sync has found. Returns true if it is new.
    pub(super) fn find(&mut self, found: Found) -> bool {
        let is_new = self.found.as_ref() != Some(&found);
        self.found = Some(found);
        is_new
    }

    /// Returns the event about the situation, if there is one.
    pub(super) fn event(&self) -> Option<PlannedEvent> {
        self.found.as_ref()?.situations.event()
    }

    /// Returns the events that are repeated while they are true.
    fn events(&self) -> impl Iterator<Item = PlannedEvent> {
        self.event().into_iter().chain(self.leadership.event(&Leadership::Unsaid))
    }

    /// Returns true if a sync has judged the Service since this EndpointSelector exists.
    pub(super) fn is_about(&self, selector: &ObjectKey) -> bool {
        self.found.as_ref().is_some_and(|found| {
            found.selector.as_ref() == Some(selector) && !found.situations.has_no_selector()
        })
    }
}

impl SelectorReconciler {
    /// Forgets a Service, with the state that the runtime kept of it.
    pub(super) fn forgotten(&self, key: &ObjectKey, state: ServiceState) {
        self.slices.forgotten(state.slices);
        self.listed_pods.replace(key, &state.listed_pods, &BTreeSet::new());
        if let Some(selector) = state.found.and_then(|found| found.selector) {
            self.statuses.add(selector);
        }
        self.metrics.found(key, &Situations::default());
        self.metrics.leads(key, &Leadership::Unsaid);
    }

    /// Records the pods of a Service's slices, so that their changes start syncs.
    pub(super) fn list_pods<'a>(
        &self,
        runtime: &Runtime,
        service: &ObjectKey,
        slices: impl IntoIterator<Item = &'a Arc<EndpointSlice>>,
    ) {
        let endpoints = slices.into_iter().flat_map(|slice| &slice.endpoints);
        let pods: BTreeSet<ObjectKey> = endpoints
            .filter_map(|endpoint| endpoint.target_ref.as_ref())
            .map(|target| ObjectKey { namespace: service.namespace.clone(), name: target.name.clone() })
            .collect();
        let before =
            runtime.with_state(service, |state| std::mem::replace(&mut state.listed_pods, pods.clone()));
        self.listed_pods.replace(service, &before, &pods);
    }

    /// Records the situation of a Service, and its event if it is new. The event comes again while
    /// it is so.
    pub(super) fn found(&self, runtime: &Runtime, service: &Arc<Service>, situations: Situations) {
        self.metrics.found(&service.key, &situations);
        let (selector, event) = (selector_of(service), situations.event());
        let found = Found { selector: selector.clone(), situations };
        if !runtime.with_state(&service.key, |state| state.find(found)) {
            return;
        }
        if let Some(selector) = selector {
            self.statuses.add(selector);
        }
        if let Some(event) = event {
            runtime.record_event(&**service, &event);
            self.has_problems.notify_one();
        }
    }

    /// Returns what is wrong with these Services, which name an EndpointSelector, or `None` if no
    /// sync has looked at one of them since the EndpointSelector exists.
    pub(super) fn problems_of(
        &self,
        runtime: &Runtime,
        selector: &ObjectKey,
        services: &[ObjectKey],
    ) -> Option<Vec<(ObjectKey, PlannedEvent)>> {
        let mut problems = Vec::new();
        for service in services {
            let event =
                runtime.with_state(service, |state| state.is_about(selector).then(|| state.event()))?;
            problems.extend(event.map(|event| (service.clone(), event)));
        }
        Some(problems)
    }

    /// Repeats the events about Services: the API server forgets an event after an hour, unless it
    /// is told otherwise.
    pub(super) async fn repeat_events(&self, runtime: &Runtime) {
        let have_one = || runtime.keys_matching(|state| state.events().next().is_some());
        loop {
            if have_one().is_empty() {
                self.has_problems.notified().await;
                continue;
            }
            sleep(PERIOD).await;
            for key in have_one() {
                let events: Vec<_> = runtime.with_state(&key, |state| state.events().collect());
                let Some(service) = runtime.cluster().service(&key) else { continue };
                events.iter().for_each(|event| runtime.record_event(&*service, event));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_last_that_no_success_ends() {
        let (mut state, begin) = (ServiceState::default(), Instant::now());
        let mut fails =
            |fails: bool, seconds: u64| state.keeps_failing(fails, begin + Duration::from_secs(seconds));
        assert!(!fails(true, 0) && !fails(true, 14) && fails(true, 15));
        assert!(!fails(false, 16) && !fails(true, 17) && !fails(true, 31) && fails(true, 32));
    }

    #[test]
    fn a_problem_lasts_until_it_is_solved() {
        let mut state = ServiceState::default();
        let selector = ObjectKey::new("shop", "stable");
        let reason = |state: &ServiceState| {
            state.is_about(&selector).then(|| state.event().map_or("", |event| event.reason))
        };
        let find = |state: &mut ServiceState, situation: Option<Situation>| {
            let mut situations = Situations::default();
            situation.into_iter().for_each(|situation| situations.add(situation));
            state.find(Found { selector: Some(selector.clone()), situations })
        };
        let held = || Some(Situation::Held { selector: "stable".into(), slices: 1 });
        assert_eq!(reason(&state), None, "no sync has looked at it");
        assert!(find(&mut state, held()));
        assert!(!find(&mut state, held()));
        assert_eq!(reason(&state), Some("TakeOverHeld"));
        assert!(find(&mut state, None));
        assert_eq!(reason(&state), Some(""));
        assert!(!state.is_about(&ObjectKey::new("shop", "canary")));
        // The selector was made just now, and no sync has seen it.
        assert!(find(
            &mut state,
            Some(Situation::NotFound { selector: "stable".into(), others_stay: false })
        ));
        assert_eq!(reason(&state), None);
    }
}
