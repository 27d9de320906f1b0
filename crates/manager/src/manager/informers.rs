//! The tasks that list and watch.

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_core_model::{EndpointSlice, Endpoints, Node, Pod, Service};
use kube_endpoint_informer::{Cluster, Kind, Kinds, Object, ReflectorOptions};
use tokio::sync::watch;

use super::build::Seeds;
use super::tasks::NamedTasks;

/// What informers are started with.
pub(super) struct Informers {
    pub(super) client: ApiClient,
    pub(super) cluster: Cluster,
    pub(super) kinds: Kinds,
    pub(super) options: ReflectorOptions,
    pub(super) seeds: Seeds,
}

impl Informers {
    /// Starts an informer for each kind. They end when something is sent.
    pub(super) fn start(mut self) -> (NamedTasks, watch::Sender<()>) {
        let mut tasks = NamedTasks::default();
        let stop = watch::Sender::new(());
        self.start_one::<Pod>(&mut tasks, &stop);
        self.start_one::<Service>(&mut tasks, &stop);
        self.start_one::<Node>(&mut tasks, &stop);
        self.start_one::<EndpointSlice>(&mut tasks, &stop);
        self.start_one::<Endpoints>(&mut tasks, &stop);
        (tasks, stop)
    }

    fn start_one<T: Object>(&mut self, tasks: &mut NamedTasks, stop: &watch::Sender<()>) {
        if !self.kinds.contains(T::KIND) {
            return;
        }
        let options = self.options.seed(self.seeds.next());
        let (client, cluster, mut stopped) = (self.client.clone(), self.cluster.clone(), stop.subscribe());
        let name = format!("informer of {}", Kind::name(T::KIND));
        tasks.spawn(name, async move {
            let shutdown = async move {
                let _ = stopped.changed().await;
            };
            kube_endpoint_informer::run::<T>(client, cluster, options, shutdown).await;
        });
    }
}
