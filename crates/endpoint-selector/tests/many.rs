//! Many Services whose EndpointSelectors vanish at once, and two processes without a Lease.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use serde_json::{Value, json};

use crate::harness::{Harness, pod, selector, service};

const SERVICES: u8 = 100;

/// The ready addresses of each Service, and the others.
type Published = BTreeMap<String, [BTreeSet<String>; 2]>;

/// Returns a Service with the number, its EndpointSelector and its two pods.
fn attached(number: u8) -> [Value; 4] {
    let track = format!("t{number}");
    let name = format!("web-{number}");
    let mut service = service();
    service["metadata"] = json!({
        "name": name,
        "annotations": {"kube-endpoint-manager.github.io/endpoint-selector": name},
    });
    service["spec"] = json!({"ports": service["spec"]["ports"]});
    let mut selector = selector("none");
    selector["metadata"]["name"] = name.into();
    selector["spec"] = json!({"selector": {"matchLabels": {"app": "web", "track": track}}});
    let pod = |letter: &str, offset: u8| pod(&format!("{letter}{number}"), number + offset, &track, true);
    [pod("a", 0), pod("b", SERVICES), service, selector]
}

fn published(harness: &Harness) -> Published {
    let mut published = Published::new();
    for slice in harness.list("endpointslices") {
        let service = slice["metadata"]["labels"]["kubernetes.io/service-name"].as_str().unwrap();
        let addresses = published.entry(service.to_owned()).or_default();
        for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
            let of_state = &mut addresses[usize::from(endpoint["conditions"]["ready"] == false)];
            of_state.insert(endpoint["addresses"][0].as_str().unwrap().to_owned());
        }
    }
    published
}

fn addresses(numbers: &[u8]) -> BTreeSet<String> {
    numbers.iter().map(|number| format!("10.1.0.{number}")).collect()
}

#[tokio::test(start_paused = true)]
async fn no_service_loses_a_ready_pod_while_the_resource_is_not_served() {
    let harness = Harness::start((0..SERVICES).flat_map(attached)).await;
    let all = published(&harness);
    let both = |number: u8| [addresses(&[number, SERVICES + number]), BTreeSet::new()];
    let want: Published = (0..SERVICES).map(|number| (format!("web-{number}"), both(number))).collect();
    assert_eq!(all, want);
    // A server that deletes a CRD deletes all of its objects first, and then serves none.
    for number in 0..SERVICES {
        harness.delete("endpointselectors", &format!("web-{number}")).await;
        harness.pass(Duration::from_millis(10)).await;
        assert_eq!(published(&harness), all);
    }
    let gone =
        |verb| FaultRule::on(Fault::Refuse { status: 404, retry_after: None }, verb, "endpointselectors");
    let rules = ["list", "watch"].map(|verb| harness.server.add_fault(gone(verb)));
    harness.server.break_watches(|request| request.plural() == "endpointselectors");
    harness.pass(Duration::from_secs(120)).await;
    assert_eq!(published(&harness), all);
    let refused = harness.server.request_log().into_iter();
    let refused = refused.filter(|it| it.status == 404 && it.request.plural() == "endpointselectors").count();
    assert!(refused > 1, "the resource was not served");
    assert_eq!(harness.gauge("services_without_selector"), f64::from(SERVICES));
    // Pods leave or are not ready, and none is added.
    harness.delete_now("pods", "a0").await;
    harness.set_ready("a1", false).await;
    harness.load([pod("c2", 250, "t2", true)]);
    harness.pass(Duration::from_secs(1)).await;
    let mut shrunk = all.clone();
    shrunk.insert("web-0".to_owned(), [addresses(&[SERVICES]), BTreeSet::new()]);
    shrunk.insert("web-1".to_owned(), [addresses(&[SERVICES + 1]), addresses(&[1])]);
    assert_eq!(published(&harness), shrunk);
    // The CRD comes back, and its objects after it.
    assert!(rules.into_iter().all(|rule| harness.server.remove_fault(rule)));
    harness.pass(Duration::from_secs(120)).await;
    assert_eq!(published(&harness), shrunk);
    for number in 0..SERVICES {
        let [_, _, _, selector] = attached(number);
        harness.create(&selector).await;
        harness.pass(Duration::from_millis(10)).await;
        let now = published(&harness);
        for (service, [ready, _]) in &shrunk {
            assert!(now[service][0].is_superset(ready), "{service}");
        }
    }
    harness.pass(Duration::from_secs(1)).await;
    let mut whole = shrunk;
    whole.insert("web-2".to_owned(), [addresses(&[2, SERVICES + 2, 250]), BTreeSet::new()]);
    assert_eq!(published(&harness), whole);
    assert_eq!(harness.gauge("services_without_selector"), 0.0);
}

