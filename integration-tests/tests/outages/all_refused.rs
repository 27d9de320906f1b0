//! Tests an outage of 200 s in which no request reaches the API server, and all watches break.

use kube_endpoint_controllers::{Gates, LeaderElectionSettings};
use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use kube_endpoint_integration_tests::running_manager::settings;

use crate::outages::bed::{Bed, refuse, seconds};

fn outage(bed: &Bed, fault: Fault) {
    bed.server.add_fault(FaultRule::new(fault, |_| true));
    assert!(bed.server.break_watches(|_| true) > 0);
}

#[tokio::test(start_paused = true)]
async fn a_change_during_the_outage_is_shown_within_30_seconds_of_the_end() {
    for fault in [Fault::LoseRequest, refuse(500), refuse(503), refuse(429)] {
        let bed = Bed::start(3).await;
        outage(&bed, fault.clone());
        bed.change([false], 2);
        bed.pass(200).await;
        let log = bed.server.request_log();
        assert!(log.len() > 20 && log.iter().all(|it| it.status != 200), "{fault:?}");
        bed.server.clear_faults();
        let took = bed.right_after(&[false], 2).await;
        assert!(took <= seconds(30), "{took:?} after {fault:?}");
        bed.stop().await;
    }
}

/// The change comes before the outage, so the keys fail.
#[tokio::test(start_paused = true)]
async fn writes_that_failed_before_the_watches_broke_are_repeated_within_30_seconds_of_the_end() {
    let bed = Bed::start(3).await;
    bed.writes_meet(Fault::LoseRequest);
    bed.change([false], 2);
    bed.pass(10).await;
    outage(&bed, Fault::LoseRequest);
    bed.pass(190).await;
    assert!(bed.writes().len() > 50);
    bed.server.clear_faults();
    let took = bed.right_after(&[false], 2).await;
    assert!(took <= seconds(30), "{took:?}");
    bed.stop().await;
}

/// Its informers list five kinds, and each of them waits for up to 30 s between two attempts.
#[tokio::test(start_paused = true)]
async fn a_manager_that_starts_during_the_outage_begins_when_its_informers_have_listed() {
    for elects in [false, true] {
        let mut bed = Bed::start_with(1, None).await;
        bed.server.add_fault(FaultRule::new(Fault::LoseRequest, |_| true));
        let mut settings = settings(Gates::default());
        settings.leader_election = elects.then(LeaderElectionSettings::default);
        bed.start_manager(&settings);
        bed.pass(200).await;
        assert!(bed.server.request_log().iter().all(|it| it.status == 0));
        bed.server.clear_faults();
        let took = bed.right_after(&[true], 1).await;
        assert!(took <= seconds(31), "{took:?}");
        bed.stop().await;
    }
}
