//! The API server fails, and answers and events get lost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, RequestInfo};
use kube_endpoint_leader_election::{Ended, LastWrites, LeaderElectionError, Leadership};
use serde_json::json;
use tokio::time::Instant;

use crate::bed::*;

fn of(name: &'static str) -> impl Fn(&RequestInfo) -> bool + Send + Sync + 'static {
    move |request| request.user_agent == name
}

fn watches(request: &RequestInfo) -> bool {
    request.verb == "watch" && request.plural() == "leases"
}

fn count(server: &EmbeddedApiServer, matches: impl Fn(&RequestInfo) -> bool) -> usize {
    server.request_log().iter().filter(|logged| matches(&logged.request)).count()
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_a_server_is_lost_at_the_renew_deadline_and_a_standby_leads_after_the_outage() {
    for fault in [Fault::LoseRequest, Fault::NeverAnswer { applied: false }] {
        let server = server();
        let mut a = start(&server, "a");
        a.until_it_leads().await;
        let mut b = start(&server, "b");
        pass(31).await;
        let Leadership::Leading { until, .. } = *a.leadership.borrow() else { panic!("a leads") };
        let outage = server.add_fault(FaultRule::new(fault.clone(), |_| true));
        server.break_watches(|_| true);
        let ended = a.ended().await;
        assert!(matches!(ended, Err(LeaderElectionError::RenewDeadline { .. })), "{ended:?}");
        assert!(Instant::now() - until < Duration::from_millis(10), "{:?}", Instant::now() - until);
        assert_eq!(*a.leadership.borrow(), Leadership::Lost);
        assert_eq!(a.health.check(), Ok(()));
        pass(60).await;
        assert!(!b.leads());
        server.remove_fault(outage);
        let (took, last_writes) = b.until_it_leads().await;
        // The record that it saw before the outage has expired. One request may be stuck until its
        // timeout.
        assert!(took < Duration::from_secs(10), "{took:?} after {fault:?}");
        assert_eq!(last_writes, Some(LastWrites::default()));
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_is_shorter_than_the_renew_deadline_changes_nothing() {
    let server = server();
    let mut a = start(&server, "a");
    a.until_it_leads().await;
    let b = start(&server, "b");
    pass(31).await;
    let refused = Fault::Refuse { status: 500, retry_after: None };
    let outage = server.add_fault(FaultRule::new(refused, |_| true));
    let failing = server.request_log().len();
    assert_eq!(leaders_within(Duration::from_millis(5900), &[&a, &b]).await.len(), 1);
    assert!(server.request_log().len() > failing + 3);
    server.remove_fault(outage);
    assert_eq!(leaders_within(Duration::from_secs(40), &[&a, &b]).await.len(), 1);
    assert!(!a.is_over());
}

#[tokio::test(start_paused = true)]
async fn without_a_watch_a_standby_polls() {
    let refused = Fault::Refuse { status: 403, retry_after: None };
    for fault in
        [refused, Fault::SilenceWatch { after: 0 }, Fault::NeverAnswer { applied: false }, Fault::ExpireWatch]
    {
        let server = server();
        server.add_fault(FaultRule::new(fault.clone(), watches));
        let mut a = start(&server, "a");
        a.until_it_leads().await;
        let mut b = start(&server, "b");
        pass(31).await;
        assert_eq!(*b.leadership.borrow(), Leadership::Standby { leader: Some("a".into()) });
        let opened = count(&server, watches);
        assert!((2..=32).contains(&opened), "{opened} watches with {fault:?}");
        a.stop(None);
        assert_eq!(a.ended().await, Ok(Ended::Released));
        let (took, _) = b.until_it_leads().await;
        assert!(took < Duration::from_millis(4500), "{took:?} with {fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_is_opened_again() {
    let server = server();
    server.add_fault(FaultRule::new(Fault::BreakWatch { after: 2 }, of("b")));
    let mut a = start(&server, "a");
    a.until_it_leads().await;
    let b = start(&server, "b");
    pass(31).await;
    let opened = count(&server, |request| watches(request) && request.user_agent == "b");
    assert!((5..=16).contains(&opened), "{opened}");
    assert!(!b.is_over());
}

#[tokio::test(start_paused = true)]
async fn a_lease_in_a_namespace_that_does_not_exist_is_created_when_it_does() {
    let server = server();
    let refused = Fault::Refuse { status: 404, retry_after: None };
    let absent = server.add_fault(FaultRule::on(refused, "create", "leases"));
    let mut a = start(&server, "a");
    pass(60).await;
    let tried = count(&server, |request| request.verb == "create");
    assert!((10..=60).contains(&tried), "{tried}");
    server.remove_fault(absent);
    assert!(a.until_it_leads().await.0 < Duration::from_millis(4500));
}

#[tokio::test(start_paused = true)]
async fn a_version_of_the_lease_that_went_back_is_reported_once() {
    let server = server();
    let (elector, _leadership) = elector(&server, "a");
    let reports = Arc::new(Mutex::new(Vec::new()));
    let reported = Arc::clone(&reports);
    let elector = elector.with_history_observer(move |lower| reported.lock().unwrap().push(lower));
    tokio::spawn(elector.run(std::future::pending()));
    pass(10).await;
    let backup = server.checkpoint();
    pass(60).await;
    delete(&server).await;
    pass(60).await;
    assert!(reports.lock().unwrap().is_empty(), "a Lease that is made anew has a higher version");
    for (passes, is_confirmed) in [(false, true), (true, false)] {
        server.restore(&backup);
        if passes {
            // So the next renewal gets a higher version than those before the restore.
            let node = |number| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{number}")}});
            server.load((0..500).map(node)).unwrap();
        }
        pass(60).await;
        let reported = std::mem::take(&mut *reports.lock().unwrap());
        let [reported] = &reported[..] else { panic!("{reported:?}") };
        assert!(reported.evidence.starts_with("the API server's version of the Lease "), "{reported:?}");
        assert_eq!(reported.is_confirmed, is_confirmed, "{reported:?}");
    }
}
