//! Rehearses hand-overs. A Service that has a selector and names an EndpointSelector stays with
//! kube-controller-manager. The status of the EndpointSelector says if the hand-over would work.
//!
//! This writes nothing for such a Service. It asks the API server with dry runs, so quotas,
//! policies and rights answer. That takes four requests for a Service, and one Service waits for
//! the other. It does so when the Service or its EndpointSelector has changed, and later again,
//! rarely while the answer is no. A change of a pod causes no rehearsal.

mod book;

use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_api_writer::WriteError;
use kube_endpoint_core_model::endpoint_selector::LONGEST_NAME;
use kube_endpoint_core_model::maker::{Content, Keep, Provenance};
use kube_endpoint_core_model::{
    Backoff, EndpointSelector, EndpointSlice, Endpoints, LabelSelector, ObjectKey, PlannedEvent, Pod,
    Readiness, ReadyPods, Role, Service, Text, harmless,
};
use kube_endpoint_informer::{Change, Cluster};
use kube_endpoint_slice_plan::{PlanInputs, plan};
use tokio::time::{Instant, sleep};

use super::leader::{by_identity, nobody};
use super::leases::{Standing, lease_of};
use super::{PAGE, Runtime, SelectorReconciler, for_each_service};
use crate::hand_over::Slices;
use book::{Due, Look};
pub(super) use book::{Rehearsals, Rehearsed, Verdict};

/// The pause after requests.
const PAUSE: Duration = Duration::from_secs(1);
/// The delays between looks at a Service that is not ready.
const DELAYS: Backoff = Backoff::new(Duration::from_secs(30), Duration::from_secs(600));
/// A Service that is ready is looked at in the caches after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(300);
/// The API server is asked again after this time, although nothing has changed.
const ASK_AGAIN: Duration = Duration::from_secs(1800);
/// The most characters of an error in a message.
const LONGEST_ERROR: usize = 400;

/// Returns the EndpointSelector with which a Service rehearses, if it does.
fn selector_of(service: &Service) -> Option<ObjectKey> {
    let name = service.rehearsed_selector().filter(|_| service.deletion_timestamp.is_none())?;
    Some(ObjectKey { namespace: service.key.namespace.clone(), name: name.clone() })
}

impl SelectorReconciler {
    /// Finds the Services that rehearse.
    pub(super) fn begin_rehearsals(&self, runtime: &Runtime) {
        for_each_service(runtime, None, |service| {
            if let Some(selector) = selector_of(service) {
                self.rehearsals.begin(&service.key, selector, Instant::now());
            }
        });
    }

    /// Takes a change of a Service.
    pub(super) fn service_rehearses(&self, runtime: &Runtime, change: &Change<Service>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let [before, now] = [old, new].map(|service| service.and_then(selector_of));
        let same = old.zip(new).is_some_and(|(old, new)| old.same_for_controllers(new));
        if (before.is_none() && now.is_none()) || (before == now && same) {
            return;
        }
        let Some(service) = change.latest() else { return };
        let now = now.filter(|_| runtime.is_selected(&service.key));
        for selector in self.rehearsals.set(&service.key, now, Instant::now()) {
            self.statuses.add(selector);
        }
    }

    /// Looks at the Services, one after the other.
    pub(super) async fn rehearse(&self, runtime: &Runtime) {
        if runtime.writer().writer().dry_run().is_some() {
            return std::future::pending().await;
        }
        loop {
            let due = self.rehearsals.next().await;
            let service = runtime.cluster().service(&due.service);
            let Some(service) = service.filter(|_| runtime.is_selected(&due.service)) else {
                for selector in self.rehearsals.set(&due.service, None, Instant::now()) {
                    self.statuses.add(selector);
                }
                continue;
            };
            let (look, asked) = self.look(runtime, &service, &due).await;
            let verdict = look.verdict.clone();
            if let Some(before) = self.rehearsals.record(&due, look, Instant::now()) {
                self.statuses.add(due.selector);
                let is_new = before.as_ref() != Some(&verdict);
                if let Some(event) = event(&verdict, before.as_ref()).filter(|_| is_new) {
                    runtime.record_event(&*service, &event);
                }
            }
            if asked {
                sleep(PAUSE).await;
            }
        }
    }

    /// Looks at one Service. Returns true if the API server was asked.
    async fn look(&self, runtime: &Runtime, service: &Arc<Service>, due: &Due) -> (Look, bool) {
        let not_yet = |verdict| Look { verdict, agreed: false, again_after: DELAYS.delay(due.refusals) };
        let draft = match self.draft(runtime, service, &due.selector).await {
            Ok(draft) => draft,
            Err(verdict) => return (not_yet(verdict), false),
        };
        if due.agreed_at.is_some_and(|at| at.elapsed() < ASK_AGAIN) {
            return (Look { verdict: Verdict::ready(), agreed: false, again_after: LOOK_AGAIN }, false);
        }
        let look = match self.ask(runtime, service, draft).await {
            Ok(()) => Look { verdict: Verdict::ready(), agreed: true, again_after: LOOK_AGAIN },
            Err(verdict) => not_yet(verdict),
        };
        (look, true)
    }