/// As [`attached`], before its selector is taken out.
fn selecting(number: u8) -> [Value; 4] {
    let [a, b, mut service, selector] = attached(number);
    service["spec"]["selector"] = json!({"track": format!("t{number}")});
    [a, b, service, selector]
}

/// Takes the selectors of these Services out.
async fn attach(harness: &Harness, numbers: impl IntoIterator<Item = u8>) {
    for number in numbers {
        let patch = json!({"spec": {"selector": null}});
        harness.patch("services", &format!("web-{number}"), patch).await;
    }
}

/// Deletes a pod of a Service, and waits until no slice has its address as ready.
async fn leaves(harness: &Harness, number: u8, pod: &str, address: u8) {
    harness.delete_now("pods", pod).await;
    let address = format!("10.1.0.{address}");
    let mut took = Duration::ZERO;
    while published(harness)[&format!("web-{number}")][0].contains(&address) {
        harness.pass(Duration::from_millis(100)).await;
        took += Duration::from_millis(100);
        assert!(took < Duration::from_millis(1500), "{pod}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_without_a_pod_leaves_at_once_whatever_else_waits_for_the_rate_limit() {
    let mistyped = |number| {
        let mut objects = selecting(number);
        objects[3]["spec"]["selector"]["matchLabels"]["track"] = json!("mistyped");
        objects
    };
    let more: Vec<Value> = (200..210).map(|it| pod(&format!("c{it}"), it, "t0", true)).collect();
    let objects = mistyped(0).into_iter().chain((1..SERVICES).flat_map(selecting)).chain(more);
    let harness = Harness::start_limited(objects).await;
    harness.pass(Duration::from_secs(60)).await;
    attach(&harness, [0]).await;
    harness.pass(Duration::from_secs(60)).await;
    // Their take-overs begin.
    attach(&harness, 1..SERVICES).await;
    for number in 200..210 {
        leaves(&harness, 0, &format!("c{number}"), number).await;
        harness.pass(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_without_a_pod_leaves_at_once_while_a_process_begins() {
    let objects = (0..SERVICES).flat_map(|number| {
        let [a, b, service, _] = selecting(number);
        [a, b, service]
    });
    let harness = Harness::start_limited(objects).await;
    harness.pass(Duration::from_secs(60)).await;
    attach(&harness, 0..SERVICES).await;
    harness.pass(Duration::from_secs(60)).await;
    let harness = harness.restart_limited().await;
    for number in (SERVICES - 5)..SERVICES {
        leaves(&harness, number, &format!("a{number}"), number).await;
    }
    harness.pass(Duration::from_secs(120)).await;
    assert_eq!(harness.gauge("services_without_selector"), f64::from(SERVICES));
}

#[tokio::test(start_paused = true)]
async fn two_processes_without_a_lease_agree() {
    let pods = [pod("a", 1, "stable", true), pod("b", 2, "stable", true), pod("c", 9, "canary", true)];
    let harness = Harness::start_with(2, pods.into_iter().chain([service(), selector("canary")])).await;
    harness.attach().await;
    harness.pass_with(10, &["10.1.0.1", "10.1.0.2"]).await;
    harness.set_ready("b", false).await;
    harness.pass_with(5, &["10.1.0.1"]).await;
    harness.load([pod("d", 4, "stable", true)]);
    harness.pass_with(60, &["10.1.0.1"]).await;
    let published = published(&harness);
    assert_eq!(published["web"], [addresses(&[1, 4]), addresses(&[2])]);
    assert_eq!(harness.get("endpoints", "web"), None);
    harness.writes();
    harness.pass(Duration::from_secs(600)).await;
    assert_eq!(harness.writes(), [""; 0], "nothing changes, and nobody writes");
    harness.detach().await;
    harness.pass_with(60, &["10.1.0.1", "10.1.0.4"]).await;
    assert_eq!(harness.slices(), ["endpointslice: 1 2! 4 9"]);
}
