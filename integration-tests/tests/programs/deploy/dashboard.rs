//! Tests the Grafana dashboard: its queries name existing metrics, and its panels do not overlap.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::deploy::manifests::{only, rendered};
use crate::deploy::queries::{check, referenced};
use crate::deploy::replicas::REPLICAS;

/// Returns the panels of the dashboard in the rendered ConfigMap.
fn panels() -> Vec<Value> {
    let objects = rendered("deploy/overlays/monitored");
    let map = only(&objects, "ConfigMap", "kube-endpoint-manager-dashboard");
    let dashboard: Value =
        serde_json::from_str(map["data"]["kube-endpoint-manager.json"].as_str().unwrap()).unwrap();
    assert_eq!(dashboard["uid"], "kube-endpoint-manager");
    assert_eq!(dashboard["templating"]["list"][0]["name"], "datasource");
    dashboard["panels"].as_array().unwrap().clone()
}

pub(crate) fn every_query_names_metrics_that_exist() {
    let mut queries = 0;
    for panel in panels().iter().filter(|panel| panel["type"] != "row") {
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{}", panel["title"]);
        for target in targets {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
            let query = target["expr"].as_str().unwrap().replace("$__rate_interval", "5m");
            let labels = check(&query, &REPLICAS.page);
            let labels = labels.unwrap_or_else(|error| panic!("{}: {error}", panel["title"]));
            for name in referenced(target["legendFormat"].as_str().unwrap()) {
                assert!(labels.contains(&name), "{} has no label {name}", panel["title"]);
            }
            queries += 1;
        }
    }
    assert!(queries > 20, "{queries}");
}

pub(crate) fn panels_have_their_own_ids_and_places() {
    let panels = panels();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    let mut taken = BTreeSet::new();
    for panel in &panels {
        let at = |field: &str| panel["gridPos"][field].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{}", panel["title"]);
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(taken.insert((x, y)), "{} overlaps another panel", panel["title"]);
            }
        }
    }
}
