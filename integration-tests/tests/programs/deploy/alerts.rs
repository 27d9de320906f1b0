//! Tests the alert rules: their expressions name existing metrics, each has a section in
//! docs/runbook.md, and no alert fires while all is well.

use std::collections::BTreeSet;

use kube_endpoint_integration_tests::markdown::anchors;
use serde_json::Value;

use crate::deploy::evaluate::Series;
use crate::deploy::manifests::{only, rendered};
use crate::deploy::pages;
use crate::deploy::queries::{check, referenced};
use crate::deploy::replicas::REPLICAS;

/// The page that has a section for each alert.
const RUNBOOK: &str =
    "https://github.com/kube-endpoint-manager/kube-endpoint-manager/blob/main/docs/runbook.md#";

/// Returns the alerting rules of all groups.
fn alerts() -> Vec<Value> {
    let objects = rendered("deploy/overlays/monitored");
    let groups = only(&objects, "PrometheusRule", "")["spec"]["groups"].as_array().unwrap().clone();
    let names: BTreeSet<&str> = groups.iter().map(|group| group["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), groups.len(), "two groups have one name");
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

/// Returns true if Prometheus accepts a duration such as `5m`.
fn is_duration(text: &str) -> bool {
    let digits = text.trim_end_matches(['s', 'm', 'h']);
    text.len() == digits.len() + 1 && digits.parse::<u32>().is_ok()
}

pub(crate) fn every_expression_names_metrics_that_exist() {
    let alerts = alerts();
    assert!(alerts.len() > 10);
    for alert in &alerts {
        let labels = check(alert["expr"].as_str().unwrap(), &REPLICAS.page);
        let labels = labels.unwrap_or_else(|error| panic!("{}: {error}", alert["alert"]));
        for text in ["summary", "description"] {
            for name in referenced(alert["annotations"][text].as_str().unwrap()) {
                assert!(labels.contains(&name), "{} has no label {name}", alert["alert"]);
            }
        }
    }
}

pub(crate) fn every_alert_has_a_severity_and_texts_and_nothing_unknown() {
    let mut names = BTreeSet::new();
    for alert in alerts() {
        let name = alert["alert"].as_str().unwrap();
        assert!(names.insert(name.to_owned()), "two alerts have the name {name}");
        assert!(name.starts_with("KubeEndpointManager"), "{name}");
        let keys: BTreeSet<&str> = alert.as_object().unwrap().keys().map(String::as_str).collect();
        let known = BTreeSet::from(["alert", "annotations", "expr", "for", "labels"]);
        assert!(keys.is_subset(&known), "{name}: {keys:?}");
        assert!(alert["for"].is_null() || is_duration(alert["for"].as_str().unwrap()), "{name}");
        assert!(["critical", "warning"].contains(&alert["labels"]["severity"].as_str().unwrap()), "{name}");
        let annotations: Vec<&String> = alert["annotations"].as_object().unwrap().keys().collect();
        assert_eq!(annotations, ["description", "runbook_url", "summary"], "{name}");
    }
}

pub(crate) fn every_alert_has_a_section_that_says_what_to_do() {
    let anchors = anchors(&pages::read("docs/runbook.md"));
    for alert in alerts() {
        let url = alert["annotations"]["runbook_url"].as_str().unwrap();
        let anchor = url.strip_prefix(RUNBOOK).unwrap_or_else(|| panic!("{url}"));
        assert_eq!(anchor, alert["alert"].as_str().unwrap().to_lowercase());
        assert!(anchors.contains(anchor), "docs/runbook.md has no section {anchor}");
    }
}

/// Returns the alerts that fire when two replicas show this page.
fn firing(page: &str) -> Vec<String> {
    let series = Series::default().scraped("10.0.0.1:10270", page).scraped("10.0.0.2:10270", page);
    let alerts = alerts();
    let fire = alerts.iter().filter(|alert| !series.evaluate(alert["expr"].as_str().unwrap()).is_empty());
    fire.map(|alert| alert["alert"].as_str().unwrap().to_owned()).collect()
}

/// This is a trial: kube-controller-manager has reserved the lease, and the replicas stand by.
pub(crate) fn no_alert_fires_behind_a_reserved_lease() {
    let page = &REPLICAS.behind_reserved_lease;
    assert!(page.contains(r#"leader_election_master_status{name="kube-endpoint-manager"} 0"#), "{page}");
    assert_eq!(firing(page), [""; 0]);
}

pub(crate) fn no_leader_fires_when_nobody_holds_the_lease_or_it_cannot_be_read() {
    assert_eq!(firing(&REPLICAS.without_lease), ["KubeEndpointManagerNoLeader"]);
    // One replica that knows the holder is enough.
    let expression = |alert: &Value| alert["expr"].as_str().unwrap().to_owned();
    let alerts = alerts();
    let no_leader = alerts.iter().find(|alert| alert["alert"] == "KubeEndpointManagerNoLeader").unwrap();
    let check = |pages: &[&str], want: bool| {
        let series = pages
            .iter()
            .enumerate()
            .fold(Series::default(), |series, (at, page)| series.scraped(&at.to_string(), page));
        assert_eq!(!series.evaluate(&expression(no_leader)).is_empty(), want);
    };
    let (reserved, without) = (&*REPLICAS.behind_reserved_lease, &*REPLICAS.without_lease);
    check(&[without, without], true);
    check(&[without, reserved], false);
    check(&[], false);
}

pub(crate) fn no_alert_but_that_of_two_leaders_fires_when_one_leads() {
    // Both replicas show the page of the one that leads here.
    assert_eq!(firing(&REPLICAS.leading), ["KubeEndpointManagerSeveralLeaders"]);
    let series = r#"informer_unreadable_namespaces{kind="services"}"#;
    let page = REPLICAS.leading.replace(&format!("{series} 0"), &format!("{series} 1"));
    assert!(page.contains(&format!("{series} 1")), "{page}");
    assert_eq!(
        firing(&page),
        ["KubeEndpointManagerSeveralLeaders", "KubeEndpointManagerNamespaceUnreadable"]
    );
}

/// The counts of hand-overs and selectors fire, and nothing else does while the add-on leads.
pub(crate) fn those_of_endpoint_selectors_fire() {
    // The process had replicas with another lease before.
    let lines = REPLICAS.addon.leading.lines().filter(|it| !it.contains(r#"name="kube-endpoint-manager"}"#));
    let page: String = lines.map(|line| format!("{line}\n")).collect();
    assert!(page.contains(r#"leader_election_lease_held{name="kube-endpoint-manager-addon"} 1"#), "{page}");
    assert_eq!(firing(&page), [""; 0]);
    for (metric, alert) in [
        ("services_without_selector", "KubeEndpointManagerSelectorMissing"),
        ("selectors_not_accepted", "KubeEndpointManagerSelectorNotAccepted"),
        ("services_without_leader", "KubeEndpointManagerNobodyLeads"),
        ("held_hand_overs", "KubeEndpointManagerHandOverHeld"),
        ("services_with_refused_writes", "KubeEndpointManagerWritesRefused"),
        ("services_with_leftovers", "KubeEndpointManagerLeftovers"),
    ] {
        let metric = format!("endpoint_selector_controller_{metric}");
        let page = page.replace(&format!("{metric} 0"), &format!("{metric} 2"));
        assert!(page.contains(&format!("{metric} 2")), "{page}");
        assert_eq!(firing(&page), [alert]);
    }
}
