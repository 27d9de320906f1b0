//! Tests of a manager where no Service is to have Endpoints.

use std::time::Duration;

use kube_endpoint_controllers::{ApiClient, Manager, RetirementRefused, Settings, check_retirement};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule};
use serde_json::{Value, json};
use tokio::time::sleep;

fn service(name: &str, selector: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": selector, "ports": [{"port": 80, "protocol": "TCP"}], "clusterIP": "None"},
    })
}

fn endpoints(name: &str, manager: Option<&str>) -> Value {
    let labels = manager.map(|_| json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"}));
    let manager = manager.unwrap_or("kubectl-create");
    json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": name, "labels": labels, "managedFields": [{
            "manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:subsets": {}},
        }]},
        "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80, "protocol": "TCP"}]}],
    })
}

/// Returns Endpoints that a user wrote with the label of the controller.
fn copied() -> Value {
    let mut copied = endpoints("copied", Some("kubectl-create"));
    copied["subsets"][0]["addresses"][0]["ip"] = "192.0.2.2".into();
    copied
}

fn server(minor: u32) -> EmbeddedApiServer {
    let objects = [
        service("web", json!({"app": "web"})),
        endpoints("web", Some("kube-controller-manager")),
        service("by-hand", Value::Null),
        endpoints("by-hand", None),
        service("copied", Value::Null),
        copied(),
    ];
    EmbeddedApiServer::builder().track_managers().minor_version(minor).load(objects).build().unwrap()
}

fn retired() -> Settings {
    let mut settings = Settings::default();
    settings.retirement.all = true;
    settings
}

#[tokio::test(start_paused = true)]
async fn endpoints_of_controllers_go_and_those_of_users_are_mirrored() {
    let server = server(37);
    let client = ApiClient::for_tests(server.service());
    let manager = Manager::new(client, &retired(), server.now(), 1).unwrap();
    let cluster = manager.cluster().clone();
    let (watched, watching) = (cluster.clone(), server.clone());
    let look = async move {
        sleep(Duration::from_secs(20)).await;
        let keys: Vec<String> = watched.endpoints_keys().iter().map(ToString::to_string).collect();
        assert_eq!(keys, ["default/by-hand", "default/copied"]);
        let by_hand = watching
            .list("endpointslices")
            .iter()
            .filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] != "web")
            .count();
        assert_eq!(by_hand, 2, "a copied label does not keep Endpoints from being mirrored");
    };
    manager.run(look).await.unwrap();
    assert!(server.get("endpoints", "default", "web").is_none());
    assert!(server.get("endpoints", "default", "by-hand").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_whole_cluster_is_refused_where_the_server_reads_endpoints() {
    let check = async |minor: u32, settings: &Settings, refused: bool| {
        let server = server(minor);
        let client = ApiClient::for_tests(server.service());
        let checked = check_retirement(&client, settings).await;
        assert_eq!(checked.is_err(), refused, "{minor} {checked:?}");
        checked.err().map(|error| error.to_string())
    };
    let error = check(36, &retired(), true).await;
    insta::assert_snapshot!(error.unwrap());
    check(37, &retired(), false).await;
    check(36, &Settings::default(), false).await;
    let mut accepted = retired();
    accepted.retirement.accepted = Some("nobody uses the proxy".into());
    check(36, &accepted, false).await;
    let mut elsewhere = retired();
    elsewhere.namespaces = vec!["other".into()];
    check(36, &elsewhere, false).await;
    elsewhere.namespaces.push("default".into());
    check(36, &elsewhere, true).await;
    // Before Kubernetes 1.33 there was no label.
    let mut unlabelled = endpoints("web", Some("kube-controller-manager"));
    unlabelled["metadata"]["labels"] = Value::Null;
    let objects = [service("web", json!({"app": "web"})), unlabelled];
    let old = EmbeddedApiServer::builder().minor_version(32).load(objects).build().unwrap();
    check_retirement(&ApiClient::for_tests(old.service()), &retired()).await.unwrap_err();
    // A server that starts later, and one that never answers or refuses to tell.
    let late = server(36);
    late.add_fault(FaultRule::new(Fault::LoseRequest, |_| true).times(5));
    let needed = check_retirement(&ApiClient::for_tests(late.service()), &retired()).await.unwrap_err();
    assert!(matches!(needed, RetirementRefused::Needed(_)), "{needed}");
    for fault in [Fault::LoseRequest, Fault::Refuse { status: 403, retry_after: None }] {
        let silent = server(37);
        silent.add_fault(FaultRule::new(fault, |_| true));
        let unknown =
            check_retirement(&ApiClient::for_tests(silent.service()), &retired()).await.unwrap_err();
        assert!(matches!(unknown, RetirementRefused::Unknown(_)), "{unknown}");
    }
    // Only Endpoints that stay are left: nothing can be lost.
    let rest =
        [service("by-hand", Value::Null), endpoints("by-hand", Some("kube-controller-manager")), copied()];
    let rest = EmbeddedApiServer::builder().load(rest).build().unwrap();
    check_retirement(&ApiClient::for_tests(rest.service()), &retired()).await.unwrap();
    let empty = EmbeddedApiServer::builder().build().unwrap();
    check_retirement(&ApiClient::for_tests(empty.service()), &retired()).await.unwrap();
}
