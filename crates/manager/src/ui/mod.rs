//! The status page `/ui`: the work of the controllers, and the problems of the Services.
//!
//! - `routes.rs` answers requests: the page, its data, a stream of its data, and the explanation of
//!   a Service.
//! - `status.rs`, `zones.rs` and `history.rs` are pure: they make the data from the results of the
//!   others.
//! - `survey.rs` counts slices and endpoints, and `problems.rs` looks for problems. Both read all
//!   caches, so they run on a thread for blocking work, only while somebody watches, and once for
//!   all readers (`kept.rs`).
//! - `namespaces.rs` finds out which namespaces a reader may see. The page neither counts nor names
//!   the objects of the others.
//!
//! `crates/explain` makes the explanations from the caches of the controllers (`objects.rs`).

mod history;
mod kept;
#[cfg(feature = "embedded")]
mod loopback;
mod namespaces;
mod objects;
mod page;
mod problems;
mod routes;
#[cfg(test)]
mod same_codes;
mod status;
mod survey;
mod zones;

use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_api_writer::Clock;
use kube_endpoint_core_model::Timestamp;
use kube_endpoint_explain::Options;
use kube_endpoint_serving::MountedPages;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::MissedTickBehavior;

use crate::leader::host_name;
use crate::manager::{Manager, ManagerHandle};
use crate::settings::Settings;
use history::{History, Sample};
use kept::Kept;
use namespaces::Readers;
use page::Document;
use problems::Problems;
use survey::Survey;

/// The path of the page.
const PREFIX: &str = "/ui";

/// The period of the samples of the queues.
const SAMPLE_PERIOD: Duration = Duration::from_secs(1);

/// The shortest time between two counts of slices and endpoints.
const SURVEY_PERIOD: Duration = Duration::from_secs(2);

/// The shortest time between two searches for problems.
const PROBLEMS_PERIOD: Duration = Duration::from_secs(10);

/// The most explanations at the same time.
const EXPLANATIONS_AT_ONCE: usize = 2;

/// The pages at `/ui` of a manager. Clones share them.
#[derive(Clone)]
pub(crate) struct Ui {
    shared: Arc<Shared>,
}

/// The state that all requests share.
struct Shared {
    manager: ManagerHandle,
    identity: Identity,
    options: Options,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    document: Document,
    history: Mutex<History>,
    /// Dates the samples of the history. Nobody sets this clock: a step of the wall clock would
    /// move samples out of the shown time.
    sampling: Clock,
    survey: Arc<Kept<Survey>>,
    problems: Arc<Kept<Problems>>,
    readers: Readers,
    explaining: Arc<Semaphore>,
}

/// The identity of this process.
#[derive(Clone, Debug, Default)]
struct Identity {
    version: String,
    /// The host name, which is the name of the pod in a cluster.
    replica: String,
    /// The Lease, as `namespace/name`. It is `None` without leader election.
    lease: Option<String>,
    /// The identity of this process in the Lease.
    holder: Option<String>,
}

impl Ui {
    /// Makes the pages of a manager. `clock` reads the current time.
    pub(crate) fn new(
        manager: ManagerHandle,
        settings: &Settings,
        version: String,
        clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    ) -> Self {
        let election = settings.leader_election.as_ref();
        let identity = Identity {
            version,
            replica: host_name(),
            lease: election.map(|election| format!("{}/{}", election.namespace, election.name)),
            holder: election.and_then(|election| election.identity.clone()),
        };
        let names = manager.ui_samples().into_iter().map(|(name, _)| name).collect();
        Self {
            shared: Arc::new(Shared {
                history: Mutex::new(History::new(names)),
                sampling: Clock::starting_at(clock()),
                manager,
                identity,
                options: objects::options(settings),
                clock,
                document: Document::new(),
                survey: Kept::new(SURVEY_PERIOD),
                problems: Kept::new(PROBLEMS_PERIOD),
                readers: Readers::default(),
                explaining: Arc::new(Semaphore::new(EXPLANATIONS_AT_ONCE)),
            }),
        }
    }

    /// Returns the pages for a server.
    pub(crate) fn pages(&self) -> MountedPages {
        MountedPages::new(PREFIX, Arc::new(self.clone()))
    }

    /// Samples the queues and counts forever.
    pub(crate) async fn sample(self) {
        let mut ticks = tokio::time::interval(SAMPLE_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            let samples: Vec<Sample> =
                self.shared.manager.ui_samples().into_iter().map(|(_, sample)| sample).collect();
            self.shared.history.lock().add(self.shared.sampling.now(), &samples);
        }
    }
}

impl Manager {
    /// Returns the pages of this manager. It makes them once, and both ports show the same.
    pub(crate) fn ui(
        &mut self,
        settings: &Settings,
        version: &str,
        clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    ) -> Ui {
        if let Some(ui) = &self.ui {
            return ui.clone();
        }
        self.explain_pods();
        let ui = Ui::new(self.handle(), settings, version.to_owned(), clock);
        self.add_task("status page samples", ui.clone().sample());
        self.ui.insert(ui).clone()
    }
}

impl ManagerHandle {
    /// Returns the queues and counts of the controllers, by name.
    #[cfg_attr(
        not(feature = "_controllers"),
        expect(unused_mut, reason = "unchanged in a build without controllers")
    )]
    fn ui_samples(&self) -> Vec<(&'static str, Sample)> {
        let mut samples = Vec::new();
        #[cfg(feature = "endpoints")]
        if let Some(controller) = &self.controllers().endpoints {
            samples.push((crate::ControllerName::Endpoints.as_str(), sample_of(controller)));
        }
        #[cfg(feature = "endpointslice")]
        if let Some(controller) = &self.controllers().endpoint_slice {
            samples.push((crate::ControllerName::EndpointSlice.as_str(), sample_of(controller)));
        }
        #[cfg(feature = "mirroring")]
        if let Some(controller) = &self.controllers().mirroring {
            samples.push((crate::ControllerName::EndpointSliceMirroring.as_str(), sample_of(controller)));
        }
        #[cfg(feature = "selectors")]
        if let Some(controller) = &self.controllers().endpoint_selector {
            samples.push((crate::ControllerName::EndpointSelector.as_str(), sample_of(controller)));
        }
        samples
    }
}

#[cfg(feature = "_controllers")]
fn sample_of<R: kube_endpoint_controller_runtime::Reconciler>(
    controller: &kube_endpoint_controller_runtime::Controller<R>,
) -> Sample {
    Sample {
        queue_depth: controller.queue_depth(),
        failing: controller.failing_counts(),
        activity: controller.activity(),
    }
}
