//! The status page `/ui`: the work of the controllers, and the problems of the Services.
//!
//! `crates/status-page` is the page. These modules answer its questions from the caches:
//!
//! - `overview.rs` implements [`Overview`](kube_endpoint_status_page::Overview).
//! - `status.rs` and `history.rs` are pure: they make the data from the results of the others.
//! - `survey.rs` counts slices and endpoints, and `problems.rs` looks for problems. Both read all
//!   caches, so they run on a thread for blocking work, only while somebody watches, and once for
//!   all readers.
//! - `namespaces.rs` finds out which namespaces a reader may see. The page neither counts nor names
//!   the objects of the others.
//!
//! An explanation of a Service is read from the API server with the rights of the manager, once it
//! is known that its reader may see the namespace.

mod history;
#[cfg(feature = "embedded")]
mod loopback;
mod namespaces;
mod objects;
mod overview;
mod problems;
mod status;
mod survey;

use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_api_writer::Clock;
use kube_endpoint_explain::Options;
use kube_endpoint_explain_reader::Reader;
use kube_endpoint_serving::MountedPages;
use kube_endpoint_status_page::{Kept, StatusPage, WallClock};
use parking_lot::Mutex;
use tokio::time::MissedTickBehavior;

use crate::leader::host_name;
use crate::manager::{Manager, ManagerHandle};
use crate::settings::Settings;
use history::{History, Sample};
use namespaces::Readers;
use problems::Problems;
use survey::Survey;

/// The period of the samples of the queues.
const SAMPLE_PERIOD: Duration = Duration::from_secs(1);

/// The shortest time between two counts of slices and endpoints.
const SURVEY_PERIOD: Duration = Duration::from_secs(2);

/// The shortest time between two searches for problems.
const PROBLEMS_PERIOD: Duration = Duration::from_secs(10);

/// The pages at `/ui` of a manager. Clones share them.
#[derive(Clone)]
pub(crate) struct Ui {
    page: StatusPage<Caches>,
}

/// The state that all requests share.
struct Caches {
    manager: ManagerHandle,
    identity: Identity,
    options: Options,
    clock: WallClock,
    history: Mutex<History>,
    /// Dates the samples of the history. Nobody sets this clock: a step of the wall clock would
    /// move samples out of the shown time.
    sampling: Clock,
    survey: Arc<Kept<Survey>>,
    problems: Arc<Kept<Problems>>,
    readers: Readers,
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
        client: &ApiClient,
        settings: &Settings,
        version: String,
        clock: WallClock,
    ) -> Self {
        let election = settings.leader_election.as_ref();
        let identity = Identity {
            version,
            replica: host_name(),
            lease: election.map(|election| format!("{}/{}", election.namespace, election.name)),
            holder: election.and_then(|election| election.identity.clone()),
        };
        let names = manager.ui_samples().into_iter().map(|(name, _)| name).collect();
        let options = objects::options(settings);
        let caches = Caches {
            history: Mutex::new(History::new(names)),
            sampling: Clock::starting_at(clock()),
            manager,
            identity,
            options: options.clone(),
            clock: Arc::clone(&clock),
            survey: Kept::new(SURVEY_PERIOD),
            problems: Kept::new(PROBLEMS_PERIOD),
            readers: Readers::default(),
        };
        // Its readers may see fewer namespaces than the manager.
        let reader = Reader::new(client.kube().clone()).within_namespace();
        Self { page: StatusPage::new(caches, reader, options, clock) }
    }

    /// Returns the pages for a server.
    pub(crate) fn pages(&self) -> MountedPages {
        self.page.pages()
    }

    /// Samples the queues and counts forever.
    pub(crate) async fn sample(self) {
        let mut ticks = tokio::time::interval(SAMPLE_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            let caches = self.page.overview();
            let samples: Vec<Sample> =
                caches.manager.ui_samples().into_iter().map(|(_, sample)| sample).collect();
            caches.history.lock().add(caches.sampling.now(), &samples);
        }
    }
}

impl Manager {
    /// Returns the pages of this manager, which read with `client`. It makes them once, and both
    /// ports show the same.
    pub(crate) fn ui(
        &mut self,
        client: &ApiClient,
        settings: &Settings,
        version: &str,
        clock: WallClock,
    ) -> Ui {
        if let Some(ui) = &self.ui {
            return ui.clone();
        }
        let ui = Ui::new(self.handle(), client, settings, version.to_owned(), clock);
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
