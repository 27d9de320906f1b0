//! Tests that SARIF output meets the requirements of GitHub's code scanning: the tables of "SARIF
//! support for code scanning" in its documentation, and its limits.

use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use serde_json::Value;

use crate::server::{Shop, stderr};

/// Returns the first rule that a log breaks.
fn broken_rule(log: &Value) -> Option<String> {
    rules(log).err()
}

fn ensure(holds: bool, rule: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(rule.to_owned()) }
}

/// Returns the text of a value, if it is not empty and not longer than allowed.
fn text(value: &Value, longest: usize, rule: &str) -> Result<(), String> {
    ensure(value.as_str().is_some_and(|text| !text.is_empty() && text.len() <= longest), rule)
}

fn rules(log: &Value) -> Result<(), String> {
    text(&log["$schema"], 255, "$schema")?;
    ensure(log["version"] == "2.1.0", "version")?;
    let runs = log["runs"].as_array().filter(|runs| (1..=20).contains(&runs.len())).ok_or("runs")?;
    for run in runs {
        let driver = &run["tool"]["driver"];
        text(&driver["name"], 255, "tool.driver.name")?;
        let rules = driver["rules"].as_array().ok_or("tool.driver.rules")?;
        ensure(rules.len() <= 25_000, "at most 25000 rules")?;
        for rule in rules {
            text(&rule["id"], 255, "rule.id")?;
            text(&rule["name"], 255, "rule.name")?;
            text(&rule["shortDescription"]["text"], 1024, "rule.shortDescription")?;
            text(&rule["fullDescription"]["text"], 1024, "rule.fullDescription")?;
            text(&rule["help"]["text"], usize::MAX, "rule.help")?;
            let level = rule["defaultConfiguration"]["level"].as_str().unwrap_or("none");
            ensure(["note", "warning", "error"].contains(&level), "rule.defaultConfiguration.level")?;
            ensure(
                rule["properties"]["tags"].as_array().is_none_or(|tags| tags.len() <= 20),
                "at most 20 tags",
            )?;
        }
        let results = run["results"].as_array().ok_or("results")?;
        ensure(results.len() <= 25_000, "at most 25000 results")?;
        let mut fingerprints = std::collections::BTreeSet::new();
        for result in results {
            let index = result["ruleIndex"].as_u64().and_then(|index| usize::try_from(index).ok());
            let rule = index.and_then(|index| rules.get(index)).ok_or("result.ruleIndex")?;
            ensure(rule["id"] == result["ruleId"], "result.ruleId")?;
            let level = result["level"].as_str().unwrap_or("none");
            ensure(["note", "warning", "error"].contains(&level), "result.level")?;
            text(&result["message"]["text"], usize::MAX, "result.message")?;
            let locations = result["locations"].as_array().filter(|all| (1..=10).contains(&all.len()));
            let physical = &locations.ok_or("result.locations")?[0]["physicalLocation"];
            let uri = &physical["artifactLocation"]["uri"];
            text(uri, 1024, "artifactLocation.uri")?;
            ensure(!uri.as_str().unwrap_or_default().starts_with('/'), "artifactLocation.uri is relative")?;
            for field in ["startLine", "startColumn", "endLine", "endColumn"] {
                ensure(physical["region"][field].as_u64().is_some_and(|at| at >= 1), "region")?;
            }
            let fingerprint = &result["partialFingerprints"]["primaryLocationLineHash"];
            text(fingerprint, usize::MAX, "partialFingerprints.primaryLocationLineHash")?;
            ensure(fingerprints.insert(fingerprint.as_str().unwrap_or_default()), "fingerprints are unique")?;
        }
        for invocation in run["invocations"].as_array().into_iter().flatten() {
            ensure(invocation["executionSuccessful"].is_boolean(), "invocation.executionSuccessful")?;
        }
    }
    Ok(())
}

async fn log_of(faults: Vec<FaultRule>) -> Value {
    let shop = Shop::start(faults).await;
    let output = shop.run(&["lint", "--info", "-o", "sarif"]).await;
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_can_be_uploaded() {
    let log = log_of(Vec::new()).await;
    assert_eq!(broken_rule(&log), None);
    let run = &log["runs"][0];
    assert!(run["results"].as_array().unwrap().len() >= 8);
    assert_eq!(run["invocations"][0]["executionSuccessful"], true);
    // The rules do not depend on the results.
    assert_eq!(
        run["tool"]["driver"]["rules"].as_array().unwrap().len(),
        kube_endpoint_explain::Code::ALL.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_read_is_a_notification() {
    let refuse = Fault::Refuse { status: 403, retry_after: None };
    let log = log_of(vec![FaultRule::on(refuse, "list", "nodes")]).await;
    assert_eq!(broken_rule(&log), None);
    let invocation = &log["runs"][0]["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], false);
    let notification = &invocation["toolExecutionNotifications"][0];
    assert!(notification["message"]["text"].as_str().unwrap().starts_with("You may not read nodes: "));
}
