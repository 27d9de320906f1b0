//! Tests with an API server that does not answer.
#![expect(clippy::disallowed_methods, reason = "it talks over real sockets")]

use std::time::{Duration, Instant};

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use kube_endpoint_serving::ReviewClients;

use crate::common::{Authority, Files, Running, SCRAPER, api_server, start, start_with};

const LIMIT: Duration = Duration::from_millis(400);

async fn impatient() -> Running {
    start(|options| options.limits.review = LIMIT).await
}

/// Returns a fault of every review of the kind.
fn fault(plural: &'static str, fault: Fault) -> FaultRule {
    FaultRule::on(fault, "create", plural)
}

#[tokio::test]
async fn an_api_server_that_never_answers_a_token_review_means_unauthorized() {
    let server = impatient().await;
    let rule = server.api.add_fault(fault("tokenreviews", Fault::NeverAnswer { applied: false }));
    let start = Instant::now();
    assert_eq!(server.get_with(SCRAPER, "/metrics").await.status, 401);
    assert!(start.elapsed() >= LIMIT, "{:?}", start.elapsed());
    assert_eq!(server.reviews("tokenreviews"), 1);
    // Health does not wait for it, with or without a token.
    assert_eq!(server.get_with(SCRAPER, "/livez").await.status, 200);
    server.api.remove_fault(rule);
    assert_eq!(server.get_with(SCRAPER, "/metrics").await.status, 200);
}

#[tokio::test]
async fn an_api_server_that_never_answers_an_access_review_means_an_internal_error() {
    let server = impatient().await;
    let rule = server.api.add_fault(fault("subjectaccessreviews", Fault::NeverAnswer { applied: false }));
    let reply = server.get_with(SCRAPER, "/metrics").await;
    assert_eq!(reply.status, 500, "{reply:?}");
    assert_eq!(server.reviews("subjectaccessreviews"), 1);
    server.api.remove_fault(rule);
    assert_eq!(server.get_with(SCRAPER, "/metrics").await.status, 200);
}

#[tokio::test]
async fn a_lost_connection_to_the_api_server_lets_nobody_in() {
    let server = impatient().await;
    for plural in ["tokenreviews", "subjectaccessreviews"] {
        server.api.add_fault(fault(plural, Fault::LoseRequest));
        let status = server.get_with(SCRAPER, "/metrics").await.status;
        assert_eq!(status, if plural == "tokenreviews" { 401 } else { 500 });
        assert!(server.reviews(plural) > 0);
        server.api.clear_faults();
    }
}

#[tokio::test]
async fn an_overloaded_api_server_is_asked_again() {
    let server = start(|_| {}).await;
    let refused = Fault::Refuse { status: 429, retry_after: None };
    server.api.add_fault(fault("tokenreviews", refused).times(1));
    assert_eq!(server.get_with(SCRAPER, "/metrics").await.status, 200);
    assert_eq!(server.reviews("tokenreviews"), 2);
}

#[tokio::test]
async fn a_process_that_may_not_ask_lets_nobody_in() {
    let server = impatient().await;
    let refused = || Fault::Refuse { status: 403, retry_after: None };
    server.api.add_fault(fault("tokenreviews", refused()));
    assert_eq!(server.get_with(SCRAPER, "/metrics").await.status, 401);
    assert_eq!(server.reviews("tokenreviews"), 1);
}

#[tokio::test]
async fn without_clients_only_system_masters_get_in() {
    let (authority, files) = (Authority::new("ca"), Files::new());
    let path = files.write("client-ca.crt", authority.pem());
    let server =
        start_with(api_server(), ReviewClients::default(), |options| options.client_ca_file = Some(path))
            .await;
    assert_eq!(server.get_with(SCRAPER, "/metrics").await.status, 403);
    assert_eq!(server.get_as(&authority.issue("alice", None, |_| {}), "/metrics").await.status, 403);
    let admin = authority.issue("admin", Some("system:masters"), |_| {});
    assert_eq!(server.get_as(&admin, "/metrics").await.status, 200);
}

#[tokio::test]
async fn different_servers_can_answer_the_two_kinds_of_reviews() {
    let (api, other) = (api_server(), api_server());
    let clients = ReviewClients {
        authentication: Some(ApiClient::for_tests(other.service())),
        authorization: Some(ApiClient::for_tests(api.service())),
    };
    let server = start_with(api, clients, |_| {}).await;
    assert_eq!(server.get_with(SCRAPER, "/metrics").await.status, 200);
    assert_eq!((server.reviews("tokenreviews"), server.reviews("subjectaccessreviews")), (0, 1));
    assert!(other.request_log().iter().any(|entry| entry.request.path.ends_with("tokenreviews")));
}
