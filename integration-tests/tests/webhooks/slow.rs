//! Tests a webhook that takes 25 s for the objects of some namespaces.

use std::time::Duration;

use kube_endpoint_controllers::ControllerStatus;
use kube_endpoint_embedded_apiserver::{Fault, FaultRule, RequestInfo};

use crate::webhooks::cluster::{Cluster, endpoints, objects, pod, server, settings_of_tests};

const SLOW: Duration = Duration::from_secs(25);

/// Starts with the namespaces `slow-0` and so on, and `default`. The server calls the webhook for
/// creates and updates in the slow ones.
async fn started(slow: usize) -> Cluster {
    let namespaces = (0..slow).map(|number| format!("slow-{number}")).chain(["default".to_owned()]);
    let objects = namespaces.enumerate().flat_map(|(at, namespace)| objects(&namespace, 2 * at + 10, 3));
    let cluster = Cluster::start(server(objects), &settings_of_tests(100));
    cluster.pass(Duration::from_secs(5)).await;
    let is_held = |request: &RequestInfo| {
        matches!(request.verb, "create" | "update")
            && matches!(request.plural(), "endpoints" | "endpointslices")
            && request.namespace.starts_with("slow-")
    };
    cluster.server.add_fault(FaultRule::new(Fault::Delay(SLOW), is_held));
    cluster.server.clear_request_log();
    cluster
}

/// Makes a pod of the namespace unready, and removes an address from the Endpoints `db`.
fn change(cluster: &Cluster, namespace: &str) {
    let changed = [pod(namespace, "web", 0, false), endpoints(namespace, "db", &["192.0.2.2", "192.0.2.3"])];
    cluster.server.load(changed).unwrap();
}

/// Returns for Endpoints, slices and mirrored slices of a namespace if they show the change.
fn shows(cluster: &Cluster, namespace: &str) -> [bool; 3] {
    let web = ["10.1.0.2", "10.1.0.3"];
    [
        cluster.in_endpoints(namespace, "web") == web,
        cluster.published(namespace, "web") == web,
        cluster.published(namespace, "db") == ["192.0.2.2", "192.0.2.3"],
    ]
}

#[tokio::test(start_paused = true)]
async fn other_services_are_published_at_once_while_writes_of_some_are_held() {
    // One less than the number of workers.
    const HELD: usize = 4;
    let cluster = started(HELD).await;
    let slow = || (0..HELD).map(|number| format!("slow-{number}"));
    slow().for_each(|namespace| change(&cluster, &namespace));
    cluster.pass(Duration::from_secs(3)).await;
    change(&cluster, "default");
    cluster.pass(Duration::from_millis(200)).await;
    assert_eq!(shows(&cluster, "default"), [true; 3]);
    for namespace in slow() {
        assert_eq!(shows(&cluster, &namespace), [false; 3], "{namespace}");
    }
    // The status names the waiting keys.
    let statuses = cluster.statuses();
    for (status, name) in statuses.iter().zip(["web", "web", "db"]) {
        let ControllerStatus { long_syncs, queued, failing, .. } = status;
        let keys: Vec<&str> = long_syncs.iter().map(|sync| &*sync.key).collect();
        assert_eq!(keys, slow().map(|namespace| format!("{namespace}/{name}")).collect::<Vec<_>>());
        assert!(long_syncs.iter().all(|sync| sync.seconds == 3), "{long_syncs:?}");
        assert!(*queued >= HELD && *failing == 0, "{queued} {failing}");
    }
    let printed = cluster.printed_status();
    assert!(printed.contains("the sync of slow-0/db has been running for 3 s"), "{printed}");
    cluster.pass(Duration::from_secs(23)).await;
    for namespace in slow() {
        assert_eq!(shows(&cluster, &namespace), [true; 3], "{namespace}");
    }
    cluster.pass(Duration::from_secs(3600)).await;
    assert_eq!(cluster.writes(), [HELD + 1; 3], "one for each Service");
    assert!(cluster.statuses().iter().all(|status| status.long_syncs.is_empty() && status.queued == 0));
    cluster.stop().await;
}

/// The next write has all changes that come while the webhook holds a write.
#[tokio::test(start_paused = true)]
async fn a_held_service_is_written_once_in_25_seconds() {
    let cluster = started(1).await;
    for second in 0..600 {
        let unready = pod("slow-0", "web", 1, second % 2 == 0);
        let address = format!("192.0.2.{}", second % 200 + 1);
        cluster.server.load([unready, endpoints("slow-0", "db", &[&address])]).unwrap();
        cluster.pass(Duration::from_secs(1)).await;
    }
    for writes in cluster.writes() {
        assert!((22..=26).contains(&writes), "{writes} in ten minutes");
    }
    change(&cluster, "slow-0");
    cluster.server.load([pod("slow-0", "web", 1, true)]).unwrap();
    cluster.pass(Duration::from_secs(51)).await;
    assert_eq!(shows(&cluster, "slow-0"), [true; 3]);
    cluster.stop().await;
}