    /// Returns a slice with a ready endpoint that the Service would have without its selector.
    async fn draft(
        &self,
        runtime: &Runtime,
        service: &Service,
        selector: &ObjectKey,
    ) -> Result<EndpointSlice, Verdict> {
        let cluster = runtime.cluster();
        let name = harmless(&selector.name, LONGEST_NAME);
        let Some(object) = cluster.endpoint_selector(selector) else {
            let message = format!("EndpointSelector {name} does not exist");
            return Err(Verdict::refused("EndpointSelectorNotFound", message));
        };
        let pods = match &object.selector {
            Ok(labels) => selected(cluster, &selector.namespace, labels),
            Err(error) => {
                let message = harmless(&error.to_string(), LONGEST_ERROR).into_owned();
                return Err(Verdict::refused("EndpointSelectorInvalid", message));
            }
        };
        if pods.is_empty() {
            let message = format!("EndpointSelector {name} selects no pod");
            return Err(Verdict::refused("NoPod", message));
        }
        let ready_pods = self.ready_pods_of(runtime, &object, &pods).await;
        let publishes_all = service.publish_not_ready_addresses;
        let ready_pods = match ready_pods {
            Err(verdict) if !publishes_all => return Err(verdict),
            ready_pods => ready_pods.unwrap_or_default(),
        };
        let attached = Service { selector: None, ..service.clone() };
        let inputs = PlanInputs::new(&attached, &pods, cluster)
            .with_options(&self.options.plan)
            .with_ready_pods(ready_pods.as_ref());
        let slices = plan(&inputs).sub_plans.into_iter().flat_map(|sub_plan| sub_plan.writes.create);
        let is_ready = |slice: &EndpointSlice| {
            slice.endpoints.iter().any(|endpoint| endpoint.conditions.ready == Some(true))
        };
        slices.into_iter().find(is_ready).ok_or_else(|| {
            let message = match ready_pods {
                Some(ReadyPods::Leader(Some(pod))) => format!("Pod {pod}, which leads, is not ready"),
                Some(ReadyPods::Followers(Some(pod))) => {
                    format!("EndpointSelector {name} selects no ready pod beside {pod}, which leads")
                }
                Some(ReadyPods::Condition { kind, .. }) => {
                    format!("the condition {kind} is True of no ready pod of EndpointSelector {name}")
                }
                _ => format!("EndpointSelector {name} selects no pod that is ready"),
            };
            Verdict::refused("NoReadyPod", message)
        })
    }

    /// Returns the pods that an EndpointSelector chooses, as for a Service that is attached.
    async fn ready_pods_of(
        &self,
        runtime: &Runtime,
        selector: &EndpointSelector,
        pods: &[Arc<Pod>],
    ) -> Result<Option<ReadyPods>, Verdict> {
        let (role, lease) = match (&selector.readiness, lease_of(selector)) {
            (Some(Readiness::Condition { kind, pick }), _) => {
                return Ok(Some(ReadyPods::Condition { kind: kind.clone(), pick: *pick }));
            }
            (Some(Readiness::Lease { role, .. }), Some(lease)) => (*role, lease),
            _ => return Ok(None),
        };
        let refused = |reason: String| Verdict::refused("NobodyLeads", reason);
        let found = match self.standing(runtime, &lease).await.0 {
            Standing::Holder(identity, _) => {
                self.recognise(selector, Some(&identity), pods, true, None);
                by_identity(&lease.name, &identity, pods).map(|pod| pod.key.name.clone()).map_err(refused)
            }
            Standing::Unknown(_) | Standing::Overdue => {
                let message = format!("no holder of Lease {} has renewed it yet", lease.name);
                Err(Verdict::unknown("LeaderAwaited", message))
            }
            Standing::Nobody => {
                let seen = self.leases.seen(&lease);
                Err(refused(nobody(&lease.name, seen.as_deref())))
            }
        };
        match found {
            Err(reason) if role == Role::Leader => Err(reason),
            // Without a leader each pod follows.
            found => Ok(Some(role.beside(found.ok()))),
        }
    }

    /// Asks the API server if it would let the controller take the Service over.
    ///
    /// # Errors
    ///
    /// The first reason why not, or else the first question that it does not answer.
    async fn ask(&self, runtime: &Runtime, service: &Service, draft: EndpointSlice) -> Result<(), Verdict> {
        let mut unknown = None;
        let mut unless_refused = |answer: Result<(), Verdict>| match answer {
            Err(verdict) if !verdict.is_refused() => {
                unknown.get_or_insert(verdict);
                Ok(())
            }
            answer => answer,
        };
        unless_refused(self.may_write_slices(runtime, service, draft).await)?;
        unless_refused(self.may_delete_endpoints(runtime, &service.key).await)?;
        unless_refused(self.are_slices_of_controllers(runtime, service).await)?;
        unknown.map_or(Ok(()), Err)
    }

