//! Tests of the deletion of all Endpoints that controllers made.

use std::time::Duration;

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule};
use kube_endpoint_endpoints_controller::RetireAll;
use kube_endpoint_endpoints_controller::controller::EVENT_COMPONENT;
use kube_endpoint_informer::{Cluster, ClusterOptions, Kind, WatchedNamespaces};
use kube_endpoint_testing::{Environment, Simulation, USER_AGENT, server_builder};
use serde_json::{Value, json};

use crate::controller::harness::{endpoints, labelled, service, written_by};
use crate::simulated;

const SECOND: Duration = Duration::from_secs(1);

fn named(name: &str, manager: &str) -> Value {
    labelled(endpoints(name, "192.0.2.1"), manager)
}

fn server(minor: u32, objects: impl IntoIterator<Item = Value>) -> EmbeddedApiServer {
    server_builder().track_managers().minor_version(minor).load(objects).build().unwrap()
}

fn start(
    server: &EmbeddedApiServer,
    is_accepted: bool,
    watched_namespaces: WatchedNamespaces,
    service_selector: Option<&str>,
) -> Simulation<RetireAll> {
    let selector = service_selector.map(|text| text.parse().unwrap());
    Simulation::begin(server, [], |environment: &mut Environment| {
        let client = ApiClient::for_tests(environment.service());
        let options = ClusterOptions { watched_namespaces, ..ClusterOptions::default() };
        let cluster = Cluster::with_options([Kind::Services, Kind::Endpoints], options);
        let context = simulated::context(environment, &client, cluster.clone(), EVENT_COMPONENT);
        let all = RetireAll::new(context, is_accepted, selector);
        // Mirroring watches Endpoints.
        simulated::watch(environment, &client, &cluster, [Kind::Services, Kind::Endpoints]);
        environment.run(all.clone().run());
        all
    })
}

fn names(server: &EmbeddedApiServer) -> Vec<String> {
    let name = |it: &Value| it["metadata"]["name"].as_str().unwrap().to_owned();
    let mut names: Vec<String> = server.list("endpoints").iter().map(name).collect();
    names.sort();
    names
}

fn lists(server: &EmbeddedApiServer) -> usize {
    let is_list = |verb: &str, path: &str| verb == "list" && path.contains("/endpoints");
    server.request_log().iter().filter(|it| is_list(it.request.verb, &it.request.path)).count()
}

fn gauge(simulation: &Simulation<RetireAll>, name: &str) -> Option<f64> {
    simulation.metrics().value(&format!("endpoints_controller_retired_services{name}"), &[])
}

#[tokio::test(start_paused = true)]
async fn what_controllers_made_goes_and_everything_else_stays() {
    let mut lock = named("lock", USER_AGENT);
    lock["metadata"]["annotations"] = json!({"control-plane.alpha.kubernetes.io/leader": "{}"});
    let mut published = service("published");
    published["metadata"]["annotations"] = json!({"kube-endpoint-manager.github.io/endpoints": "published"});
    let mut plain = service("plain");
    plain["spec"]["selector"] = Value::Null;
    let server = server(
        37,
        [
            service("ours"),
            named("ours", USER_AGENT),
            service("theirs"),
            named("theirs", "kube-controller-manager"),
            // Before Kubernetes 1.33 there was no label.
            service("old"),
            written_by(endpoints("old", "192.0.2.1"), "kube-controller-manager"),
            named("leftover", "kube-controller-manager"),
            published,
            named("published", USER_AGENT),
            plain,
            named("plain", "kube-controller-manager"),
            service("by-user"),
            named("by-user", "kubectl-create"),
            service("lock"),
            lock,
            named("kubernetes", "kube-apiserver"),
        ],
    );
    let simulation = start(&server, false, WatchedNamespaces::default(), None);
    simulation.pass(SECOND * 90).await;
    assert_eq!(lists(&server), 1);
    assert_eq!(names(&server), ["by-user", "kubernetes", "lock", "plain"]);
    assert_eq!(simulation.writes(), ["delete endpoints 200"; 5]);
    insta::assert_snapshot!(simulation.events(EVENT_COMPONENT).join("\n"));
    assert_eq!(gauge(&simulation, ""), Some(6.0));
    // That of the user, and the lock.
    assert_eq!(gauge(&simulation, "_with_endpoints"), Some(2.0));
}

