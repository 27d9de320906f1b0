//! Tests the everyday verbs through a `kube::Client`, in process under a paused clock.

use futures::StreamExt;
use k8s_openapi::api::core::v1::Service;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use serde_json::json;

fn service(name: &str) -> Service {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
    }))
    .unwrap()
}

fn started() -> (EmbeddedApiServer, Client) {
    let server = EmbeddedApiServer::builder().seed(1).build().unwrap();
    let client = Client::new(server.service(), "default");
    (server, client)
}

#[tokio::test]
async fn the_listener_serves_kube() {
    let (server, _) = started();
    let listener = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let url = format!("http://{}", listener.address()).parse().unwrap();
    let client = Client::try_from(kube::Config::new(url)).unwrap();
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    services.create(&PostParams::default(), &service("web")).await.unwrap();
    let version = "0";
    let mut events = services.watch(&WatchParams::default(), version).await.unwrap().boxed();
    assert!(matches!(events.next().await.unwrap().unwrap(), WatchEvent::Added(_)));
    assert_eq!(client.apiserver_version().await.unwrap().major, "1");
    listener.shutdown().await;
    assert!(events.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_writers_lose_no_update() {
    let (server, client) = started();
    let services: Api<Service> = Api::default_namespaced(client);
    services.create(&PostParams::default(), &service("web")).await.unwrap();
    let writers = (0..8).map(|writer| {
        let services = services.clone();
        tokio::spawn(async move {
            for round in 0..25 {
                let patch = json!({"metadata": {"annotations": {format!("w{writer}-{round}"): "x"}}});
                while let Err(error) =
                    services.patch("web", &PatchParams::default(), &Patch::Merge(&patch)).await
                {
                    assert!(matches!(&error, kube::Error::Api(status) if status.code == 409), "{error}");
                }
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let web = server.get("services", "default", "web").unwrap();
    assert_eq!(web["metadata"]["annotations"].as_object().unwrap().len(), 200);
    assert_eq!(server.resource_version(), 4 + 1 + 200);
}
