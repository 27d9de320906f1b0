//! Fairness between the kinds that share an index.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kube_endpoint_core_model::{ObjectKey, Pod, ResourceVersion, Service};
use kube_endpoint_informer::{Change, Cluster, Handler, PodEvent, StreamEvent, feed};

const V: fn(u64) -> ResourceVersion = ResourceVersion;

fn pod(name: &str, version: u64) -> Pod {
    let labels = [("app", "web")].into_iter().collect();
    Pod { key: ObjectKey::new("n", name), resource_version: V(version), labels, ..Pod::default() }
}

fn service(name: &str, version: u64, app: &str) -> Service {
    let selector = Some([("app", app)].into_iter().collect());
    Service { key: ObjectKey::new("n", name), resource_version: V(version), selector, ..Service::default() }
}

/// Counts the events of pods between two events of Services.
#[derive(Default)]
struct Turns {
    pods: AtomicUsize,
    longest_wait: AtomicUsize,
    services: AtomicUsize,
}

impl Handler for Turns {
    fn on_pod(&self, event: &PodEvent) {
        assert_eq!(event.joined.len() + event.stayed.len(), 2000);
        self.pods.fetch_add(1, Ordering::SeqCst);
    }

    fn on_service(&self, _: &Change<Service>) {
        self.services.fetch_add(1, Ordering::SeqCst);
        self.longest_wait.fetch_max(self.pods.swap(0, Ordering::SeqCst), Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_pods_with_thousands_of_services_does_not_hold_up_the_watch_of_services() {
    let cluster = Cluster::new([]);
    let services = (0..2000).map(|n| service(&format!("s{n}"), 1, "web"));
    cluster.apply(StreamEvent::restarted(services.collect(), V(1)));
    let turns = Arc::new(Turns::default());
    cluster.add_handler(turns.clone());
    // Both streams are always ready, as connections with much to read.
    let pods = (0..100).map(|n| StreamEvent::Applied(pod(&format!("p{n}"), 2 + n)));
    let pods = tokio::spawn(feed(cluster.clone(), futures::stream::iter(pods)));
    let updates = (0..40).map(|n| StreamEvent::Applied(service(&format!("new{n}"), 2 + n, "other")));
    let updates = tokio::spawn(feed(cluster.clone(), futures::stream::iter(updates)));
    updates.await.unwrap();
    assert!(!pods.is_finished(), "the storm was still going on");
    pods.await.unwrap();
    assert_eq!(turns.services.load(Ordering::SeqCst), 40);
    let longest = turns.longest_wait.load(Ordering::SeqCst);
    assert!(longest <= 2, "a Service waited for {longest} pods");
}