#[tokio::test(start_paused = true)]
async fn a_large_cluster_is_listed_in_pages() {
    let objects = (0..1100).flat_map(|number| {
        let name = format!("web-{number}");
        [service(&name), named(&name, USER_AGENT)]
    });
    let server = server(37, objects);
    let simulation = start(&server, false, WatchedNamespaces::default(), None);
    simulation.pass(SECOND * 10).await;
    assert_eq!(server.count("endpoints"), 0);
    let lists = lists(&server);
    assert_eq!(lists, 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_needs_endpoints_keeps_them_until_somebody_accepts_that() {
    let server = server(36, [service("web"), named("web", USER_AGENT)]);
    let simulation = start(&server, false, WatchedNamespaces::default(), None);
    simulation.pass(SECOND * 600).await;
    assert_eq!(simulation.writes(), [""; 0]);
    assert_eq!(gauge(&simulation, "_with_endpoints"), Some(1.0));
    let server = simulation.crash().await;
    let simulation = start(&server, true, WatchedNamespaces::default(), None);
    simulation.pass(SECOND * 10).await;
    assert_eq!(server.count("endpoints"), 0);
}

#[tokio::test(start_paused = true)]
async fn only_the_own_part_of_a_cluster_is_retired() {
    let objects = || {
        let mut labelled_service = service("blue");
        labelled_service["metadata"]["labels"] = json!({"team": "blue"});
        let other = |mut object: Value| {
            object["metadata"]["namespace"] = "other".into();
            object
        };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
        [
            namespace,
            labelled_service,
            named("blue", USER_AGENT),
            service("red"),
            named("red", USER_AGENT),
            other(service("far")),
            other(named("far", USER_AGENT)),
        ]
    };
    let check = async |namespaces: WatchedNamespaces, selector: Option<&str>, left: &[&str]| {
        let server = server(37, objects());
        let simulation = start(&server, false, namespaces, selector);
        simulation.pass(SECOND * 10).await;
        assert_eq!(names(&server), left);
    };
    check(WatchedNamespaces::named(["other"]), None, &["blue", "red"]).await;
    check(WatchedNamespaces::default(), Some("team=blue"), &["far", "red"]).await;
    check(WatchedNamespaces::default(), None, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn faults_are_survived() {
    for (fault, verb, plural) in [
        (Fault::Refuse { status: 410, retry_after: None }, "list", "endpoints"),
        (Fault::Refuse { status: 500, retry_after: None }, "list", "endpoints"),
        (Fault::LoseRequest, "list", "endpoints"),
        (Fault::Refuse { status: 403, retry_after: None }, "get", "services"),
        (Fault::Refuse { status: 409, retry_after: None }, "delete", "endpoints"),
        (Fault::Refuse { status: 429, retry_after: Some(3) }, "delete", "endpoints"),
        (Fault::Refuse { status: 403, retry_after: None }, "delete", "endpoints"),
        (Fault::ApplyAndLoseAnswer, "delete", "endpoints"),
        (Fault::LoseRequest, "delete", "endpoints"),
    ] {
        let server =
            server(37, ["a", "b", "c"].into_iter().flat_map(|name| [service(name), named(name, USER_AGENT)]));
        let case = format!("{fault:?} {verb}");
        let rule = FaultRule::on(fault, verb, plural).times(2);
        server.add_fault(rule);
        let simulation = start(&server, false, WatchedNamespaces::default(), None);
        simulation.pass(SECOND * 300).await;
        assert_eq!(server.count("endpoints"), 0, "{case}");
        simulation.pass(SECOND * 60).await;
        assert_eq!(gauge(&simulation, "_with_endpoints"), Some(0.0), "{case}");
        let lists = lists(&server);
        assert!(lists > 1, "{case}: the fault happened");
    }
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_it_is_told_to() {
    let server = server(37, [service("web"), named("web", USER_AGENT)]);
    let mut simulation = start(&server, false, WatchedNamespaces::default(), None);
    simulation.pass(SECOND).await;
    simulation.controller.shut_down();
    simulation.stopped().await;
}

/// Another endpoints controller runs, and changes its objects all the time.
#[tokio::test(start_paused = true)]
async fn endpoints_that_come_back_stay_and_are_reported_once() {
    let server =
        server(37, [service("web"), named("web", USER_AGENT), service("other"), named("other", USER_AGENT)]);
    // The first delete of one of them fails, so that a second list follows.
    let conflict = Fault::Refuse { status: 409, retry_after: None };
    server
        .add_fault(FaultRule::new(conflict, |it| it.verb == "delete" && it.path.ends_with("/web")).times(1));
    let simulation = start(&server, false, WatchedNamespaces::default(), None);
    simulation.pass(SECOND).await;
    assert_eq!(names(&server), ["web"]);
    simulation.load([named("other", "kube-controller-manager")]);
    simulation.pass(SECOND * 600).await;
    assert_eq!(names(&server), ["other"]);
    assert_eq!(simulation.writes(), ["delete endpoints 200", "delete endpoints 409", "delete endpoints 200"]);
    assert_eq!(gauge(&simulation, "_with_endpoints"), Some(1.0));
    let came_back = simulation.events(EVENT_COMPONENT);
    assert!(came_back.len() == 1 && came_back[0].contains("EndpointsCameBack"), "{came_back:?}");
}

#[tokio::test(start_paused = true)]
async fn annotations_that_mean_something_else_are_reported_also_later() {
    let server = server(37, [service("web")]);
    let simulation = start(&server, false, WatchedNamespaces::default(), None);
    simulation.pass(SECOND * 10).await;
    let annotation = |value: &str| json!({"metadata": {"annotations": {"kube-endpoint-manager.github.io/endpoints": value}}});
    for value in ["published", "rubbish", "retired"] {
        simulation.patch("services", "web", annotation(value)).await;
        simulation.pass(SECOND * 200).await;
    }
    insta::assert_snapshot!(simulation.events(EVENT_COMPONENT).join("\n"));
}
