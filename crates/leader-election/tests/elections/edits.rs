//! Somebody else deletes or edits the Lease.

use std::time::Duration;

use kube_endpoint_leader_election::{LeaderElectionError, Leadership};
use serde_json::json;
use tokio::time::Instant;

use crate::bed::*;

#[tokio::test(start_paused = true)]
async fn a_leader_is_lost_when_the_lease_is_given_to_another_holder() {
    let server = server();
    let mut a = start(&server, "a");
    a.until_it_leads().await;
    let mut b = start(&server, "b");
    pass(5).await;
    let edited = Instant::now();
    edit(&server, json!({"spec": {"holderIdentity": "nobody"}})).await;
    let lost = LeaderElectionError::TakenOver { lease: "kube-system/l".into(), holder: "nobody".into() };
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(!a.leads(), "it writes nothing from now on");
    assert_eq!(*a.leadership.borrow(), Leadership::Contested { holder: "nobody".into() });
    assert_eq!(a.ended().await, Err(lost));
    let took = edited.elapsed().as_millis();
    assert!((8_000..=10_000).contains(&took), "until the renew deadline: {took}");
    b.until_it_leads().await;
    let took = edited.elapsed();
    assert!((14_900..15_100).contains(&took.as_millis()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn edits_in_a_loop_do_not_make_the_candidates_loop() {
    let server = server();
    let mut a = start(&server, "a");
    a.until_it_leads().await;
    let b = start(&server, "b");
    pass(5).await;
    server.clear_request_log();
    let end = Instant::now() + Duration::from_secs(20);
    let mut edits = 0;
    while Instant::now() < end {
        let text = format!("1970-01-01T00:00:00.{edits:06}Z");
        edit(&server, json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 15, "renewTime": text}}))
            .await;
        edits += 1;
        assert!(!(a.leads() && b.leads()));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let requests =
        |name: &str| server.request_log().iter().filter(|logged| logged.request.user_agent == name).count();
    assert!(edits > 900, "{edits}");
    // A candidate's limiter lets 5 requests pass in a second, after a burst of 10.
    assert!((20..=115).contains(&requests("a")), "{}", requests("a"));
    assert!((5..=115).contains(&requests("b")), "{}", requests("b"));
    let leaders = leaders_within(Duration::from_secs(40), &[&a, &b]).await;
    assert_eq!(leaders.len(), 1, "{leaders:?}");
}
