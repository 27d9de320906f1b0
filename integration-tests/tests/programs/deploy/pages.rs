//! Tests that the metrics in `docs/run.md` exist, and that `docs/install.md` has each permission.

use std::fs::read_to_string;

use crate::deploy::manifests::{only, rendered, root};
use crate::deploy::replicas::REPLICAS;

pub(crate) fn read(page: &str) -> String {
    read_to_string(root().join(page)).unwrap()
}

pub(crate) fn every_metric_in_the_table_exists() {
    let page = read("docs/run.md");
    let table = page.split("\n## Metrics to watch\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let names: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(names.len() > 20, "{names:?}");
    let unknown: Vec<&&str> = names.iter().filter(|name| !REPLICAS.page.metrics.contains(**name)).collect();
    assert!(unknown.is_empty(), "there are no metrics {unknown:?}");
}

pub(crate) fn every_permission_is_listed() {
    let page = read("docs/install.md");
    let objects = rendered("deploy/base");
    for role in ["ClusterRole", "Role"] {
        for rule in only(&objects, role, "kube-endpoint-manager")["rules"].as_array().unwrap() {
            for resource in rule["resources"].as_array().unwrap() {
                let resource = format!("`{}`", resource.as_str().unwrap());
                let row = page.lines().find(|line| line.starts_with("| ") && line.contains(&resource));
                let row = row.unwrap_or_else(|| panic!("no row has {resource}"));
                for verb in rule["verbs"].as_array().unwrap() {
                    let has = page.lines().any(|line| {
                        line.starts_with("| ")
                            && line.contains(&resource)
                            && line.contains(&format!("`{}`", verb.as_str().unwrap()))
                    });
                    assert!(has, "{row} lacks {verb}");
                }
            }
        }
    }
}
