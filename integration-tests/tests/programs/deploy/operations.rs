//! Tests that the metrics in `docs/operations.md` exist, and that the page lists every permission.

use std::collections::BTreeSet;
use std::fs::read_to_string;

use crate::deploy::manifests::{only, rendered, root};
use crate::deploy::replicas::REPLICAS;

fn page() -> String {
    read_to_string(root().join("docs/operations.md")).unwrap()
}

/// Returns the anchors that GitHub gives to the headings of the page.
pub(crate) fn anchors() -> BTreeSet<String> {
    let page = page();
    let outside_code = page.split("```").step_by(2);
    let headings = outside_code.flat_map(str::lines).filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

pub(crate) fn anchors_are_githubs() {
    assert_eq!(anchor("Take over, and go back"), "take-over-and-go-back");
    assert_eq!(anchor("`KubeX`: what?"), "kubex-what");
}

pub(crate) fn links_within_the_page_lead_to_headings() {
    let (page, anchors) = (page(), anchors());
    let links = page.split("](#").skip(1).filter_map(|rest| rest.split(')').next());
    for link in links {
        assert!(anchors.contains(link), "no heading for #{link}");
    }
}

pub(crate) fn every_metric_in_the_table_exists() {
    let page = page();
    let table = page.split("\n## Metrics\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let names: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(names.len() > 30, "{names:?}");
    let unknown: Vec<&&str> = names.iter().filter(|name| !REPLICAS.page.metrics.contains(**name)).collect();
    assert!(unknown.is_empty(), "there are no metrics {unknown:?}");
}

pub(crate) fn every_permission_is_listed() {
    let page = page();
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
