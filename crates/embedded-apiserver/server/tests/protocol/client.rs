//! Tests the everyday verbs through a `kube::Client`, in process under a paused clock.

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use serde_json::json;

fn service(name: &str) -> Service {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
    }))
    .unwrap()
}

fn pod(name: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry.k8s.io/pause"}]},
    }))
    .unwrap()
}

fn started() -> (EmbeddedApiServer, Client) {
    let server = EmbeddedApiServer::builder().seed(1).build().unwrap();
    let client = Client::new(server.service(), "default");
    (server, client)
}

#[tokio::test(start_paused = true)]
async fn objects_are_created_read_changed_and_deleted() {
    let (server, client) = started();
    let services: Api<Service> = Api::default_namespaced(client);
    let created = services.create(&PostParams::default(), &service("web")).await.unwrap();
    assert!(created.metadata.uid.is_some());
    assert!(created.spec.as_ref().unwrap().cluster_ip.is_some());
    let error = services.create(&PostParams::default(), &service("web")).await.unwrap_err();
    assert!(
        matches!(error, kube::Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists")
    );

    let patch = json!({"metadata": {"labels": {"tier": "front"}}});
    let patched = services.patch("web", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(patched.metadata.labels.as_ref().unwrap().len(), 2);
    let again = services.patch("web", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(again.metadata.resource_version, patched.metadata.resource_version);

    let error = services.replace("web", &PostParams::default(), &created).await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.code == 409 && status.reason == "Conflict"));
    services.replace("web", &PostParams::default(), &patched).await.unwrap();

    assert_eq!(services.list(&ListParams::default()).await.unwrap().items.len(), 1);
    services.delete("web", &DeleteParams::default()).await.unwrap();
    assert!(services.get_opt("web").await.unwrap().is_none());
    assert_eq!(server.count("services"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_shows_every_change() {
    let (_server, client) = started();
    let pods: Api<Pod> = Api::default_namespaced(client);
    let version = pods.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut events = pods.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    pods.create(&PostParams::default(), &pod("a")).await.unwrap();
    let status = json!({"status": {"phase": "Running", "podIP": "10.0.0.1"}});
    pods.patch_status("a", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    pods.delete("a", &DeleteParams::default().grace_period(0)).await.unwrap();
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(match events.next().await.unwrap().unwrap() {
            WatchEvent::Added(_) => "added",
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => "deleted",
            other => panic!("{other:?}"),
        });
    }
    // The server marks and removes a pod without a grace period in two steps.
    assert_eq!(seen, ["added", "modified", "modified", "deleted"]);
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
