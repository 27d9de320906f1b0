//! Tests that `retire --convert` prints slices which the API server takes, and what to do with
//! them.

use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use serde_json::{Value, json};

use crate::server::{Shop, stderr, stdout};

/// Returns a Service without a selector, and Endpoints that a user wrote for it.
pub(crate) fn objects() -> Vec<Value> {
    vec![
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db", "namespace": "shop"},
            "spec": {"clusterIP": "10.96.0.9", "ports": [{"name": "sql", "port": 5432}]}}),
        json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {
            "name": "db", "namespace": "shop", "labels": {"team": "data"},
            "managedFields": [{"manager": "kubectl-create", "operation": "Update", "apiVersion": "v1",
                "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:subsets": {}}}]},
            "subsets": [{"addresses": [{"ip": "203.0.113.1"}], "notReadyAddresses": [{"ip": "203.0.113.2"}],
                "ports": [{"name": "sql", "port": 5432, "protocol": "TCP"}]}]}),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_is_yaml_or_json_and_nothing_is_written() {
    let shop = Shop::with(objects(), Vec::new()).await;
    let convert = ["retire", "--convert", "shop/db"];
    let output = shop.run_in("other", &convert).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    insta::assert_snapshot!(stdout(&output));
    insta::assert_snapshot!(stderr(&output));
    let yaml: Value = serde_saphyr::from_str(&stdout(&output)).unwrap();
    let output = shop.run(&["retire", "--convert", "db", "-o", "json"]).await;
    assert_eq!(serde_json::from_str::<Value>(&stdout(&output)).unwrap(), yaml);
    let output = shop.run(&["retire", "--convert=db", "--managed-by=data.example.com", "-o", "json"]).await;
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        json["items"][0]["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"],
        "data.example.com"
    );
    assert!(shop.server.request_log().iter().all(|logged| !logged.request.is_write()));
}

/// A second run prints the slices that the first one made, not others beside them.
#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_takes_the_slices_and_a_second_run_prints_the_same() {
    let shop = Shop::with(objects(), Vec::new()).await;
    let run = async || stdout(&shop.run(&["retire", "--convert", "db", "-o", "json"]).await);
    let first = run().await;
    let list: Value = serde_json::from_str(&first).unwrap();
    for slice in list["items"].as_array().unwrap() {
        shop.server.create(slice.clone()).await.unwrap();
    }
    assert_eq!(run().await, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_or_cannot_be_read_prints_no_slices() {
    let mut selecting = objects();
    selecting[0]["spec"]["selector"] = json!({"app": "db"});
    let forbid = |verb, plural| FaultRule::on(Fault::Refuse { status: 403, retry_after: None }, verb, plural);
    let mut all = Vec::new();
    for (objects, faults, arguments) in [
        (selecting, Vec::new(), &["--convert", "db"][..]),
        (objects(), Vec::new(), &["--convert", "web"]),
        (objects(), Vec::new(), &["--convert", "nowhere/web"]),
        (objects(), Vec::new(), &["--convert", "a/b/c"]),
        (objects(), Vec::new(), &["--convert", "db", "--managed-by", "a b"]),
        (objects(), Vec::new(), &["--convert", "db", "-o", "sarif"]),
        (objects(), vec![forbid("get", "endpoints")], &["--convert", "db"]),
        (objects(), vec![forbid("list", "endpointslices")], &["--convert", "db"]),
    ] {
        let shop = Shop::with(objects, faults).await;
        let output = shop.run(&[&["retire"], arguments].concat()).await;
        assert_eq!((output.status.code(), &*stdout(&output)), (Some(2), ""), "{arguments:?}");
        all.push(stderr(&output));
    }
    insta::assert_snapshot!(all.concat());
}
