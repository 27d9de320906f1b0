//! Compares `shardSelector` with the answers of a kube-apiserver 1.36.2 whose feature gate
//! `ShardedListAndWatch` is on.

use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use serde_json::{Value, json};

use crate::protocol::common::*;

/// The namespaces. Three are in the second half: `cart`, `catalog` and `media`.
const NAMESPACES: [&str; 10] =
    ["auth", "billing", "cart", "catalog", "media", "orders", "search", "shop", "stock", "users"];

const ALL: &str = "/api/v1/services";

const FIRST: &str = "shardRange(object.metadata.namespace, '0x0000000000000000', '0x8000000000000000')";
const SECOND: &str = "shardRange(object.metadata.namespace, '0x8000000000000000', '0x10000000000000000')";

fn asking(path: &str, selector: &str) -> String {
    let separator = if path.contains('?') { '&' } else { '?' };
    format!("{path}{separator}shardSelector={}", selector.replace(' ', "%20"))
}

/// Returns a server with three Services in each namespace, and one in `default`.
async fn with_services() -> (EmbeddedApiServer, Raw) {
    let (server, raw) = start(EmbeddedApiServer::builder().seed(1).sharded_list_and_watch());
    for namespace in NAMESPACES {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        raw.post("/api/v1/namespaces", &object).await.expect(201);
        for name in ["api", "ext", "web"] {
            raw.post(&format!("/api/v1/namespaces/{namespace}/services"), &service(name)).await.expect(201);
        }
    }
    raw.post(SERVICES, &service("kubernetes")).await.expect(201);
    (server, raw)
}

/// Returns the namespaces of a list's items, each once.
fn namespaces(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    let mut namespaces: Vec<&str> =
        items.iter().map(|item| item["metadata"]["namespace"].as_str().unwrap()).collect();
    namespaces.dedup();
    namespaces
}

#[tokio::test(start_paused = true)]
async fn a_list_has_the_namespaces_of_the_shard_and_says_so() {
    let (_server, raw) = with_services().await;
    let first = raw.get(&asking(ALL, FIRST)).await.expect(200);
    assert_eq!(namespaces(&first), ["auth", "billing", "orders", "search", "shop", "stock", "users"]);
    assert_eq!(first["metadata"]["shardInfo"], json!({"selector": FIRST}));
    let second = raw.get(&asking(ALL, SECOND)).await.expect(200);
    assert_eq!(namespaces(&second), ["cart", "catalog", "default", "media"]);
    assert_eq!(second["metadata"]["shardInfo"], json!({"selector": SECOND}));
    let everything = raw.get(&format!("{ALL}?shardSelector=")).await.expect(200);
    assert_eq!(everything["items"].as_array().unwrap().len(), 31);
    assert!(everything["metadata"].get("shardInfo").is_none());
}

#[tokio::test(start_paused = true)]
async fn the_list_of_one_namespace_is_empty_in_other_shards() {
    let (_server, raw) = with_services().await;
    for (selector, want) in [(FIRST, 0), (SECOND, 3)] {
        let list = raw.get(&asking("/api/v1/namespaces/cart/services", selector)).await.expect(200);
        assert_eq!(list["items"].as_array().unwrap().len(), want, "{selector}");
        assert_eq!(list["metadata"]["shardInfo"], json!({"selector": selector}));
    }
}

#[tokio::test(start_paused = true)]
async fn the_remaining_items_of_a_page_include_those_of_other_shards() {
    let (_server, raw) = with_services().await;
    let mut path = format!("{ALL}?limit=3");
    let mut pages = Vec::new();
    loop {
        let page = raw.get(&asking(&path, FIRST)).await.expect(200);
        let remaining = page["metadata"]["remainingItemCount"].as_u64();
        pages.push((namespaces(&page).join(" "), remaining));
        let Some(token) = page["metadata"]["continue"].as_str() else { break };
        path = format!("{ALL}?limit=3&continue={token}");
    }
    let want = [
        ("auth", Some(28)),
        ("billing", Some(25)),
        ("orders", Some(22)),
        ("search", Some(9)),
        ("shop", Some(6)),
        ("stock", Some(3)),
        ("users", None),
    ];
    assert_eq!(pages, want.map(|(namespace, remaining)| (namespace.to_owned(), remaining)));
}

