//! Services that send traffic to a leader only, or to its followers: by Lease and by a condition of
//! the pods.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::{Fault, FaultRule, RequestInfo};
use serde_json::{Value, json};

use crate::harness::{Harness, pod, selector, service};

const LEADER: &str = "shop.example/leader";

fn selector_with(readiness: Value) -> Value {
    let mut selector = selector("canary");
    selector["spec"]["readiness"] = readiness;
    selector
}

fn lease(holder: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "web"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 0},
    })
}

/// Three ready pods, and a Service that names the EndpointSelector from the start.
async fn start(readiness: Value, others: impl IntoIterator<Item = Value>) -> Harness {
    let pods = [("a", 1), ("b", 2), ("c", 3)].map(|(name, number)| pod(name, number, "stable", true));
    let mut service = service();
    service["spec"]["selector"] = Value::Null;
    service["metadata"]["annotations"] =
        json!({"kube-endpoint-manager.github.io/endpoint-selector": "stable"});
    let objects = pods.into_iter().chain([service, selector_with(readiness)]).chain(others);
    Harness::start(objects).await
}

async fn by_lease(holder: &str) -> Harness {
    start(json!({"lease": {"name": "web"}}), [lease(holder)]).await
}

impl Harness {
    /// Renews the Lease as a holder.
    async fn renew(&self, holder: &str, renewal: usize) {
        let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/web";
        let time = format!("2026-01-01T00:00:{:02}.{:06}Z", renewal % 60, renewal);
        let body = json!({"spec": {"holderIdentity": holder, "renewTime": time}});
        self.send("PATCH", path, "application/merge-patch+json", &body).await;
    }

    /// Renews the Lease every two seconds.
    async fn lead(&self, holder: &str, seconds: usize) {
        for renewal in 0..seconds / 2 {
            self.renew(holder, renewal + 1).await;
            self.pass(Duration::from_secs(2)).await;
        }
    }

    async fn set_leader(&self, pod: &str, is_true: bool, second: usize) {
        let time = format!("2026-01-01T00:00:{second:02}Z");
        let status = if is_true { "True" } else { "False" };
        let conditions = json!([
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": LEADER, "status": status, "lastTransitionTime": time},
        ]);
        let path = format!("/api/v1/namespaces/default/pods/{pod}/status");
        self.send(
            "PATCH",
            &path,
            "application/merge-patch+json",
            &json!({"status": {"conditions": conditions}}),
        )
        .await;
    }

    fn accepted(&self) -> Value {
        self.condition()["reason"].clone()
    }

    fn condition(&self) -> Value {
        self.get("endpointselectors", "stable").unwrap()["status"]["conditions"][0].clone()
    }

