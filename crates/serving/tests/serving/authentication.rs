//! Tests of tokens and client certificates.

use http::{Request, Response};
use kube::client::Body;
use kube_endpoint_api_client::ApiClient;
use kube_endpoint_serving::ReviewClients;
use rcgen::{ExtendedKeyUsagePurpose, date_time_ymd};
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use crate::common::{
    Authority, Client, EXPIRED, Files, NOBODY, Reply, Running, SCRAPER, WRONG, api_server, self_signed,
    start, start_with,
};

fn status(reply: &Reply) -> Value {
    serde_json::from_str(&reply.body).unwrap()
}

#[tokio::test]
async fn without_a_token_a_request_is_forbidden() {
    let server = start(|_| {}).await;
    let reply = server.get("/metrics").await;
    assert_eq!(reply.status, 403, "{reply:?}");
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Forbidden",
        "message": "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"", "details": {}, "code": 403,
    });
    assert_eq!(status(&reply), expected);
    assert!(
        reply.head.contains("connection: close") && reply.head.contains("x-content-type-options: nosniff")
    );
}

#[tokio::test]
async fn a_wrong_token_is_unauthorized() {
    let server = start(|_| {}).await;
    let reply = server.get_with(WRONG, "/metrics").await;
    assert_eq!(reply.status, 401, "{reply:?}");
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Unauthorized",
        "message": "Unauthorized", "code": 401,
    });
    assert_eq!(status(&reply), expected);
    assert_eq!(server.reviews("subjectaccessreviews"), 0);
}

#[tokio::test]
async fn an_expired_token_is_unauthorized() {
    let server = start(|_| {}).await;
    assert_eq!(server.get_with(EXPIRED, "/metrics").await.status, 401);
    assert_eq!(server.reviews("tokenreviews"), 1);
}

#[tokio::test]
async fn an_unprivileged_token_is_forbidden() {
    let server = start(|_| {}).await;
    let reply = server.get_with(NOBODY, "/metrics").await;
    assert_eq!(reply.status, 403);
    assert_eq!(status(&reply)["message"], "forbidden: User \"bob\" cannot get path \"/metrics\"");
    assert_eq!(server.reviews("subjectaccessreviews"), 1);
}

#[tokio::test]
async fn a_privileged_token_reads_what_it_may_and_nothing_else() {
    let server = start(|_| {}).await;
    let reply = server.get_with(SCRAPER, "/metrics").await;
    assert_eq!((reply.status, &*reply.body), (200, "workqueue_depth{name=\"endpoint\"} 0\n"));
    assert_eq!(server.get_with(SCRAPER, "/metrics/slis").await.status, 403);
    assert_eq!(server.get_with(SCRAPER, "/livez/ping").await.body, "ok");
    assert_eq!(server.get_with(SCRAPER, "/unknown").await.body, "404 page not found\n");
    assert_eq!(server.get_with(SCRAPER, "/debug/pprof").await.status, 403);
}

#[tokio::test]
async fn credentials_of_other_kinds_are_no_token() {
    let server = start(|_| {}).await;
    for header in ["Basic cHJvbWV0aGV1czp4", "Bearer", "Bearer  ", "Token x"] {
        let header = format!("Authorization: {header}\r\n");
        assert_eq!(Client::default().get(server.address, "/metrics", &header).await.status, 403, "{header}");
    }
    // The headers of a front proxy give no identity without its certificate.
    let headers = "X-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n";
    assert_eq!(Client::default().get(server.address, "/metrics", headers).await.status, 403);
    assert_eq!(server.reviews("tokenreviews"), 0);
}

#[tokio::test]
async fn health_needs_no_token_and_does_not_look_at_one() {
    let server = start(|_| {}).await;
    for path in ["/healthz", "/livez", "/readyz?verbose"] {
        assert_eq!(server.get(path).await.status, 200, "{path}");
        assert_eq!(server.get_with(WRONG, path).await.status, 200, "{path}");
    }
    assert_eq!(server.get("/livez/ping").await.status, 403);
    assert_eq!(server.reviews("tokenreviews"), 0);
}

/// Returns a server that accepts client certificates of the authority.
async fn with_client_ca(authority: &Authority, files: &Files) -> Running {
    let path = files.write("client-ca.crt", authority.pem());
    start(|options| options.client_ca_file = Some(path)).await
}

