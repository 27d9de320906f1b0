//! Starts the tasks that list and watch.

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_core_model::{EndpointSelector, EndpointSlice, Endpoints, Lease, Node, Pod, Service};
use kube_endpoint_informer::{Cluster, Kind, Kinds, Object, ReflectorOptions};
use kube_endpoint_watch_channel as watch;

use crate::controller_name::ControllerName;
use crate::discovery;

use super::ManagerHandle;
use super::build::Seeds;
use super::tasks::NamedTasks;

/// The parts from which a manager starts its informers.
pub(super) struct Informers<'a> {
    pub(super) client: ApiClient,
    pub(super) cluster: Cluster,
    pub(super) kinds: Kinds,
    pub(super) dry_run: bool,
    pub(super) controllers: Vec<ControllerName>,
    pub(super) options: ReflectorOptions,
    pub(super) seeds: &'a mut Seeds,
    pub(super) handle: ManagerHandle,
    /// Publishes the kinds to list: those of the controllers whose resources the API server serves.
    pub(super) listed: watch::Sender<Kinds>,
}

impl Informers<'_> {
    /// Starts an informer for each kind. Each begins when discovery has published its kind. The
    /// tasks end when the caller sends something through the returned sender.
    pub(super) fn start(mut self) -> (NamedTasks, watch::Sender<()>) {
        // A dry run prints the differences, for which it needs whole Endpoints.
        if !self.dry_run {
            self.cluster.summarize_endpoints();
        }
        let mut tasks = NamedTasks::default();
        let stop = watch::Sender::new(());
        self.start_one::<Pod>(&mut tasks, &stop);
        self.start_one::<Service>(&mut tasks, &stop);
        self.start_one::<Node>(&mut tasks, &stop);
        self.start_one::<EndpointSlice>(&mut tasks, &stop);
        self.start_one::<Endpoints>(&mut tasks, &stop);
        self.start_one::<EndpointSelector>(&mut tasks, &stop);
        // The EndpointSelectors say which Leases are listed, if any.
        self.start_with::<Lease>(Kind::EndpointSelectors, &mut tasks, &stop);
        let mut stopped = stop.subscribe();
        let report = move |serves_slices| self.handle.set_serves_slices(serves_slices);
        tasks.spawn("discovery", async move {
            tokio::select! {
                biased;
                _ = stopped.changed() => {}
                () = discovery::run(self.client, self.cluster, self.controllers, self.listed, report) => {}
            }
        });
        (tasks, stop)
    }

    fn start_one<T: Object>(&mut self, tasks: &mut NamedTasks, stop: &watch::Sender<()>) {
        self.start_with::<T>(T::KIND, tasks, stop);
    }

    /// Starts an informer that begins when discovery has published `kind`.
    fn start_with<T: Object>(&mut self, kind: Kind, tasks: &mut NamedTasks, stop: &watch::Sender<()>) {
        if !self.kinds.contains(kind) {
            return;
        }
        let options = self.options.seed(self.seeds.next());
        let (client, cluster, mut stopped) = (self.client.clone(), self.cluster.clone(), stop.subscribe());
        let mut again = stop.subscribe();
        let mut listed = self.listed.subscribe();
        let name = format!("informer of {}", Kind::name(T::KIND));
        tasks.spawn(name, async move {
            tokio::select! {
                biased;
                _ = stopped.changed() => return,
                // This fails if discovery has ended, as in a shutdown.
                _ = listed.wait_for(|kinds| kinds.contains(kind)) => {}
            }
            let shutdown = async move {
                let _ = stopped.changed().await;
            };
            let ended = kube_endpoint_informer::run::<T>(client, cluster, options, shutdown).await;
            if ended.is_err() {
                // The storage went back: the manager knows that too, and aborts this task when it
                // starts again.
                let _ = again.changed().await;
            }
        });
    }
}