    /// Returns the messages of this controller's events with a reason, the oldest first.
    fn messages(&self, reason: &str) -> Vec<String> {
        let mut events = self.list("events");
        events.retain(|event| event["reason"] == reason);
        events.sort_by_key(|event| event["firstTimestamp"].as_str().unwrap().to_owned());
        events.into_iter().map(|event| event["message"].as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_changes_at_once_while_many_services_are_taken_over() {
    const OTHERS: u8 = 60;
    let name = |number: u8| format!("other-{number}");
    let others = (0..OTHERS).flat_map(|number| {
        let (labels, mut service, mut selector) =
            (json!({"app": name(number)}), service(), selector("canary"));
        let mut pod = pod(&name(number), 100 + number, "stable", true);
        pod["metadata"]["labels"] = labels.clone();
        service["metadata"]["name"] = name(number).into();
        service["spec"] = json!({"selector": labels, "ports": service["spec"]["ports"]});
        selector["metadata"]["name"] = name(number).into();
        selector["spec"] = json!({"selector": {"matchLabels": labels}});
        [pod, service, selector]
    });
    let pods = [("a", 1), ("b", 2)].map(|(name, number)| pod(name, number, "stable", true));
    let mut leader = service();
    leader["spec"]["selector"] = Value::Null;
    leader["metadata"]["annotations"] =
        json!({"kube-endpoint-manager.github.io/endpoint-selector": "stable"});
    let by_lease = [leader, selector_with(json!({"lease": {"name": "web"}})), lease("a_1")];
    let harness = Harness::start_limited(pods.into_iter().chain(by_lease).chain(others)).await;
    harness.lead("a_1", 60).await;
    assert_eq!(harness.slices(), ["own: 1 2!"]);

    for number in 0..OTHERS {
        let annotation = json!({"kube-endpoint-manager.github.io/endpoint-selector": name(number)});
        let patch = json!({"metadata": {"annotations": annotation}, "spec": {"selector": null}});
        harness.patch("services", &name(number), patch).await;
    }
    let is_of = |slice: &Value, manager: &str| {
        let by = slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"].as_str();
        by.is_some_and(|by| by.starts_with(manager))
    };
    let left =
        || harness.list("endpointslices").iter().filter(|it| is_of(it, "endpointslice-controller")).count();
    for change in 0..6 {
        harness.pass(Duration::from_secs(1)).await;
        assert!(left() > 0, "the take-overs go on");
        let (holder, want) = if change % 2 == 0 { ("b_1", "own: 1! 2") } else { ("a_1", "own: 1 2!") };
        harness.renew(holder, 40 + change).await;
        harness.pass(Duration::from_millis(500)).await;
        assert_eq!(harness.slices(), [want], "change {change}");
    }
    harness.lead("a_1", 60).await;
    assert_eq!(left(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_holder_of_a_lease_is_published_until_it_no_longer_renews() {
    let harness = by_lease("a_1").await;
    // The first record proves nothing.
    assert_eq!(harness.slices(), ["own: 1! 2! 3!"]);
    harness.lead("a_1", 4).await;
    assert_eq!(harness.slices(), ["own: 1 2! 3!"]);
    assert_eq!(harness.accepted(), "HolderRecognised");

    harness.server.clear_request_log();
    harness.lead("a_1", 60).await;
    assert_eq!(harness.sent("update", "endpointslices"), 0);

    // Another leader takes one write.
    harness.renew("b_2", 1).await;
    harness.pass(Duration::from_millis(50)).await;
    assert_eq!(harness.slices(), ["own: 1! 2 3!"]);
    assert_eq!(harness.sent("update", "endpointslices"), 1);

    // The leader dies: it counts for the duration of its Lease.
    harness.pass(Duration::from_millis(14_900)).await;
    assert_eq!(harness.slices(), ["own: 1! 2 3!"]);
    harness.pass(Duration::from_millis(200)).await;
    assert_eq!(harness.slices(), ["own: 1! 2! 3!"]);
    assert_eq!(harness.reasons(), ["NobodyLeads"]);
    assert_eq!(harness.gauge("services_without_leader"), 1.0);
    harness.lead("c_3", 2).await;
    assert_eq!(harness.slices(), ["own: 1! 2! 3"]);
    assert_eq!(harness.reasons(), ["LeaderBack", "NobodyLeads"]);
    assert_eq!(harness.gauge("services_without_leader"), 0.0);

    // It releases the Lease.
    harness.renew("", 1).await;
    harness.pass(Duration::from_millis(50)).await;
    assert_eq!(harness.slices(), ["own: 1! 2! 3!"]);
    harness.pass(Duration::from_secs(2)).await;
    assert_eq!(
        harness.messages("NobodyLeads"),
        ["no pod leads: \"b_2\" has not renewed Lease web for 15 s", "no pod leads: nobody holds Lease web"]
    );
    assert_eq!(harness.gauge("services_without_leader"), 1.0);
    harness.nothing_is_remembered().await;
    assert_eq!(harness.gauge("services_without_leader"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_not_ready_is_not_published() {
    let harness = by_lease("a_1").await;
    harness.lead("a_1", 4).await;
    harness.set_ready("a", false).await;
    harness.lead("a_1", 2).await;
    assert_eq!(harness.slices(), ["own: 1! 2! 3!"]);
    assert_eq!(harness.messages("NobodyLeads"), ["no pod leads: Pod a, which should, is not ready"]);
    harness.set_ready("a", true).await;
    harness.lead("a_1", 2).await;
    assert_eq!(harness.slices(), ["own: 1 2! 3!"]);
    assert_eq!(harness.messages("LeaderBack").len(), 1);
}

/// Without a Lease all pods are ready endpoints, and the Lease says 20 seconds.
async fn live(holder: &str) -> Harness {
    let mut lease = lease(holder);
    lease["spec"]["leaseDurationSeconds"] = json!(20);
    let harness = start(Value::Null, [lease]).await;
    harness.lead(holder, 4).await;
    assert_eq!(harness.slices(), ["own: 1 2 3"]);
    let readiness = json!({"spec": {"readiness": {"lease": {"name": "web"}}}});
    harness.patch("endpointselectors", "stable", readiness).await;
    harness
}

#[tokio::test(start_paused = true)]
async fn what_is_published_stays_until_the_holder_of_a_new_lease_renews() {
    let harness = live("a_1").await;
    harness.pass_with(8, &["10.1.0.1", "10.1.0.2", "10.1.0.3"]).await;
    let says = "the ready endpoints stay until a holder renews the Lease, for 20 s at most";
    assert_eq!(harness.condition()["message"], says);
    assert_eq!(harness.reasons(), ["LeaderAwaited"]);
    // A pod that is not ready leaves, and one that comes has to lead.
    harness.set_ready("b", false).await;
    harness.load([pod("d", 4, "stable", true)]);
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.slices(), ["own: 1 2! 3 4!"]);
    harness.lead("a_1", 2).await;
    assert_eq!(harness.slices(), ["own: 1 2! 3! 4!"]);
    assert_eq!(
        (harness.accepted(), &harness.condition()["message"]),
        (json!("HolderRecognised"), &json!(""))
    );
    assert_eq!(harness.reasons(), ["LeaderAwaited"]);
    harness.nothing_is_remembered().await;
}

/// A readiness blip takes no pod away for good, also if it takes all.
#[tokio::test(start_paused = true)]
async fn pods_come_back_while_a_new_lease_is_awaited() {
    let harness = live("a_1").await;
    let set_all = async |ready: bool| {
        for pod in ["a", "b", "c"] {
            harness.set_ready(pod, ready).await;
        }
        harness.pass(Duration::from_secs(1)).await;
        harness.slices()
    };
    assert_eq!(set_all(false).await, ["own: 1! 2! 3!"]);
    harness.load([pod("d", 4, "stable", true)]);
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(set_all(true).await, ["own: 1 2 3 4!"]);
    harness.lead("a_1", 2).await;
    assert_eq!(harness.slices(), ["own: 1 2! 3! 4!"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_published_stays_for_as_long_as_a_new_lease_says() {
    let harness = live("a_1").await;
    harness.pass_with(18, &["10.1.0.1", "10.1.0.2", "10.1.0.3"]).await;
    harness.pass(Duration::from_secs(3)).await;
    assert_eq!(harness.slices(), ["own: 1! 2! 3!"]);
    assert_eq!(harness.reasons(), ["LeaderAwaited", "NobodyLeads"]);
    assert_eq!(harness.condition()["message"], "");
    // The API server forgets an event after an hour, so it comes again.
    harness.pass(Duration::from_secs(2000)).await;
    let events = harness.list("events").into_iter();
    let counts = events.filter(|event| event["reason"] == "NobodyLeads").map(|it| it["count"].as_u64());
    assert_eq!(counts.collect::<Vec<_>>(), [Some(2)]);
}

#[tokio::test(start_paused = true)]
async fn a_new_lease_that_cannot_be_read_takes_nothing_away() {
    let harness = start(Value::Null, []).await;
    let refused = Fault::Refuse { status: 403, retry_after: None };
    let of_leases = |request: &RequestInfo| request.plural() == "leases";
    harness.server.add_fault(FaultRule::new(refused, of_leases));
    let readiness = json!({"spec": {"readiness": {"lease": {"name": "web"}}}});
    harness.patch("endpointselectors", "stable", readiness).await;
    harness.pass_with(60, &["10.1.0.1", "10.1.0.2", "10.1.0.3"]).await;
    let says = "the ready endpoints stay until a holder renews the Lease, and as long as the Leases of the namespace have not been read";
    assert_eq!(harness.condition()["message"], says);
    harness.server.clear_faults();
    harness.pass(Duration::from_secs(120)).await;
    assert_eq!(harness.slices(), ["own: 1! 2! 3!"]);
    assert_eq!(harness.messages("NobodyLeads"), ["no pod leads: Lease web does not exist"]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_keeps_what_a_new_lease_keeps() {
    let harness = live("a_1").await.restart().await;
    assert_eq!(harness.slices(), ["own: 1 2 3"]);
    harness.lead("a_1", 2).await;
    assert_eq!(harness.slices(), ["own: 1 2! 3!"]);
}

/// A leader that renews every 20 minutes.
#[tokio::test(start_paused = true)]
async fn a_lease_counts_for_as_long_as_it_says() {
    let harness = by_lease("a_1").await;
    let long = json!({"spec": {"leaseDurationSeconds": 1800}});
    harness.patch("leases", "web", long).await;
    harness.lead("a_1", 2).await;
    harness.pass(Duration::from_secs(1790)).await;
    assert_eq!(harness.slices(), ["own: 1 2! 3!"]);
    harness.pass(Duration::from_secs(20)).await;
    assert_eq!(harness.slices(), ["own: 1! 2! 3!"]);
    // Longer than any record counts: the status says so before it matters.
    harness.patch("leases", "web", json!({"spec": {"leaseDurationSeconds": 100_000}})).await;
    harness.lead("a_1", 2).await;
    assert_eq!(harness.accepted(), "HolderRecognised");
    let says = "the Lease says 100000 s, and a record counts for 86400 s at most";
    assert_eq!(harness.condition()["message"], says);
    harness.pass(Duration::from_secs(86_390)).await;
    assert_eq!(harness.slices(), ["own: 1 2! 3!"]);
    harness.pass(Duration::from_secs(20)).await;
    assert_eq!(harness.slices(), ["own: 1! 2! 3!"]);
    let why = harness.messages("NobodyLeads").pop().unwrap();
    assert!(
        why.ends_with("for 86400 s, the longest time for which a record counts; the Lease says 100000 s"),
        "{why}"
    );
    assert_eq!(harness.condition()["message"], says);
}

#[tokio::test(start_paused = true)]
async fn a_restart_drops_no_living_leader_and_revives_no_dead_one() {
    let harness = by_lease("a_1").await;
    harness.lead("a_1", 4).await;
    harness.server.clear_request_log();
    let harness = harness.restart().await;
    assert_eq!(harness.slices(), ["own: 1 2! 3!"]);
    harness.lead("a_1", 30).await;
    assert_eq!(harness.slices(), ["own: 1 2! 3!"]);
    assert_eq!(harness.sent("update", "endpointslices"), 0, "nothing has changed for the new process");
    // The leader dies together with the process.
    let harness = harness.restart().await;
    assert_eq!(harness.slices(), ["own: 1 2! 3!"]);
    harness.pass(Duration::from_secs(16)).await;
    assert_eq!(harness.slices(), ["own: 1! 2! 3!"]);
    harness.server.clear_request_log();
    let harness = harness.restart().await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.slices(), ["own: 1! 2! 3!"], "the record is that of a dead leader");
    assert_eq!(harness.sent("update", "endpointslices"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_expires() {
    let harness = by_lease("a_1").await;
    harness.lead("a_1", 4).await;
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/web";
    harness.send("DELETE", path, "application/json", &json!({})).await;
    harness.pass(Duration::from_secs(12)).await;
    assert_eq!(harness.slices(), ["own: 1 2! 3!"]);
    harness.pass(Duration::from_secs(2)).await;
    assert_eq!(harness.slices(), ["own: 1! 2! 3!"]);
}

/// The leader renews, but the watch shows nothing: the API server is asked before it counts as
/// dead.
#[tokio::test(start_paused = true)]
async fn a_leader_that_the_watch_does_not_show_stays() {
    let harness = by_lease("a_1").await;
    harness.lead("a_1", 4).await;
    let watch =
        |request: &RequestInfo| request.plural() == "leases" && matches!(request.verb, "list" | "watch");
    let refused = Fault::Refuse { status: 500, retry_after: None };
    harness.server.add_fault(FaultRule::new(refused, watch));
    harness.server.close_watches();
    harness.server.clear_request_log();
    harness.lead("a_1", 60).await;
    assert_eq!(harness.slices(), ["own: 1 2! 3!"]);
    assert!((3..=5).contains(&harness.sent("get", "leases")));
    // Another leader is found when the Lease is read again.
    harness.lead("b_2", 18).await;
    assert_eq!(harness.slices(), ["own: 1! 2 3!"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_over_for_a_holder_that_names_no_pod() {
    let pods = [("a", 1), ("b", 2)].map(|(name, number)| pod(name, number, "stable", true));
    let readiness = json!({"lease": {"name": "web"}});
    let objects = pods.into_iter().chain([service(), selector_with(readiness), lease("host-7_6bb9")]);
    let harness = Harness::start(objects).await;
    harness.attach().await;
    harness.lead("host-7_6bb9", 10).await;
    assert_eq!(harness.slices(), ["endpointslice: 1 2", "endpointslicemirroring: 1 2", "own: 1! 2!"]);
    assert_eq!(harness.accepted(), "HolderNotRecognised");
    let reasons = harness.reasons();
    assert!(reasons.iter().all(|reason| ["NobodyLeads", "TakeOverHeld"].contains(&&**reason)), "{reasons:?}");
    assert_eq!(harness.gauge("selectors_not_accepted"), 1.0);
    harness.lead("a_6bb9", 4).await;
    assert_eq!(harness.slices(), ["own: 1 2!"]);
    assert_eq!(harness.accepted(), "HolderRecognised");
    assert_eq!(harness.gauge("selectors_not_accepted"), 0.0);
    // The next stranger shows in the status, too.
    harness.lead("host-8_6bb9", 4).await;
    assert_eq!(harness.slices(), ["own: 1! 2!"]);
    assert_eq!(harness.accepted(), "HolderNotRecognised");
    assert_eq!(harness.gauge("selectors_not_accepted"), 1.0);
    harness.lead("b_6bb9", 4).await;
    assert_eq!(harness.accepted(), "HolderRecognised");
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_pod_is_gone_stays_recognised() {
    let harness = by_lease("a_1").await;
    harness.lead("a_1", 4).await;
    harness.delete_now("pods", "a").await;
    harness.pass(Duration::from_secs(20)).await;
    assert_eq!(harness.accepted(), "HolderRecognised");
    let harness = harness.restart().await;
    harness.pass(Duration::from_secs(20)).await;
    assert_eq!(harness.accepted(), "HolderRecognised");
    assert_eq!(harness.slices(), ["own: 2! 3!"]);
}

#[tokio::test(start_paused = true)]
async fn the_newest_condition_is_published_in_one_write() {
    let harness = start(json!({"condition": LEADER, "pick": "Newest"}), []).await;
    assert_eq!(harness.slices(), ["own: 1! 2! 3!"]);
    harness.set_leader("a", true, 1).await;
    harness.pass(Duration::from_millis(50)).await;
    assert_eq!(harness.slices(), ["own: 1 2! 3!"]);
    // The old leader cannot clear its condition.
    harness.server.clear_request_log();
    harness.set_leader("b", true, 2).await;
    harness.pass(Duration::from_millis(50)).await;
    assert_eq!(harness.slices(), ["own: 1! 2 3!"]);
    assert_eq!(harness.sent("update", "endpointslices"), 1);
    assert_eq!(harness.gauge("services_without_leader"), 0.0);
    harness.set_leader("a", false, 3).await;
    harness.set_leader("b", false, 3).await;
    harness.pass(Duration::from_millis(50)).await;
    assert_eq!(harness.slices(), ["own: 1! 2! 3!"]);
    assert_eq!(harness.gauge("services_without_leader"), 1.0);
    assert_eq!(harness.reasons(), ["LeaderBack", "NobodyLeads"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn all_pods_with_the_condition_are_published() {
    let harness = start(json!({"condition": LEADER}), []).await;
    harness.set_leader("a", true, 1).await;
    harness.set_leader("b", true, 2).await;
    harness.pass(Duration::from_millis(50)).await;
    assert_eq!(harness.slices(), ["own: 1 2 3!"]);
    // Without readiness each ready pod is published.
    harness.patch("endpointselectors", "stable", json!({"spec": {"readiness": null}})).await;
    harness.pass(Duration::from_millis(50)).await;
    assert_eq!(harness.slices(), ["own: 1 2 3"]);
}

/// Two numbers of a named port make two slices, so a change of leader takes two plans. A pod on an
/// unknown node, which each plan reports, delays neither.
#[tokio::test(start_paused = true)]
async fn a_leader_in_another_slice_is_published_beside_a_pod_without_a_node() {
    let with_port = |name: &str, number: u8, port: u16| {
        let mut pod = pod(name, number, "stable", true);
        pod["spec"]["containers"][0]["ports"] = json!([{"name": "http", "containerPort": port}]);
        pod
    };
    let mut lost = with_port("lost", 9, 8080);
    lost["spec"]["nodeName"] = json!("missing");
    let mut service = service();
    service["spec"]["selector"] = Value::Null;
    service["spec"]["ports"][0]["targetPort"] = json!("http");
    service["metadata"]["annotations"] =
        json!({"kube-endpoint-manager.github.io/endpoint-selector": "stable"});
    let objects = [with_port("a", 1, 8080), with_port("b", 2, 9090), lost, service, lease("a_1")];
    let selector = selector_with(json!({"lease": {"name": "web"}}));
    let harness = Harness::start(objects.into_iter().chain([selector])).await;
    harness.lead("a_1", 60).await;
    assert_eq!(harness.slices(), ["own: 1", "own: 2!"]);
    harness.renew("b_2", 1).await;
    harness.pass(Duration::from_millis(100)).await;
    assert_eq!(harness.slices(), ["own: 1!", "own: 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_the_same_name_does_not_inherit_the_lease() {
    let harness = by_lease("a_1").await;
    harness.lead("a_1", 4).await;
    harness.delete_now("pods", "a").await;
    let mut again = pod("a", 7, "stable", true);
    again["metadata"]["uid"] = json!("uid-a-2");
    harness.load([again]);
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.slices(), ["own: 2! 3! 7!"]);
    // It gets the Lease, with an identity that may be the same.
    harness.renew("a_1", 9).await;
    harness.pass(Duration::from_millis(50)).await;
    assert_eq!(harness.slices(), ["own: 2! 3! 7"]);
    harness.lead("a_2", 4).await;
    assert_eq!(harness.slices(), ["own: 2! 3! 7"]);
}

impl Harness {
    /// Writes the status of a pod with these containers: how often each has restarted, and the
    /// second of its start.
    async fn run_containers(&self, pod: &str, ready: bool, containers: &[(u32, usize)]) {
        let containers = containers.iter().map(|(restarts, second)| {
            let running = json!({"startedAt": format!("2026-01-01T00:00:{second:02}Z")});
            json!({"name": format!("c{second}"), "image": "i", "imageID": "x", "ready": ready,
                "restartCount": restarts, "state": {"running": running}})
        });
        let containers: Vec<Value> = containers.collect();
        let status = if ready { "True" } else { "False" };
        let patch = json!({"status": {"containerStatuses": containers,
            "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        let path = format!("/api/v1/namespaces/default/pods/{pod}/status");
        self.send("PATCH", &path, "application/merge-patch+json", &patch).await;
        self.pass(Duration::from_millis(50)).await;
    }

    async fn renew_at(&self, holder: &str, second: usize) {
        self.renew(holder, second).await;
        self.pass(Duration::from_millis(50)).await;
    }
}

/// The kubelet goes from running to running, with one more restart, and the pod stays ready.
#[tokio::test(start_paused = true)]
async fn a_process_that_is_newer_than_the_record_does_not_lead() {
    let harness = by_lease("a_1").await;
    harness.renew_at("a_1", 10).await;
    harness.renew_at("a_1", 12).await;
    assert_eq!(harness.slices(), ["own: 1 2! 3!"]);
    harness.run_containers("b", true, &[(1, 13)]).await;
    assert_eq!(harness.slices(), ["own: 1 2! 3!"], "it does not lead");
    harness.run_containers("a", true, &[(1, 13)]).await;
    assert_eq!(harness.slices(), ["own: 1! 2! 3!"]);
    let want = "no pod leads: Pod a has started since the last renewal of Lease web";
    assert_eq!(harness.messages("NobodyLeads").last().unwrap(), want);
    // It finds itself as the holder, since its identity is the same.
    harness.renew_at("a_1", 14).await;
    assert_eq!(harness.slices(), ["own: 1 2! 3!"]);
    // It has another identity, so it waits until the Lease has expired.
    harness.run_containers("a", true, &[(2, 15)]).await;
    harness.pass(Duration::from_secs(14)).await;
    assert_eq!(harness.slices(), ["own: 1! 2! 3!"]);
    harness.renew_at("a_2", 30).await;
    assert_eq!(harness.slices(), ["own: 1 2! 3!"]);
}

/// The Service comes after the process has died that holds the Lease.
#[tokio::test(start_paused = true)]
async fn a_new_service_has_no_leader_that_is_newer_than_the_record() {
    let harness = both("a_1").await;
    harness.renew_at("a_1", 10).await;
    harness.renew_at("a_1", 12).await;
    assert_eq!(harness.led().0, [1]);
    let primary = harness.get("services", "primary").unwrap();
    harness.delete_now("services", "primary").await;
    harness.run_containers("a", true, &[(1, 13)]).await;
    harness
        .load([json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": primary["spec"]["ports"]},
        "metadata": {"name": "primary", "annotations": primary["metadata"]["annotations"]}})]);
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.led().0, [0; 0]);
    harness.renew_at("a_1", 14).await;
    assert_eq!(harness.led().0, [1]);
}

#[tokio::test(start_paused = true)]
async fn a_process_leads_that_has_renewed_since_it_started() {
    let harness = by_lease("a_1").await;
    harness.renew_at("a_1", 10).await;
    harness.renew_at("a_1", 12).await;
    // Another container of the pod restarts, and the holder lives.
    harness.run_containers("a", true, &[(0, 1), (1, 13)]).await;
    assert_eq!(harness.slices(), ["own: 1 2! 3!"]);
    harness.run_containers("a", true, &[(0, 1), (2, 14)]).await;
    assert_eq!(harness.slices(), ["own: 1 2! 3!"]);
    // It takes its Lease back before it is ready, and before the kubelet says that it runs.
    harness.run_containers("a", false, &[(0, 1), (2, 14)]).await;
    assert_eq!(harness.slices(), ["own: 1! 2! 3!"]);
    harness.renew_at("a_1", 20).await;
    harness.run_containers("a", true, &[(1, 19), (3, 19)]).await;
    assert_eq!(harness.slices(), ["own: 1 2! 3!"]);
}

/// The Lease has had no holder between the two.
#[tokio::test(start_paused = true)]
async fn a_pod_of_the_same_name_leads_when_it_gets_a_released_lease() {
    let harness = by_lease("a_1").await;
    harness.lead("a_1", 4).await;
    harness.renew_at("", 20).await;
    harness.delete_now("pods", "a").await;
    let mut again = pod("a", 7, "stable", true);
    again["metadata"]["uid"] = json!("uid-a-2");
    harness.load([again]);
    harness.renew_at("a_1", 22).await;
    assert_eq!(harness.slices(), ["own: 2! 3! 7"]);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_has_lost_the_lease_follows() {
    let harness = both("a_1").await;
    harness.renew_at("a_1", 10).await;
    harness.renew_at("a_1", 12).await;
    assert_eq!(harness.led(), (vec![1], vec![2, 3]));
    harness.run_containers("a", true, &[(1, 13)]).await;
    assert_eq!(harness.led(), (vec![], vec![1, 2, 3]));
    harness.renew_at("b_1", 14).await;
    assert_eq!(harness.led(), (vec![2], vec![1, 3]));
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_has_left_is_not_told_any_more() {
    let harness = by_lease("host-7_6bb9").await;
    harness.lead("host-7_6bb9", 4).await;
    assert_eq!(harness.accepted(), "HolderNotRecognised");
    harness.renew("", 1).await;
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.accepted(), "Accepted");
}

/// Two Services for one election: `web` has the followers, and `primary` the leader.
async fn both(holder: &str) -> Harness {
    let (mut primary, mut leader) = (service(), selector_with(json!({"lease": {"name": "web"}})));
    leader["metadata"]["name"] = json!("primary");
    primary["metadata"] = json!({"name": "primary",
        "annotations": {"kube-endpoint-manager.github.io/endpoint-selector": "primary"}});
    primary["spec"] = json!({"ports": primary["spec"]["ports"]});
    start(json!({"lease": {"name": "web", "role": "Follower"}}), [primary, leader, lease(holder)]).await
}

impl Harness {
    /// Returns the ready pods of both Services, by number: the leaders, and the followers.
    fn led(&self) -> (Vec<u8>, Vec<u8>) {
        let of = |service: &str| {
            let slices = self.list("endpointslices").into_iter();
            let slices =
                slices.filter(|it| it["metadata"]["labels"]["kubernetes.io/service-name"] == service);
            let endpoints = slices.flat_map(|it| it["endpoints"].as_array().cloned().unwrap_or_default());
            let ready = endpoints.filter(|it| it["conditions"]["ready"] == true);
            let number = |it: Value| it["addresses"][0].as_str().unwrap()[7..].parse().unwrap();
            let mut ready: Vec<u8> = ready.map(number).collect();
            ready.sort_unstable();
            ready
        };
        (of("primary"), of("web"))
    }
}

#[tokio::test(start_paused = true)]
async fn one_election_has_a_service_of_the_leader_and_one_of_its_followers() {
    let harness = both("a_1").await;
    // Nobody knows who leads.
    assert_eq!(harness.led(), (vec![], vec![1, 2, 3]));
    harness.lead("a_1", 4).await;
    assert_eq!(harness.led(), (vec![1], vec![2, 3]));
    harness.server.clear_request_log();
    harness.lead("a_1", 60).await;
    assert_eq!(harness.sent("update", "endpointslices"), 0);

    for (holder, number) in [("b_2", 2), ("c_3", 3), ("a_4", 1), ("b_5", 2)] {
        harness.renew(holder, 1).await;
        let mut followed_at = None;
        for moment in 0..500 {
            let (leaders, followers) = harness.led();
            assert!(leaders.len() < 2 && !followers.is_empty(), "{moment}: {leaders:?} {followers:?}");
            if leaders == [number] && !followers.contains(&number) {
                followed_at.get_or_insert(moment);
                assert_eq!(followers.len(), 2, "the one before follows");
            }
            harness.pass(Duration::from_millis(1)).await;
        }
        assert!(followed_at.is_some_and(|moment| moment < 50), "{followed_at:?}");
    }
    assert_eq!(harness.sent("update", "endpointslices"), 8, "each change takes one write of each");
    assert_eq!(harness.gauge("leader_changes_total"), 8.0, "both Services have the Lease");
    assert!(harness.reasons().is_empty(), "{:?}", harness.reasons());
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn with_a_dead_leader_each_pod_follows_and_no_event_says_so() {
    let harness = both("a_1").await;
    harness.lead("a_1", 4).await;
    harness.pass(Duration::from_millis(12_900)).await;
    assert_eq!(harness.led(), (vec![1], vec![2, 3]));
    harness.server.clear_request_log();
    harness.pass(Duration::from_millis(200)).await;
    assert_eq!(harness.sent("get", "leases"), 2, "both Services ask once");
    assert_eq!(harness.led(), (vec![], vec![1, 2, 3]));
    assert_eq!(
        (harness.reasons(), harness.gauge("services_without_leader")),
        (vec!["NobodyLeads".into()], 1.0)
    );
    assert_eq!(harness.accepted(), "HolderRecognised");
    harness.lead("c_3", 2).await;
    assert_eq!(harness.led(), (vec![3], vec![1, 2]));
    assert_eq!(harness.reasons(), ["LeaderBack", "NobodyLeads"]);
    // It releases the Lease.
    harness.renew("", 1).await;
    harness.pass(Duration::from_millis(50)).await;
    assert_eq!(harness.led(), (vec![], vec![1, 2, 3]));
    // A stranger leads none of the pods, and the status says so.
    harness.lead("host-7", 4).await;
    assert_eq!(harness.led(), (vec![], vec![1, 2, 3]));
    assert_eq!(harness.accepted(), "HolderNotRecognised");
    harness.lead("a_1", 2).await;
    // A leader that is not ready is no follower, either.
    harness.set_ready("a", false).await;
    harness.lead("a_1", 2).await;
    assert_eq!(harness.led(), (vec![], vec![2, 3]));
}

#[tokio::test(start_paused = true)]
async fn a_restart_keeps_the_followers() {
    let harness = both("a_1").await;
    harness.lead("a_1", 4).await;
    harness.server.clear_request_log();
    let harness = harness.restart().await;
    assert_eq!(harness.led(), (vec![1], vec![2, 3]));
    harness.lead("a_1", 30).await;
    assert_eq!(harness.sent("update", "endpointslices"), 0, "nothing has changed for the new process");
    // Until the new process knows the leader, the last one is no follower, though no other is
    // ready.
    harness.set_ready("b", false).await;
    harness.set_ready("c", false).await;
    let harness = harness.restart().await;
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.led(), (vec![1], vec![]));
    // A pod that comes follows at once.
    harness.load([pod("d", 4, "stable", true)]);
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.led(), (vec![1], vec![4]));
    harness.delete_now("pods", "c").await;
    harness.lead("a_1", 2).await;
    assert_eq!(harness.led(), (vec![1], vec![4]));
    // The leader dies together with the process.
    let harness = harness.restart().await;
    assert_eq!(harness.led(), (vec![1], vec![4]));
    harness.pass(Duration::from_secs(16)).await;
    assert_eq!(harness.led(), (vec![], vec![1, 4]));
}

#[tokio::test(start_paused = true)]
async fn followers_are_taken_over_without_a_leader() {
    let pods = [("a", 1), ("b", 2)].map(|(name, number)| pod(name, number, "stable", true));
    let readiness = json!({"lease": {"name": "web", "role": "Follower"}});
    let harness = Harness::start(pods.into_iter().chain([service(), selector_with(readiness)])).await;
    harness.attach().await;
    harness.pass_with(20, &["10.1.0.1", "10.1.0.2"]).await;
    assert_eq!(harness.slices(), ["own: 1 2"]);
    assert_eq!(harness.reasons(), ["EndpointsTakenOver"]);
    // The leader comes, and goes while nobody can say which pods are chosen.
    harness.load([lease("a_1")]);
    harness.lead("a_1", 4).await;
    assert_eq!(harness.slices(), ["own: 1! 2"]);
    let path = "/apis/kube-endpoint-manager.github.io/v1alpha1/namespaces/default/endpointselectors/stable";
    harness.send("DELETE", path, "application/json", &json!({})).await;
    harness.pass(Duration::from_secs(20)).await;
    assert_eq!(harness.slices(), ["own: 1! 2"]);
}
