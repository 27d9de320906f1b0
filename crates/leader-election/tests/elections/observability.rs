//! Tests of what operators see: metrics, and the liveness check.

use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use kube_endpoint_leader_election::{LEASE_HELD, LEASE_TAKEN_BACK, Leadership, MASTER_STATUS, SLOWPATH};
use kube_endpoint_testing::Log;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use serde_json::json;
use tracing::Level;

use crate::bed::*;

#[tokio::test(start_paused = true)]
async fn metrics_are_client_gos_and_say_whether_the_lease_is_held() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _current = metrics::set_default_local_recorder(&recorder);
    // A snapshot takes the value of a counter.
    let values = || {
        let mut found = (None, None, 0);
        for (key, _, _, value) in snapshotter.snapshot().into_vec() {
            let labels: Vec<_> = key.key().labels().map(|label| (label.key(), label.value())).collect();
            assert_eq!(labels, [("name", "l")]);
            match (key.key().name(), value) {
                (MASTER_STATUS, DebugValue::Gauge(value)) => found.0 = Some(value.into_inner()),
                (LEASE_HELD, DebugValue::Gauge(value)) => found.1 = Some(value.into_inner()),
                (SLOWPATH, DebugValue::Counter(value)) => found.2 = value,
                (LEASE_TAKEN_BACK, DebugValue::Counter(0)) => {}
                other => panic!("{other:?}"),
            }
        }
        found
    };
    let server = server();
    let (elector, mut leadership) = elector(&server, "a");
    assert_eq!(values(), (Some(0.0), Some(0.0), 0));
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(elector.run(async { stopped.await.unwrap() }));
    leadership.changed().await.unwrap();
    pass(11).await;
    assert_eq!(values(), (Some(1.0), Some(1.0), 0));
    server.add_fault(
        FaultRule::on(Fault::Refuse { status: 409, retry_after: None }, "update", "leases").times(1),
    );
    pass(2).await;
    assert_eq!(values(), (Some(1.0), Some(1.0), 1));
    stop.send(None).unwrap();
    task.await.unwrap().unwrap();
    assert_eq!(values(), (Some(0.0), Some(0.0), 0));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_taken_back_is_counted_and_one_that_was_acquired_is_not() {
    for (former, want) in [("a", 1), ("x", 0)] {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        let _current = metrics::set_default_local_recorder(&recorder);
        let server = server();
        let mut leader = start(&server, "a");
        leader.until_it_leads().await;
        leader.kill().await;
        let (elector, mut leadership) = elector(&server, "b");
        let task = tokio::spawn(elector.with_former(former.to_owned()).run(pending()));
        leadership.wait_for(|it| matches!(it, Leadership::Leading { .. })).await.unwrap();
        pass(11).await;
        let values = snapshotter.snapshot().into_vec().into_iter();
        let counted: u64 = values
            .map(|(key, .., value)| match (key.key().name(), value) {
                (LEASE_TAKEN_BACK, DebugValue::Counter(value)) => value,
                _ => 0,
            })
            .sum();
        assert_eq!(counted, want, "{former}");
        task.abort();
    }
}

/// The alert NoLeader depends on this.
#[tokio::test(start_paused = true)]
async fn a_standby_shows_whether_somebody_holds_the_lease() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _current = metrics::set_default_local_recorder(&recorder);
    // A snapshot takes the values.
    let values = || {
        let mut found = (None, None);
        for (key, .., value) in snapshotter.snapshot().into_vec() {
            match (key.key().name(), value) {
                (MASTER_STATUS, DebugValue::Gauge(value)) => found.0 = Some(value.into_inner()),
                (LEASE_HELD, DebugValue::Gauge(value)) => found.1 = Some(value.into_inner()),
                _ => {}
            }
        }
        (found.0.unwrap(), found.1.unwrap())
    };
    let server = server();
    // Somebody reserves the Lease for an hour, for a program that does not run.
    let spec = json!({"holderIdentity": "other", "leaseDurationSeconds": 3600});
    let metadata = json!({"name": "l", "namespace": "kube-system"});
    let lease =
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec});
    server.create(lease).await.unwrap();
    let (elector, _leadership) = elector(&server, "a");
    let _task = tokio::spawn(elector.run(pending()));
    for _ in 0..3 {
        pass(1000).await;
        assert_eq!(values(), (0.0, 1.0));
    }
    // A candidate that cannot read the Lease does not know its holder.
    let refuse = Fault::Refuse { status: 403, retry_after: None };
    let fault = server.add_fault(FaultRule::on(refuse, "get", "leases"));
    pass(5).await;
    assert_eq!(values(), (0.0, 0.0));
    server.remove_fault(fault);
    pass(5).await;
    assert_eq!(values(), (0.0, 1.0));
    // Nobody has renewed the Lease, and this candidate cannot take it.
    let refuse = Fault::Refuse { status: 403, retry_after: None };
    let fault = server.add_fault(FaultRule::on(refuse, "update", "leases"));
    pass(600).await;
    assert_eq!(values(), (0.0, 0.0));
    server.remove_fault(fault);
    pass(5).await;
    assert_eq!(values(), (1.0, 1.0));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_not_scheduled_any_more_is_not_alive() {
    let server = server();
    let (elector, leadership) = elector(&server, "a");
    let health = elector.health();
    {
        let mut run = pin!(elector.run(pending()));
        tokio::select! {
            biased;
            _ = &mut run => panic!("the election ended"),
            () = pass(5) => {}
        }
        // The future exists, but nothing polls it.
        tokio::time::advance(Duration::from_secs(33)).await;
        assert_eq!(health.check(), Ok(()));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert!(health.check().is_err());
        assert!(health.overdue().is_some_and(|overdue| overdue > Duration::from_secs(20)));
        let _ = tokio::time::timeout(Duration::ZERO, &mut run).await;
    }
    // When it is scheduled again, it is lost.
    assert_eq!(*leadership.borrow(), kube_endpoint_leader_election::Leadership::Lost);
    assert_eq!(health.check(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_no_warning() {
    let log = Log::capture(Level::INFO);
    let server = server();
    let conflict =
        |verb| FaultRule::on(Fault::Refuse { status: 409, retry_after: None }, verb, "leases").times(1);
    server.add_fault(conflict("create"));
    let mut a = start(&server, "a");
    a.until_it_leads().await;
    let acquired = log.text();
    assert!(acquired.contains("INFO") && acquired.contains("another candidate was faster"), "{acquired}");
    server.add_fault(conflict("update"));
    pass(3).await;
    assert!(a.leads());
    let renewed = log.text();
    assert!(renewed.contains("the lease has another version than this process knows"), "{renewed}");
    assert!(!renewed.contains("WARN"), "{renewed}");
}
