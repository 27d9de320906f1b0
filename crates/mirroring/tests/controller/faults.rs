//! Tests with writes that fail, that the server refuses, or whose result is unknown; and with
//! caches that lag behind.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::{Fault, refusals};
use kube_endpoint_mirroring::ControllerOptions;
use serde_json::json;

use crate::controller::harness::{Harness, changed, endpoints, of_the_endpoints_controller, server, service};

async fn started() -> Harness {
    Harness::start(&server([service("web")]), ControllerOptions::default()).await
}

fn refuse(status: u16) -> Fault {
    Fault::Refuse { status, retry_after: None }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_creates_no_second_slice() {
    for fault in [Fault::ApplyAndLoseAnswer, Fault::LoseRequest] {
        // The watch runs, or stalls.
        for held_up in [false, true] {
            let harness = started().await;
            if held_up {
                harness.stall_watch("endpointslices", Duration::from_secs(20)).await;
            }
            for (verb, addresses) in
                [("create", ["192.0.2.1"]), ("update", ["192.0.2.2"]), ("delete", ["192.0.2.2"])]
            {
                harness.fault(fault.clone(), verb, 1);
                match verb {
                    "create" => harness.create(&endpoints("web", &addresses)).await,
                    "update" => harness.put("endpoints", &endpoints("web", &addresses)).await,
                    _ => harness.put("endpoints", &endpoints("web", &[])).await,
                };
                for _ in 0..60 {
                    harness.pass(Duration::from_secs(1)).await;
                    assert!(harness.server.count("endpointslices") <= 1, "{fault:?} {verb}");
                }
                let expected = format!("endpointslicemirroring [{}]", addresses[0]);
                let expected = if verb == "delete" { vec![] } else { vec![expected] };
                assert_eq!(harness.slices(), expected, "{fault:?} {verb}");
            }
            assert_eq!(harness.controller.pending(), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slice_just_created_is_found_when_it_must_be_deleted() {
    for is_answer_lost in [false, true] {
        let harness = started().await;
        harness.stall_watch("endpointslices", Duration::from_secs(5)).await;
        if is_answer_lost {
            harness.fault(Fault::ApplyAndLoseAnswer, "create", 1);
        }
        harness.create(&endpoints("web", &["192.0.2.1"])).await;
        harness.moment().await;
        assert_eq!(harness.slices(), ["endpointslicemirroring [192.0.2.1]"]);
        harness.patch("services", "web", json!({"spec": {"selector": {"app": "web"}}})).await;
        harness.moment().await;
        // From now on such a change starts no sync.
        harness.put("endpoints", &endpoints("web", &["192.0.2.2"])).await;
        harness.pass(Duration::from_secs(60)).await;
        assert_eq!(harness.slices(), [""; 0], "answer lost: {is_answer_lost}");
        harness.nothing_is_remembered().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_address_is_removed_though_no_slice_can_be_created() {
    for on in [true, false] {
        let options = changed(|options| options.writes_after_failed_create = on);
        let harness = Harness::start(&server([service("web")]), options).await;
        harness.create(&endpoints("web", &["192.0.2.1", "192.0.2.2"])).await;
        harness.pass(Duration::from_secs(1)).await;
        harness.writes();
        let denied = refusals::webhook_denied("hook.example.com", 403, "Forbidden", "no more slices");
        harness.fault(Fault::RefuseWith(denied), "create", usize::MAX);
        harness.put("endpoints", &endpoints("web", &["192.0.2.1", "2001:db8::1"])).await;
        harness.pass(Duration::from_secs(10)).await;
        let left = if on { "192.0.2.1" } else { "192.0.2.1 192.0.2.2" };
        assert_eq!(harness.slices(), [format!("endpointslicemirroring [{left}]")], "{on}");
        let writes = harness.writes();
        assert!(writes.iter().any(|write| write == "create endpointslices 403"), "{writes:?}");
        harness.server.clear_faults();
        harness.pass(Duration::from_secs(60)).await;
        assert_eq!(
            harness.slices(),
            ["endpointslicemirroring [192.0.2.1]", "endpointslicemirroring [2001:db8::1]"]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_fails_twice_delays_no_update_and_repeats_none() {
    let harness = started().await;
    harness.create(&endpoints("web", &["192.0.2.1", "2001:db8::1"])).await;
    harness.pass(Duration::from_secs(1)).await;
    harness.writes();
    harness.fault(refuse(500), "delete", 2);
    harness.put("endpoints", &endpoints("web", &["192.0.2.2"])).await;
    harness.moment().await;
    assert_eq!(
        harness.slices(),
        ["endpointslicemirroring [192.0.2.2]", "endpointslicemirroring [2001:db8::1]"],
        "the update does not wait for the delete"
    );
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.slices(), ["endpointslicemirroring [192.0.2.2]"]);
    let writes = harness.timed_writes();
    let start = writes[0].0;
    let seconds: Vec<(u128, String)> =
        writes.into_iter().map(|(at, write)| ((at - start) / 1000, write)).collect();
    let want = [
        (0, "update endpointslices 200"),
        (0, "delete endpointslices 500"),
        (1, "delete endpointslices 500"),
        (3, "delete endpointslices 200"),
    ];
    assert_eq!(seconds, want.map(|(at, write)| (at, write.to_owned())));
}

/// The answer is wrong each time, as a proxy's may be. No event comes that starts a sync.
#[tokio::test(start_paused = true)]
async fn while_an_answer_differs_from_the_cache_the_server_is_asked_ever_more_slowly() {
    let mut selecting = service("web");
    selecting["spec"]["selector"] = json!({"app": "web"});
    let left = of_the_endpoints_controller(endpoints("web", &["192.0.2.1"]));
    let harness = Harness::start(&server([selecting, left]), ControllerOptions::default()).await;
    let lose_selector = json!({"spec": {"selector": null}});
    for wrong in [7, 3] {
        harness.fault(refuse(404), "get", wrong);
        harness.server.clear_request_log();
        harness.patch("services", "web", lose_selector.clone()).await;
        harness.pass(Duration::from_secs(300)).await;
        let mut questions = harness.timed_requests();
        questions.retain(|(_, request)| request.starts_with("get "));
        let answers: Vec<&str> = questions.iter().map(|(_, answer)| answer.as_str()).collect();
        assert_eq!(answers, [vec!["get endpoints 404"; wrong], vec!["get endpoints 200"]].concat());
        let waits: Vec<u128> = questions.windows(2).map(|pair| (pair[1].0 - pair[0].0) / 1000).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60][..wrong], "from the beginning after a success");
        assert_eq!(harness.slices(), ["endpointslicemirroring [192.0.2.1]"]);
        harness.patch("services", "web", json!({"spec": {"selector": {"app": "web"}}})).await;
        // The controller has not read this version.
        harness
            .patch("endpoints", "web", json!({"metadata": {"annotations": {"a": wrong.to_string()}}}))
            .await;
        harness.moment().await;
        assert_eq!(harness.slices(), [""; 0]);
    }
    harness.nothing_is_remembered().await;
}
