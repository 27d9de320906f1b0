//! Answers the page's questions from the caches.

use std::sync::Arc;

use kube_endpoint_core_model::{Node, ObjectKey};
use kube_endpoint_informer::Kind;
use kube_endpoint_serving::Access;
use kube_endpoint_status_page::{Overview, Refusal, Status};

use super::namespaces::{Visible, may_see, may_see_all};
use super::problems::Problems;
use super::status::{Inputs, status};
use super::survey::Survey;
use super::{Caches, objects};

/// The number of keys to read under one lock.
const STEP: usize = 500;

/// Runs long work on a thread for blocking work. Returns `None` if it panicked, or if the runtime
/// shuts down.
#[expect(
    clippy::disallowed_methods,
    reason = "a page is made for a client on a socket, which no run repeats"
)]
async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

impl Caches {
    async fn survey(&self) -> Option<Arc<Survey>> {
        let (manager, slices) = (self.manager.clone(), self.options.slices.clone());
        let make = || {
            on_thread(move || Survey::of(&manager.cluster(), &slices.manager, slices.max_endpoints_per_slice))
        };
        self.survey.get(make).await
    }

    async fn problems(&self) -> Option<Arc<Problems>> {
        // Before the first lists, all outputs would seem to be missing.
        if !self.manager.has_synced() {
            return None;
        }
        let (cluster, options, before) = (self.manager.cluster(), self.options.clone(), self.problems.last());
        let clock = Arc::clone(&self.clock);
        let make = || {
            on_thread(move || {
                Problems::of(&cluster, &options, objects::known(&cluster), clock(), before.as_deref())
            })
        };
        self.problems.get(make).await
    }

    async fn visible(&self, access: &Access, survey: Option<&Survey>) -> Option<Arc<Visible>> {
        let survey = survey?;
        self.readers.visible(access, || survey.namespaces.keys().cloned().collect()).await
    }
}

impl Overview for Caches {
    async fn status(&self, access: &Access) -> Status {
        let (survey, problems) = tokio::join!(self.survey(), self.problems());
        let visible = self.visible(access, survey.as_deref()).await;
        let manager = &self.manager;
        let controllers = manager.ui_samples();
        let now = (self.clock)();
        let history = self.history.lock().view(self.sampling.now(), now);
        let leading = *manager.leading().borrow();
        status(Inputs {
            now,
            identity: &self.identity,
            synced: manager.has_synced(),
            leading,
            shutting_down: manager.is_shutting_down(),
            dry_run: manager.is_dry_run(),
            leader: manager.leader(),
            controllers: &controllers,
            history,
            survey: survey.as_deref(),
            visible: visible.as_deref(),
            problems: problems.as_deref(),
            max_endpoints_per_slice: self.options.slices.max_endpoints_per_slice,
        })
    }

    async fn services(&self, access: &Access, filter: &str, limit: usize) -> Result<Vec<ObjectKey>, Refusal> {
        let survey = self.survey().await;
        let Some(visible) = self.visible(access, survey.as_deref()).await else {
            let message = "which namespaces you may see is not known yet; try again in some seconds";
            return Err(Refusal::NotKnownYet(message.to_owned()));
        };
        let cluster = self.manager.cluster();
        let (mut found, mut after) = (Vec::new(), ObjectKey::default());
        while found.len() < limit {
            let keys = cluster.services_after(&after, STEP);
            let Some(last) = keys.last() else { break };
            after = last.clone();
            let is_meant =
                |key: &ObjectKey| visible.shows(&key.namespace) && key.to_string().contains(filter);
            found.extend(keys.into_iter().filter(is_meant));
        }
        found.truncate(limit);
        Ok(found)
    }

    async fn may_explain(&self, access: &Access, namespace: &str) -> Result<(), Refusal> {
        // A reader may make up names of namespaces. The page asks the API server only about known
        // ones, and otherwise about all namespaces.
        let survey = self.survey().await;
        let is_known = survey.as_deref().is_none_or(|survey| survey.namespaces.contains_key(namespace));
        let allowed = match is_known {
            true => may_see(access, namespace).await,
            false => may_see_all(access).await,
        };
        match allowed {
            Ok(true) => Ok(()),
            // The answer is the same for an unknown namespace, so it does not tell whether the
            // namespace exists.
            Ok(false) => Err(Refusal::Forbidden(format!(
                "you may not list EndpointSlices in the namespace {namespace:?}, or it has no Service"
            ))),
            Err(unanswered) => {
                Err(Refusal::Failed(format!("cannot find out whether this is allowed: {unanswered}")))
            }
        }
    }

    fn nodes(&self) -> Option<Vec<Arc<Node>>> {
        let cluster = self.manager.cluster();
        cluster.has_synced_kinds([Kind::Nodes]).then(|| cluster.nodes())
    }

    async fn shut_down(&self) {
        let mut shutting_down = self.manager.shutting_down();
        // This cannot fail, because the manager's handle holds the sender.
        let _ = shutting_down.wait_for(|is| *is).await;
    }
}
