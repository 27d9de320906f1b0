//! Tests that tokens appear in no log and on no page.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::{Fault, FaultRule, Status};
use kube_endpoint_testing::Log;
use tracing::Level;

use crate::common::{Client, SCRAPER, TOKENS, WRONG, start};

/// The whole runtime is on this thread, so the test sees the whole log.
#[tokio::test]
async fn tokens_appear_in_no_log_and_on_no_page() {
    let log = Log::capture(Level::TRACE);
    let server = start(|options| options.limits.review = Duration::from_millis(200)).await;
    let mut shown = String::new();
    let pages = ["/metrics", "/configz", "/flagz", "/statusz", "/livez?verbose", "/livez/ping", "/unknown"];
    for token in TOKENS {
        for page in pages {
            let reply = server.get_with(token, page).await;
            shown += &format!("{}\n{}\n", reply.head, reply.body);
        }
    }
    // These cause errors of reviews, and of malformed requests.
    for fault in [
        Fault::NeverAnswer { applied: false },
        Fault::LoseRequest,
        Fault::RefuseWith(Status::new(400, "BadRequest", WRONG)),
    ] {
        server.api.add_fault(FaultRule::on(fault, "create", "tokenreviews"));
        let reply = server.get_with(WRONG, "/metrics").await;
        assert_eq!(reply.status, 401);
        shown += &reply.body;
        server.api.clear_faults();
    }
    for request in [
        format!("GET /metrics HTTP/1.1\r\nAuthorization: Bearer {SCRAPER}\r\nBroken\r\n\r\n"),
        format!("GET /metrics HTTP/1.1\r\nAuthorization: Bearer {SCRAPER}\0\r\n\r\n"),
        format!("{SCRAPER}\r\n\r\n"),
    ] {
        let reply = Client::default().send(server.address, &request).await.unwrap();
        shown += &format!("{}\n{}\n", reply.head, reply.body);
    }
    let logged = log.text();
    assert!(logged.contains("did not answer a TokenReview"), "{logged}");
    assert!(shown.contains("workqueue_depth") && shown.contains("Unauthorized"), "{shown}");
    for token in TOKENS {
        assert!(!shown.contains(token), "{shown}");
        let line = logged.lines().find(|line| line.contains(token));
        assert_eq!(line, None);
    }
}
