//! Tests one object that the server always refuses, while writes of the same kind and verb succeed
//! for others.

use kube_endpoint_embedded_apiserver::FaultRule;
use serde_json::Value;

use crate::outages::bed::{Bed, pod, refuse, seconds, service};

/// Returns the pod of the Service `other`.
fn other_pod(ready: bool) -> Value {
    let mut pod = pod(9, ready);
    pod["metadata"]["labels"]["app"] = "other".into();
    pod
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_refused_for_good_among_others_is_written_every_five_to_six_minutes() {
    for status in [400, 403, 422] {
        let bed = Bed::start(1).await;
        let mut other = service("other");
        other["spec"]["selector"]["app"] = "other".into();
        bed.load(other);
        bed.load(other_pod(true));
        bed.pass(5).await;
        bed.server.add_fault(FaultRule::new(refuse(status), |request| {
            request.method == "PUT" && request.name.starts_with("web-0000")
        }));
        bed.change([false], 1);
        let mut refusals = Vec::new();
        for _hour in 0..3 {
            bed.server.clear_request_log();
            for turn in 0..120 {
                bed.load(other_pod(turn % 2 == 1));
                bed.pass(30).await;
            }
            let writes = bed.writes();
            assert!(writes.iter().all(|it| it.request.verb == "update"));
            let count = |plural: &str, status: u16| {
                writes.iter().filter(|it| it.request.plural() == plural && it.status == status).count()
            };
            let (slices, endpoints) = (count("endpointslices", 200), count("endpoints", 200));
            assert!((120..=121).contains(&slices), "{slices} slices");
            assert!((120..=121).contains(&endpoints), "{endpoints} Endpoints");
            refusals.push(["endpointslices", "endpoints"].map(|plural| count(plural, status)));
        }
        // These are the retries, a few more tries, and slow retries.
        assert!(refusals[0].iter().all(|count| (10..=45).contains(count)), "{status}: {refusals:?}");
        for later in &refusals[1..] {
            assert!(later.iter().all(|count| (9..=12).contains(count)), "{status}: {refusals:?}");
        }
        bed.server.clear_faults();
        let took = bed.after(|| {
            let right = |object: &Value, field: &str| object[field].to_string().contains("false");
            let slices = bed.server.list("endpointslices");
            let slice = |it: &Value| it["metadata"]["labels"]["kubernetes.io/service-name"] == "web-0000";
            let endpoints = bed.server.list("endpoints");
            let web = |it: &Value| it["metadata"]["name"] == "web-0000";
            slices.iter().any(|it| slice(it) && right(it, "endpoints"))
                && endpoints.iter().any(|it| web(it) && it["subsets"][0]["addresses"].is_null())
        });
        let took = took.await;
        assert!(took <= seconds(360), "{took:?}");
        bed.stop().await;
    }
}
