//! Tests a webhook that refuses every second create.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, RequestInfo, refusals};
use serde_json::{Value, json};

use crate::webhooks::cluster::{Cluster, pod, server, service, settings_of_tests};

/// The numbers of pods of the Service `web`, ten in each slice, and of subsets of the Endpoints
/// `db`, each with its own slice.
const PODS: usize = 200;
const SUBSETS: usize = 20;

/// Returns Endpoints whose subsets have different ports.
fn endpoints(subsets: impl IntoIterator<Item = usize>) -> Value {
    let subset = |number: usize| {
        json!({"addresses": [{"ip": format!("192.0.2.{}", number + 1)}],
            "ports": [{"port": 8000 + number, "protocol": "TCP"}]})
    };
    let subsets: Vec<Value> = subsets.into_iter().map(subset).collect();
    json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "db", "namespace": "default"},
        "subsets": subsets})
}

/// Refuses the first create of each kind, the third, and so on.
fn refuse_every_second_create(server: &EmbeddedApiServer) {
    for plural in ["endpoints", "endpointslices"] {
        let denied = refusals::webhook_denied("hook.example.com", 403, "Forbidden", "not this one");
        let creates = AtomicUsize::new(0);
        let is_refused = move |request: &RequestInfo| {
            request.verb == "create"
                && request.plural() == plural
                && creates.fetch_add(1, Ordering::Relaxed).is_multiple_of(2)
        };
        server.add_fault(FaultRule::new(Fault::RefuseWith(denied), is_refused));
    }
}

#[tokio::test(start_paused = true)]
async fn all_slices_appear_and_dead_endpoints_go_though_every_second_create_is_refused() {
    let services = [service("default", "web", 10, true), service("default", "db", 11, false)];
    let pods = (0..PODS).map(|number| pod("default", "web", number, true));
    let server = server(services.into_iter().chain(pods).chain([endpoints(0..SUBSETS)]));
    refuse_every_second_create(&server);
    let cluster = Cluster::start(server, &settings_of_tests(10));
    let counts = || {
        [
            cluster.in_endpoints("default", "web").len(),
            cluster.published("default", "web").len(),
            cluster.published("default", "db").len(),
        ]
    };
    cluster.pass(Duration::from_millis(500)).await;
    let [endpoints_controller, slices, mirroring] = cluster.statuses();
    assert_eq!((slices.failing, mirroring.failing), (1, 1));
    // The controller fails and succeeds within milliseconds.
    assert_eq!(endpoints_controller.failing, 0);
    cluster.pass(Duration::from_secs(300)).await;
    assert_eq!(counts(), [PODS, PODS, SUBSETS]);
    let slices_of_both = PODS / 10 + SUBSETS;
    let [endpoints_writes, slice_writes, mirror_writes] = cluster.writes();
    assert_eq!(endpoints_writes, 2);
    let writes = slice_writes + mirror_writes;
    assert!((2 * slices_of_both - 10..=2 * slices_of_both + 10).contains(&writes), "{writes}");
    assert!(cluster.statuses().iter().all(|status| status.failing == 0 && status.queued == 0));

    // Half of the pods die, and enough others come to need more slices; the addresses change in the
    // same way.
    for number in 0..PODS / 2 {
        cluster.server.load([pod("default", "web", 2 * number, false)]).unwrap();
    }
    cluster.server.load((PODS..3 * PODS).map(|number| pod("default", "web", number, true))).unwrap();
    cluster.server.load([endpoints(SUBSETS / 2..2 * SUBSETS)]).unwrap();
    cluster.pass(Duration::from_secs(2)).await;
    let is_dead = |address: &String| {
        let last: usize = address.rsplit('.').next().unwrap().parse().unwrap();
        address.starts_with("10.1.0.") && last % 2 == 1
            || address.starts_with("192.0.2.") && last <= SUBSETS / 2
    };
    for service in ["web", "db"] {
        let published = cluster.published("default", service);
        assert!(!published.iter().any(is_dead), "{published:?}");
    }
    let [_, published, mirrored] = counts();
    assert!(
        published < 5 * PODS / 2 && mirrored < 3 * SUBSETS / 2,
        "creates are refused: {published} {mirrored}"
    );
    cluster.pass(Duration::from_secs(300)).await;
    assert_eq!(counts(), [5 * PODS / 2, 5 * PODS / 2, 3 * SUBSETS / 2]);
    cluster.stop().await;
}
