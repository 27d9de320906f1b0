//! Tests who leads after the leader has released the Lease or was killed.

use std::time::Duration;

use kube_endpoint_core_model::ResourceVersion;
use kube_endpoint_leader_election::{Ended, LAST_WRITES_ANNOTATION, LastWrites, Leadership};

use crate::bed::*;

fn writes(version: u64) -> LastWrites {
    [("endpointslices", ResourceVersion(version))].into_iter().collect()
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_within_milliseconds_with_the_last_writes() {
    let server = server();
    let mut a = start(&server, "a");
    assert!(a.until_it_leads().await.0 < Duration::from_millis(10));
    let mut b = start(&server, "b");
    pass(31).await;
    assert_eq!(*b.leadership.borrow(), Leadership::Standby { leader: Some("a".into()) });
    a.stop(Some(writes(42)));
    let (took, last_writes) = b.until_it_leads().await;
    assert!(took < Duration::from_millis(10), "{took:?}");
    assert_eq!(last_writes, Some(writes(42)));
    assert_eq!(a.ended().await, Ok(Ended::Released));
    assert_eq!(*a.leadership.borrow(), Leadership::Standby { leader: None });
    let lease = lease(&server);
    assert_eq!(lease["spec"]["holderIdentity"], "b");
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
    assert!(lease["metadata"]["annotations"][LAST_WRITES_ANNOTATION].is_null(), "{lease}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_does_not_know_its_last_writes_leaves_none() {
    let server = server();
    let mut a = start(&server, "a");
    a.until_it_leads().await;
    a.stop(Some(writes(1)));
    a.ended().await.unwrap();
    let mut b = start(&server, "b");
    assert_eq!(b.until_it_leads().await.1, Some(writes(1)));
    b.stop(None);
    b.ended().await.unwrap();
    let mut c = start(&server, "c");
    assert_eq!(c.until_it_leads().await.1, Some(LastWrites::default()));
    // A killed leader leaves no last writes either.
    c.kill().await;
    let mut d = start(&server, "d");
    assert_eq!(d.until_it_leads().await.1, Some(LastWrites::default()));
}

#[tokio::test(start_paused = true)]
async fn a_killed_leader_is_replaced_when_its_lease_expires_whatever_the_clocks_say() {
    // The clocks of a, b and c are an hour apart, in both orders.
    for (first, second) in [("a", "b"), ("c", "b")] {
        let server = server();
        let mut leader = start(&server, first);
        leader.until_it_leads().await;
        let mut standby = start(&server, second);
        pass(61).await;
        leader.kill().await;
        let (took, last_writes) = standby.until_it_leads().await;
        assert!((13_000..15_100).contains(&took.as_millis()), "{took:?}");
        assert_eq!(last_writes, Some(LastWrites::default()));
        assert_eq!(lease(&server)["spec"]["leaseTransitions"], 1);
    }
}
