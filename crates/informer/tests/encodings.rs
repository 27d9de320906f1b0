//! The views of random objects are the same in protobuf and in JSON. The embedded server encodes
//! them from a table of its own.

use std::time::Duration;

use kube_endpoint_api_client::{ApiClient, ContentType};
use kube_endpoint_core_model::{EndpointSelector, EndpointSlice, Endpoints, Node, ObjectKey, Pod, Service};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule};
use kube_endpoint_informer::{Cluster, Kind, ReflectorOptions, run};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::arbitrary_objects::object;

/// Lists and watches all kinds of a server in one encoding.
fn watch_all(server: &EmbeddedApiServer, content_type: ContentType) -> Cluster {
    let cluster = Cluster::new(Kind::ALL);
    let client = ApiClient::for_tests(server.service()).with_content_type(content_type);
    let options = ReflectorOptions::new(0).page_size(2).streaming_list(false);
    macro_rules! watch {
        ($($view:ty),*) => {
            $(tokio::spawn(run::<$view>(client.clone(), cluster.clone(), options, std::future::pending()));)*
        };
    }
    watch!(Pod, Service, Node, EndpointSlice, Endpoints, EndpointSelector);
    cluster
}

/// Returns everything that a cluster holds.
fn content(cluster: &Cluster, keys: &[ObjectKey]) -> String {
    let of = |key: &ObjectKey| {
        format!(
            "{:#?} {:#?} {:#?} {:#?} {:#?}\n",
            cluster.pod(key),
            cluster.service(key),
            cluster.node(&key.name),
            cluster.endpoint_slice(key),
            cluster.endpoints(key)
        )
    };
    keys.iter().map(of).collect()
}

/// Names objects by their position; nodes have no namespace.
fn named(objects: Vec<Value>) -> (Vec<Value>, Vec<ObjectKey>) {
    let name = |(at, mut object): (usize, Value)| {
        let (namespace, name) = (if object["kind"] == "Node" { "" } else { "n" }, format!("o{at}"));
        object["metadata"]["name"] = name.as_str().into();
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = namespace.into();
        }
        (object, ObjectKey::new(namespace, name))
    };
    objects.into_iter().enumerate().map(name).unzip()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn views_are_the_same_in_both_encodings(listed in prop::collection::vec(object(), 0..12), watched in prop::collection::vec(object(), 0..12)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let server = EmbeddedApiServer::builder().build().unwrap();
            let listed_count = listed.len();
            let (mut objects, keys) = named([listed, watched].concat());
            let watched = objects.split_off(listed_count);
            server.load(objects).unwrap();
            let [protobuf, json] = ContentType::ALL.map(|content_type| watch_all(&server, content_type));
            protobuf.synced().await;
            json.synced().await;
            server.load(watched).unwrap();
            tokio::time::sleep(Duration::from_secs(5)).await;
            let held: usize = Kind::ALL.iter().map(|kind| protobuf.count(*kind)).sum();
            assert_eq!(held, keys.len());
            assert_eq!(content(&protobuf, &keys), content(&json, &keys));
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_protobuf_is_asked_for_json() {
    for code in [406, 415] {
        let server = EmbeddedApiServer::builder().build().unwrap();
        let (pods, keys) = named(vec![
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        ]);
        server.load(pods).unwrap();
        server.add_fault(
            FaultRule::on(Fault::Refuse { status: code, retry_after: None }, "watch", "pods").times(1),
        );
        let client = ApiClient::for_tests(server.service());
        let cluster = Cluster::new([Kind::Pods]);
        tokio::spawn(run::<Pod>(
            client.clone(),
            cluster.clone(),
            ReflectorOptions::new(0),
            std::future::pending(),
        ));
        cluster.synced().await;
        assert!(cluster.pod(&keys[0]).is_some());
        // The reflector asked once more, at once.
        assert_eq!(server.request_log().iter().filter(|logged| logged.request.verb == "watch").count(), 2);
        assert_eq!(client.content_type_of("pods"), ContentType::Json);
        assert_eq!(client.content_type_of("services"), ContentType::Protobuf);
    }
}
