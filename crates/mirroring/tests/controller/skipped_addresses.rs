//! Tests that the controller reports addresses that it skips once.

use std::time::Duration;

use kube_endpoint_mirroring::PlanOptions;

use crate::controller::harness::{Harness, changed, endpoints, server, service};

#[tokio::test(start_paused = true)]
async fn skipped_addresses_are_reported_again_only_if_they_changed() {
    let options =
        || changed(|options| options.plan = PlanOptions::default().with_max_endpoints_per_subset(2));
    let harness = Harness::start(&server([service("web")]), options()).await;
    harness.create(&endpoints("web", &["192.0.2.1", "192.0.2.2"])).await;
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.events(), [""; 0]);
    // The controller does not mirror the third address: there is an event and no write.
    harness.put("endpoints", &endpoints("web", &["192.0.2.1", "192.0.2.2", "192.0.2.3"])).await;
    harness.pass(Duration::from_secs(1)).await;
    let told = harness.events();
    insta::assert_snapshot!(told.join("\n"), @"Endpoints default/web: TooManyAddressesToMirror A max of 2 addresses can be mirrored to EndpointSlices per Endpoints subset. 1 addresses were skipped");
    let server = harness.crash().await;
    server.clear_request_log();
    let harness = Harness::start(&server, options()).await;
    harness.pass(Duration::from_secs(60)).await;
    let count = |log: Vec<kube_endpoint_embedded_apiserver::LoggedRequest>| {
        log.iter().filter(|it| it.request.method != "GET").count()
    };
    assert_eq!(count(server.request_log()), 0, "not even an event");
    assert_eq!(harness.events(), told);
}
