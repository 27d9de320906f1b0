use std::time::Duration;

use kube_endpoint_core_model::{EndpointSlice, Endpoints};

use super::*;

fn slice(name: &str, endpoints: &[(&str, bool)]) -> EndpointSlice {
    let json = serde_json::json!({
        "metadata": {
            "name": name, "namespace": "shop", "generateName": "web-", "uid": "1", "resourceVersion": "7",
            "labels": {"kubernetes.io/service-name": "web"},
        },
        "addressType": "IPv4",
        "endpoints": endpoints.iter().map(|(address, ready)| serde_json::json!({
            "addresses": [address], "conditions": {"ready": ready}, "nodeName": "node-1",
        })).collect::<Vec<_>>(),
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    });
    serde_json::from_value(json).unwrap()
}

fn web() -> ObjectKey {
    ObjectKey::new("shop", "web")
}

/// One sync that plans updates of these slices. Returns the time after which the owner is synced
/// again.
fn sync(dry_run: &DryRun, names: &[&str]) -> Option<u64> {
    dry_run.begin(&web());
    for name in names {
        let (before, after) = (slice(name, &[]), slice(name, &[("10.0.0.1", true)]));
        dry_run.record(&web(), Operation::Update, &after, Some(&before));
    }
    dry_run.end(&web(), true).map(|delay| delay.as_secs())
}

fn recorded() -> DryRun {
    DryRun::new("endpointslice-controller", "EndpointSlice")
}

#[tokio::test(start_paused = true)]
async fn a_difference_is_reported_after_thirty_seconds_until_it_is_gone() {
    let dry_run = recorded();
    assert_eq!(sync(&dry_run, &[]), None);
    assert_eq!(sync(&dry_run, &["a"]), Some(30));
    tokio::time::advance(Duration::from_secs(29)).await;
    assert_eq!((sync(&dry_run, &["a"]), dry_run.reported()), (Some(1), 0));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!((sync(&dry_run, &["a"]), dry_run.reported()), (Some(60), 1));
    assert_eq!((sync(&dry_run, &["a"]), dry_run.reported()), (Some(60), 1), "it is counted once");
    assert_eq!((sync(&dry_run, &[]), dry_run.reported()), (None, 0));
    assert!(dry_run.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_difference_that_comes_and_goes_is_not_reported() {
    let dry_run = recorded();
    for _ in 0..5 {
        assert_eq!(sync(&dry_run, &["a"]), Some(30));
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(sync(&dry_run, &[]), None);
        tokio::time::advance(Duration::from_secs(20)).await;
    }
    assert_eq!(dry_run.reported(), 0);
}

#[tokio::test(start_paused = true)]
async fn each_object_of_an_owner_has_its_own_time() {
    let dry_run = recorded();
    sync(&dry_run, &["a"]);
    tokio::time::advance(Duration::from_secs(20)).await;
    assert_eq!(sync(&dry_run, &["a", "b"]), Some(10));
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!((sync(&dry_run, &["a", "b"]), dry_run.reported()), (Some(20), 1));
    tokio::time::advance(Duration::from_secs(20)).await;
    assert_eq!((sync(&dry_run, &["b"]), dry_run.reported()), (Some(60), 1));
    dry_run.begin(&web());
    dry_run.end(&web(), false);
    assert_eq!(dry_run.reported(), 1, "a sync that failed says nothing about it");
}

#[tokio::test(start_paused = true)]
async fn objects_without_a_name_are_counted_one_by_one() {
    let dry_run = recorded();
    let sync = |creates: usize| {
        dry_run.begin(&web());
        for _ in 0..creates {
            dry_run.record(&web(), Operation::Create, &slice("", &[("10.0.0.1", true)]), None);
        }
        dry_run.end(&web(), true);
    };
    sync(2);
    tokio::time::advance(REPORT_AFTER).await;
    sync(3);
    assert_eq!(dry_run.reported(), 2);
    sync(1);
    assert_eq!(dry_run.reported(), 1);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_owners_cost_little() {
    let dry_run = recorded();
    let owner = |number: usize| ObjectKey::new("shop", format!("web-{number}"));
    for _ in 0..3 {
        for number in 0..10_000 {
            dry_run.begin(&owner(number));
            dry_run.record_delete::<Endpoints>(&owner(number), &owner(number));
            dry_run.end(&owner(number), true);
        }
        tokio::time::advance(REPORT_AFTER).await;
    }
    assert_eq!((dry_run.len(), dry_run.reported()), (10_000, 10_000));
    let kept = size_of::<ObjectKey>() + size_of::<Owner>() + size_of::<Write>() + size_of::<Difference>();
    assert!(kept < 256, "{kept} bytes for each");
    for number in 0..10_000 {
        dry_run.begin(&owner(number));
        assert_eq!(dry_run.end(&owner(number), true), None);
    }
    assert_eq!((dry_run.len(), dry_run.reported()), (0, 0));
}

#[test]
fn differences_are_printed_line_by_line() {
    let before = slice("web-abcde", &[("10.0.0.1", true), ("10.0.0.2", true), ("10.0.0.3", true)]);
    let mut after = slice("web-abcde", &[("10.0.0.4", true), ("10.0.0.3", false), ("10.0.0.1", true)]);
    after.metadata.labels =
        serde_json::from_value(serde_json::json!({"kubernetes.io/service-name": "web", "tier": "front"}))
            .unwrap();
    after.metadata.resource_version = kube_endpoint_core_model::ResourceVersion(8);
    let many: Vec<String> = (0..30).map(|number| format!("10.0.1.{number}")).collect();
    let many: Vec<(&str, bool)> = many.iter().map(|address| (&**address, true)).collect();
    let endpoints: Endpoints = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80, "protocol": "TCP"}]}],
    }))
    .unwrap();
    let mut unready = endpoints.clone();
    unready.subsets = serde_json::from_value(serde_json::json!([
        {"notReadyAddresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80, "protocol": "TCP"}]}
    ]))
    .unwrap();
    let printed = [
        ("update", diff::between(Some(&before), Some(&after))),
        ("create", diff::between(None, Some(&slice("", &[("10.0.0.1", true)])))),
        ("delete", diff::between(Some(&slice("web-abcde", &[("10.0.0.1", true)])), None)),
        ("create with many endpoints", diff::between(None, Some(&slice("", &many)))),
        ("update of Endpoints", diff::between(Some(&endpoints), Some(&unready))),
        ("nothing", diff::between(Some(&before), Some(&before))),
    ];
    let printed = printed.map(|(what, diff)| format!("# {what}\n{diff}\n"));
    insta::assert_snapshot!(printed.join("\n"));
}
