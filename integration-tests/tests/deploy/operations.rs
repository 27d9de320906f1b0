//! `docs/operations.md`: it explains every metric and every permission.

use std::collections::BTreeSet;
use std::fs::read_to_string;

use crate::manifests::{only, rendered, root};
use crate::metrics_page::METRICS_PAGE;

fn page() -> String {
    read_to_string(root().join("docs/operations.md")).unwrap()
}

/// The anchors that GitHub gives to the headings of the page.
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

#[test]
fn anchors_are_githubs() {
    assert_eq!(anchor("Take over, and go back"), "take-over-and-go-back");
    assert_eq!(anchor("`KubeX`: what?"), "kubex-what");
}

#[test]
fn links_within_the_page_lead_to_headings() {
    let (page, anchors) = (page(), anchors());
    let links = page.split("](#").skip(1).filter_map(|rest| rest.split(')').next());
    for link in links {
        assert!(anchors.contains(link), "no heading for #{link}");
    }
}

#[test]
fn every_metric_is_explained() {
    let page = page();
    let missing: Vec<&String> =
        METRICS_PAGE.metrics.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/operations.md does not explain {missing:?}");
}

#[test]
fn every_permission_is_listed() {
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
