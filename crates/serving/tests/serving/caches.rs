//! Tests how often the server asks the API server. The cache's own tests check the expiry of
//! answers, under a paused clock.

use std::time::Duration;

use futures::future::join_all;
use kube_endpoint_embedded_apiserver::{Fault, FaultRule};

use crate::common::{NOBODY, SCRAPER, WRONG, start};

#[tokio::test]
async fn answers_are_asked_once_for_each_user_and_path() {
    let server = start(|_| {}).await;
    for _ in 0..5 {
        assert_eq!(server.get_with(SCRAPER, "/metrics").await.status, 200);
        assert_eq!(server.get_with(NOBODY, "/metrics").await.status, 403);
    }
    assert_eq!((server.reviews("tokenreviews"), server.reviews("subjectaccessreviews")), (2, 2));
    assert_eq!(server.get_with(SCRAPER, "/configz").await.status, 200);
    assert_eq!(server.get("/metrics").await.status, 403);
    assert_eq!((server.reviews("tokenreviews"), server.reviews("subjectaccessreviews")), (2, 4));
}

#[tokio::test]
async fn a_refused_token_is_asked_again_because_the_answer_has_an_error() {
    let server = start(|_| {}).await;
    for round in 1..=3 {
        assert_eq!(server.get_with(WRONG, "/metrics").await.status, 401);
        assert_eq!(server.reviews("tokenreviews"), round);
    }
}

#[tokio::test]
async fn concurrent_requests_ask_once() {
    let server = start(|_| {}).await;
    // All requests arrive before the first answer.
    server.api.add_fault(FaultRule::on(Fault::Delay(Duration::from_millis(500)), "create", "tokenreviews"));
    let replies = join_all((0..50).map(|_| server.get_with(SCRAPER, "/metrics"))).await;
    assert!(replies.iter().all(|reply| reply.status == 200));
    assert_eq!((server.reviews("tokenreviews"), server.reviews("subjectaccessreviews")), (1, 1));
}

#[tokio::test]
async fn anonymous_clients_cannot_make_the_api_server_work() {
    let server = start(|_| {}).await;
    for number in 0..50 {
        assert_eq!(server.get(&format!("/unknown-{number}")).await.status, 403);
        assert_eq!(server.get(&format!("/metrics?{number}")).await.status, 403);
    }
    assert_eq!((server.reviews("tokenreviews"), server.reviews("subjectaccessreviews")), (0, 1));
}
