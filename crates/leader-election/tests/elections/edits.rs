//! Somebody else deletes or edits the Lease.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_endpoint_leader_election::{LeaderElectionError, Leadership};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::bed::*;

/// `a` leads and `b` has seen it. Somebody else does something. Afterwards `a` leads as before, and
/// the Lease says so.
async fn check_leader_stays(patch: Option<Value>) {
    let server = server();
    let mut a = start(&server, "a");
    a.until_it_leads().await;
    let b = start(&server, "b");
    pass(5).await;
    match &patch {
        Some(patch) => edit(&server, patch.clone()).await,
        None => delete(&server).await,
    }
    let leaders = leaders_within(Duration::from_millis(150), &[&a, &b]).await;
    assert_eq!(leaders, BTreeSet::from([0]), "{patch:?}");
    let spec = lease(&server)["spec"].clone();
    assert_eq!(
        (&spec["holderIdentity"], &spec["leaseDurationSeconds"]),
        (&json!("a"), &json!(15)),
        "{patch:?}"
    );
    let leaders = leaders_within(Duration::from_secs(60), &[&a, &b]).await;
    assert_eq!(leaders, BTreeSet::from([0]), "{patch:?}");
    assert!(!b.is_over());
}

#[tokio::test(start_paused = true)]
async fn a_leader_keeps_a_lease_that_is_deleted_or_emptied() {
    check_leader_stays(None).await;
    check_leader_stays(Some(json!({"spec": {"holderIdentity": ""}}))).await;
    check_leader_stays(Some(json!({"spec": {"holderIdentity": null}}))).await;
    check_leader_stays(Some(json!({"spec": {"leaseDurationSeconds": null}}))).await;
    check_leader_stays(Some(json!({"spec": {"leaseDurationSeconds": 1}}))).await;
    let times = json!({"renewTime": "1970-01-01T00:00:00.000000Z", "acquireTime": null, "leaseTransitions": 2147483647});
    check_leader_stays(Some(json!({"spec": times}))).await;
}

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
async fn a_deleted_lease_is_taken_whatever_duration_somebody_wrote() {
    let server = server();
    let object = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": "kube-system", "name": "l"},
        "spec": {"holderIdentity": "nobody", "leaseDurationSeconds": 86400, "renewTime": "2026-01-01T00:00:00.000000Z"}});
    server.load([object]).unwrap();
    let mut a = start(&server, "a");
    pass(60).await;
    assert!(!a.leads(), "the record is valid for a day");
    delete(&server).await;
    let (took, _) = a.until_it_leads().await;
    assert!((14_900..15_100).contains(&took.as_millis()), "{took:?}");
    assert_eq!(lease(&server)["spec"]["leaseDurationSeconds"], 15);
}

#[tokio::test(start_paused = true)]
async fn a_lease_without_fields_is_free() {
    for spec in [json!({}), json!({"holderIdentity": "", "renewTime": "2999-01-01T00:00:00.000000Z"})] {
        let server = server();
        let object = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": "kube-system", "name": "l", "labels": {"kept": "yes"}}, "spec": spec});
        server.load([object]).unwrap();
        let mut a = start(&server, "a");
        assert!(a.until_it_leads().await.0 < Duration::from_millis(10));
        let lease = lease(&server);
        assert_eq!(lease["metadata"]["labels"]["kept"], "yes");
        assert_eq!(lease["spec"]["leaseTransitions"], 1);
    }
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