#[tokio::test]
async fn a_client_certificate_is_its_subject() {
    let (authority, files) = (Authority::new("ca"), Files::new());
    let server = with_client_ca(&authority, &files).await;
    let alice = authority.issue("alice", None, |_| {});
    assert_eq!(server.get_as(&alice, "/metrics").await.status, 200);
    let scraper = authority.issue("node-exporter", Some("scrapers"), |_| {});
    assert_eq!(server.get_as(&scraper, "/metrics").await.status, 200);
    let bob = authority.issue("bob", None, |_| {});
    let reply = server.get_as(&bob, "/metrics").await;
    assert_eq!(status(&reply)["message"], "forbidden: User \"bob\" cannot get path \"/metrics\"");
    assert_eq!(server.reviews("subjectaccessreviews"), 3);
}

#[tokio::test]
async fn members_of_system_masters_may_read_everything_without_a_review() {
    let (authority, files) = (Authority::new("ca"), Files::new());
    let server = with_client_ca(&authority, &files).await;
    let admin = authority.issue("admin", Some("system:masters"), |_| {});
    assert_eq!(server.get_as(&admin, "/readyz/ping").await.status, 200);
    assert_eq!(server.get_as(&admin, "/debug/pprof").await.status, 404);
    assert_eq!(server.reviews("subjectaccessreviews"), 0);
}

#[tokio::test]
async fn forged_client_certificates_are_unauthorized() {
    let (authority, files) = (Authority::new("ca"), Files::new());
    let server = with_client_ca(&authority, &files).await;
    let masters = Some("system:masters");
    let forged = [
        ("signed by its own key", self_signed("alice")),
        ("signed by another authority", Authority::new("other").issue("alice", masters, |_| {})),
        (
            "signed by another authority of the same name",
            Authority::new("ca").issue("alice", masters, |_| {}),
        ),
        ("expired", authority.issue("alice", None, |params| params.not_after = date_time_ymd(2026, 11, 30))),
        (
            "not valid yet",
            authority.issue("alice", None, |params| params.not_before = date_time_ymd(2026, 12, 2)),
        ),
        (
            "for servers only",
            authority.issue("alice", None, |params| {
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            }),
        ),
    ];
    for (what, identity) in &forged {
        assert_eq!(server.get_as(identity, "/metrics").await.status, 401, "{what}");
        // Health is open, and a valid token counts whatever the certificate is.
        assert_eq!(server.get_as(identity, "/livez").await.status, 200, "{what}");
        let client = Client { identity: Some(identity), ..Client::default() };
        let header = format!("Authorization: Bearer {SCRAPER}\r\n");
        assert_eq!(client.get(server.address, "/metrics", &header).await.status, 200, "{what}");
    }
    assert_eq!(server.get_as(&authority.issue("alice", None, |_| {}), "/metrics").await.status, 200);
}

#[tokio::test]
async fn without_a_client_ca_a_certificate_is_ignored() {
    let server = start(|options| options.look_up_client_ca = false).await;
    let reply = server.get_as(&Authority::new("ca").issue("alice", None, |_| {}), "/metrics").await;
    assert_eq!(
        status(&reply)["message"],
        "forbidden: User \"system:anonymous\" cannot get path \"/metrics\""
    );
}

#[tokio::test]
async fn a_certificate_without_a_name_is_anonymous() {
    let (authority, files) = (Authority::new("ca"), Files::new());
    let server = with_client_ca(&authority, &files).await;
    let nameless = authority.issue("", Some("system:masters"), |_| {});
    assert_eq!(server.get_as(&nameless, "/metrics").await.status, 403);
}

/// A proxy, or a server of something else, answers 200 too.
#[tokio::test]
async fn an_answer_that_is_no_review_lets_nobody_in() {
    let status = r#""status":{"authenticated":true,"user":{"username":"root","groups":["system:masters"]}}"#;
    let review = format!(r#"{{"kind":"TokenReview",{status}}}"#);
    let others = ["", "{}", "<html>", r#"{"kind":"Status","status":"Success"}"#, &format!("{{{status}}}")];
    let others = others.map(|body| (200, body.to_owned(), 401));
    let cases = [
        (200, review.clone(), 200),
        (201, review.clone(), 200),
        (404, review.clone(), 401),
        (302, review, 401),
    ];
    for (answered, body, want) in cases.into_iter().chain(others) {
        let answer = body.clone();
        let client = ApiClient::for_tests(service_fn(move |_: Request<Body>| {
            let answer = Response::builder().status(answered).body(Body::from(answer.clone().into_bytes()));
            async move { Ok::<_, BoxError>(answer?) }
        }));
        let clients = ReviewClients { authentication: Some(client.clone()), authorization: Some(client) };
        let server = start_with(api_server(), clients, |_| {}).await;
        assert_eq!(server.get_with(SCRAPER, "/metrics").await.status, want, "{answered} {body}");
    }
}
