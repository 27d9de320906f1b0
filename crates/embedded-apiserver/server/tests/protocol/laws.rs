//! Tests properties of arbitrary writes: replaying a watch gives the list, and clients can read old
//! states again.

use std::collections::BTreeMap;

use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::protocol::common::*;

#[derive(Clone, Debug)]
enum Write {
    Create(u8),
    Label(u8, u8),
    Delete(u8),
}

fn writes() -> impl Strategy<Value = Vec<Write>> {
    let write = prop_oneof![
        (0..6u8).prop_map(Write::Create),
        (0..6u8, 0..3u8).prop_map(|(name, label)| Write::Label(name, label)),
        (0..6u8).prop_map(Write::Delete),
    ];
    proptest::collection::vec(write, 1..40)
}

async fn apply(raw: &Raw, write: &Write) {
    match write {
        Write::Create(name) => raw.post(SERVICES, &service(&format!("s{name}"))).await,
        Write::Label(name, label) => {
            let patch = json!({"metadata": {"labels": {"l": label.to_string()}}});
            raw.merge(&format!("{SERVICES}/s{name}"), &patch).await
        }
        Write::Delete(name) => raw.delete(&format!("{SERVICES}/s{name}"), &Value::Null).await,
    };
}

/// Applies a watch event to a copy of the list.
fn replay(state: &mut BTreeMap<String, Value>, event: &Value) {
    let object = event["object"].clone();
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    match event["type"].as_str().unwrap() {
        "ADDED" => assert!(state.insert(name, object).is_none(), "added twice"),
        "MODIFIED" => assert!(state.insert(name, object).is_some(), "modified before it was added"),
        "DELETED" => assert!(state.remove(&name).is_some(), "deleted before it was added"),
        other => panic!("{other}"),
    }
}

fn state(list: &Value) -> BTreeMap<String, Value> {
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| {
            let mut object = item.clone();
            object["kind"] = "Service".into();
            object["apiVersion"] = "v1".into();
            (item["metadata"]["name"].as_str().unwrap().to_owned(), object)
        })
        .collect()
}

async fn check(writes: Vec<Write>, selector: &str) {
    let (server, raw) = start(EmbeddedApiServer::builder());
    let start = server.resource_version();
    let query = if selector.is_empty() { String::new() } else { format!("&labelSelector={selector}") };
    let uri = format!("{SERVICES}?watch=1&timeoutSeconds=1&resourceVersion={start}{query}");
    let watch = raw.watch(&uri).await;
    let mut states = Vec::new();
    for write in &writes {
        apply(&raw, write).await;
        let list = raw.get(&format!("{SERVICES}?x=y{query}")).await.expect(200);
        states.push((version_of(&list), state(&list)));
    }
    let mut replayed = BTreeMap::new();
    let mut watch = watch;
    while let Some(event) = watch.next().await {
        replay(&mut replayed, &event);
    }
    assert_eq!(replayed, states.last().unwrap().1);
    for (version, expected) in states {
        let uri = format!("{SERVICES}?resourceVersion={version}&resourceVersionMatch=Exact{query}");
        assert_eq!(state(&raw.get(&uri).await.expect(200)), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn a_watch_replays_to_the_list_and_old_states_stay_readable(writes in writes(), selected in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(check(writes, if selected { "l=1" } else { "" }));
    }
}