    async fn may_write_slices(
        &self,
        runtime: &Runtime,
        service: &Service,
        draft: EndpointSlice,
    ) -> Result<(), Verdict> {
        let mut slice = draft;
        // One name, so that an answer that has it does not change.
        slice.metadata.name = format!("{}-rehearsal", service.key.name).into();
        match runtime.writer().writer().yielding().try_create(&slice).await {
            Ok(()) | Err(WriteError::AlreadyExists(_)) => Ok(()),
            Err(error) => Err(not_allowed("EndpointSlicesRefused", "create EndpointSlices", &error)),
        }
    }

    async fn may_delete_endpoints(&self, runtime: &Runtime, service: &ObjectKey) -> Result<(), Verdict> {
        let writer = runtime.writer().writer().yielding();
        let read = writer.provenance::<Endpoints>(service).await;
        let read = read.map_err(|error| not_allowed("EndpointsForbidden", "read the Endpoints", &error))?;
        // Nobody mirrors the lock of a leader election.
        let Some(made) = read.filter(|made| !made.is_lock()) else { return Ok(()) };
        if let Some(by) = somebody_else(&made, Content::Endpoints, &writer.controllers()) {
            let message = format!(
                "{by} wrote the Endpoints of this name, and clients would go on using their addresses"
            );
            return Err(Verdict::refused("WrittenByOthers", message));
        }
        match writer.try_delete::<Endpoints>(service, &made).await {
            Ok(()) | Err(WriteError::NotFound(_) | WriteError::Conflict(_)) => Ok(()),
            Err(error) => Err(not_allowed("EndpointsForbidden", "delete the Endpoints", &error)),
        }
    }

    async fn are_slices_of_controllers(&self, runtime: &Runtime, service: &Service) -> Result<(), Verdict> {
        let slices = runtime.cluster().slices_of(&service.key);
        let slices = Slices::of(service, &slices, &self.options.plan.manager);
        if !slices.has_others() {
            return Ok(());
        }
        let writer = runtime.writer().writer().yielding();
        let made = writer.makers_of_slices(&service.key).await;
        let made =
            made.map_err(|error| not_allowed("EndpointSlicesRefused", "list EndpointSlices", &error))?;
        let others = slices.of_pods.iter().chain(&slices.mirrored);
        let names: Vec<&Text> = others.map(|slice| &slice.metadata.name).collect();
        for slice in made.iter().filter(|slice| names.contains(&slice.name())) {
            if let Some(by) = somebody_else(slice, Content::Slice, &writer.controllers()) {
                let message =
                    format!("{by} wrote EndpointSlice {}, and clients would go on using it", slice.name());
                return Err(Verdict::refused("WrittenByOthers", message));
            }
        }
        Ok(())
    }
}

/// Returns the pods of a namespace that a selector selects, sorted by name. No index has them as
/// long as no Service is attached, so this reads all pods of the namespace.
fn selected(cluster: &Cluster, namespace: &Text, selector: &LabelSelector) -> Vec<Arc<Pod>> {
    let mut selected = Vec::new();
    let mut after = ObjectKey { namespace: namespace.clone(), name: Text::default() };
    loop {
        let page = cluster.pods_after(&after, PAGE);
        let (mine, is_last) = match page.last() {
            Some(last) if last.key.namespace == *namespace => {
                after = last.key.clone();
                (page, false)
            }
            _ => (page, true),
        };
        let is_selected = |pod: &Arc<Pod>| pod.key.namespace == *namespace && selector.matches(&pod.labels);
        selected.extend(mine.into_iter().filter(is_selected));
        if is_last {
            return selected;
        }
    }
}

/// Returns the client that made an object, if it is no controller.
fn somebody_else(made: &Provenance, content: Content, controllers: &[&str]) -> Option<String> {
    match made.reason_to_keep(content, controllers) {
        // Nobody mirrors a lock.
        None | Some(Keep::Lock) => None,
        Some(keep) => Some(harmless(&keep.to_string(), LONGEST_NAME).into_owned()),
    }
}

/// Returns the verdict for a request that failed.
fn not_allowed(reason: &'static str, what: &str, error: &WriteError) -> Verdict {
    let text = error.to_string();
    let text = harmless(&text, LONGEST_ERROR);
    let unknown = format!("nobody knows if the controller may {what}: {text}");
    match error {
        error if error.is_dry_run_unsupported() => Verdict::unknown("DryRunUnsupported", unknown),
        WriteError::Refused { code: 1.., .. } | WriteError::NamespaceTerminating(_) => {
            Verdict::refused(reason, format!("the controller may not {what}: {text}"))
        }
        _ => Verdict::unknown("NotAnswered", unknown),
    }
}

/// Returns the event about a Service that rehearses.
fn event(verdict: &Verdict, before: Option<&Verdict>) -> Option<PlannedEvent> {
    match verdict.status {
        "False" => Some(PlannedEvent::warning("NotReadyToAttach", verdict.message.clone())),
        "True" if before.is_some() => Some(PlannedEvent::normal(
            "ReadyToAttach",
            "the EndpointSelector can select the pods; take spec.selector out of the Service",
        )),
        _ => None,
    }
}