#[tokio::test(start_paused = true)]
async fn a_list_can_be_continued_with_another_selector() {
    let (_server, raw) = with_services().await;
    let page = raw.get(&asking(&format!("{ALL}?limit=3"), FIRST)).await.expect(200);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let other = raw.get(&asking(&format!("{ALL}?continue={token}"), SECOND)).await.expect(200);
    assert_eq!(namespaces(&other), ["cart", "catalog", "default", "media"]);
    let all = raw.get(&format!("{ALL}?continue={token}")).await.expect(200);
    assert_eq!(all["items"].as_array().unwrap().len(), 28);
    assert!(all["metadata"].get("shardInfo").is_none());
}

#[tokio::test(start_paused = true)]
async fn tables_and_lists_of_metadata_do_not_say_that_they_are_of_a_shard() {
    let (_server, raw) = with_services().await;
    for (form, items) in [("PartialObjectMetadataList", "items"), ("Table", "rows")] {
        let request = http::Request::get(asking(ALL, FIRST))
            .header("accept", format!("application/json;as={form};g=meta.k8s.io;v=v1"));
        let reply = raw.call(request.body(Default::default()).unwrap()).await.unwrap().expect(200);
        assert_eq!(reply["kind"], form);
        assert_eq!(reply[items].as_array().unwrap().len(), 21);
        assert!(reply["metadata"].get("shardInfo").is_none(), "{}", reply["metadata"]);
    }
}

#[tokio::test(start_paused = true)]
async fn objects_without_a_namespace_are_in_the_shard_of_an_empty_name() {
    let (_server, raw) = with_services().await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}});
    raw.post("/api/v1/nodes", &node).await.expect(201);
    for (selector, want) in [(FIRST, 0), (SECOND, 1)] {
        let list = raw.get(&asking("/api/v1/nodes", selector)).await.expect(200);
        assert_eq!(list["items"].as_array().unwrap().len(), want, "{selector}");
        assert_eq!(list["metadata"]["shardInfo"], json!({"selector": selector}));
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_sends_the_changes_of_its_shard() {
    let (server, raw) = with_services().await;
    let start = server.resource_version();
    let mut events = raw.watch(&asking(&format!("{ALL}?watch=true&resourceVersion={start}"), FIRST)).await;
    let labels = json!({"metadata": {"labels": {"x": "y"}}});
    for namespace in ["cart", "shop", "media", "users"] {
        raw.merge(&format!("/api/v1/namespaces/{namespace}/services/web"), &labels).await.expect(200);
    }
    let version = |more: u64| start + more;
    let want = [format!("MODIFIED web@{}", version(2)), format!("MODIFIED web@{}", version(4))];
    assert_eq!(events.take(2).await, want);
    assert!(events.is_idle());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_begins_with_the_state_has_the_shard_and_no_shard_info() {
    let (_server, raw) = with_services().await;
    let query =
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut events = raw.watch(&asking(&format!("{ALL}?{query}"), FIRST)).await;
    let initial = events.take(21).await;
    assert!(initial.iter().all(|event| event.starts_with("ADDED")), "{initial:?}");
    let end = events.take(1).await;
    assert!(end[0].starts_with("BOOKMARK"), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_in_the_shard_only() {
    let (_server, raw) = with_services().await;
    for (namespace, left) in [("cart", 3), ("shop", 0)] {
        let path = format!("/api/v1/namespaces/{namespace}/services");
        let deleted = raw.delete(&asking(&path, FIRST), &json!({})).await.expect(200);
        assert_eq!(deleted["metadata"]["shardInfo"], json!({"selector": FIRST}));
        assert_eq!(deleted["items"].as_array().unwrap().len(), 3 - left, "{namespace}");
        let rest = raw.get(&path).await.expect(200);
        assert_eq!(rest["items"].as_array().unwrap().len(), left, "{namespace}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_selector_is_an_internal_error_without_a_reason() {
    let (_server, raw) = with_services().await;
    let want =
        "invalid shard selector: unexpected expression kind 3; expected shardRange() call or || operator";
    for path in [ALL.to_owned(), format!("{ALL}?watch=true")] {
        assert_eq!(raw.get(&asking(&path, "nonsense")).await.refused(500, ""), want, "{path}");
    }
}
