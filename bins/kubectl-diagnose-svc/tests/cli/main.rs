//! Tests the plugin as a process, against the embedded API server with the recorded namespace of a
//! real cluster.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]
#![expect(clippy::disallowed_methods, reason = "it waits for real processes")]

mod around;
mod cleanup;
mod completion;
mod docs;
mod doctor;
mod elsewhere;
mod errors;
mod files;
mod foreign_server;
mod from;
mod hostile;
#[path = "../../../../crates/explain/tests/json_schema.rs"]
mod json_schema;
mod krew;
mod large;
mod not_known;
mod options;
mod outputs;
mod pages;
mod proxy;
mod recorder;
mod render;
mod requests;
mod retire;
mod sarif;
mod selectors;
mod server;
mod unserved;

use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use serde_json::Value;

use server::{Shop, shop_objects, stderr, stdout};

/// Returns the text without the headline's end and without lines that contain ages.
fn without_ages(text: &str) -> String {
    let timeless = without_history(text);
    timeless.lines().filter(|line| !line.contains(" ago")).map(|line| format!("{line}\n")).collect()
}

/// Returns the text without the end of the headline, which tells since when the state lasts, and
/// without the sentence about the last change.
fn without_history(text: &str) -> String {
    let (head, rest) = text.split_once('\n').unwrap_or((text, ""));
    let head = head.split("  since ").next().unwrap_or_default();
    let is_change = rest.starts_with("Last change");
    let (change, after) = rest.split_once(").\n").filter(|_| is_change).unwrap_or(("", rest));
    assert!(change.lines().count() < 4, "{text}");
    format!("{head}\n{after}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_explained_with_the_requests_that_it_needs() {
    let shop = Shop::start(Vec::new()).await;
    let output = shop.run(&["explain", "frontend-typo"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    insta::assert_snapshot!(without_ages(&stdout(&output)));
    let mut requests = shop.requests();
    requests.sort();
    insta::assert_snapshot!(requests.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn near_matches_are_looked_for_if_nothing_matches() {
    let shop = Shop::start(Vec::new()).await;
    let output = shop.run(&["explain", "svc/nobody", "-o", "json"]).await;
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["verdict"]["code"], "EP030");
    let pods: Vec<String> = shop.requests().into_iter().filter(|line| line.contains("/pods?")).collect();
    insta::assert_snapshot!(pods.join("\n"), @r"
    list /api/v1/namespaces/shop/pods?&labelSelector=app%3Dnobody&limit=500
    list /api/v1/namespaces/shop/pods?&labelSelector=&limit=500
    list /api/v1/pods?&fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed&labelSelector=app%3Dnobody&limit=500
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_explained_for_each_service() {
    let shop = Shop::start(Vec::new()).await;
    let output = shop.run(&["explain", "pod/frontend-7dfbff9db-gnqg8", "-o", "yaml"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let yaml: Value = serde_saphyr::from_str(&stdout(&output)).unwrap();
    let services: Vec<&str> =
        yaml["services"].as_array().unwrap().iter().map(|says| says["service"].as_str().unwrap()).collect();
    assert_eq!(services, ["frontend", "frontend-typo"]);
    assert_eq!(yaml["services"][0]["code"], "EP019");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_may_be_a_word_of_its_own() {
    let shop = Shop::start(Vec::new()).await;
    for (one, other) in [
        (&["explain", "nobody"][..], &["explain", "service", "nobody"][..]),
        (&["explain", "svc/nobody"], &["explain", "svc", "nobody"]),
        (&["explain", "pod/db-0"], &["explain", "pod", "db-0"]),
        (&["explain", "po/db-0"], &["explain", "pods", "db-0"]),
    ] {
        let (one, other) = (shop.run(one).await, shop.run(other).await);
        assert_eq!(one.status.code(), Some(0), "{}", stderr(&one));
        assert_eq!(without_ages(&stdout(&one)), without_ages(&stdout(&other)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lint_reports_by_exit_code_and_as_sarif() {
    let shop = Shop::start(Vec::new()).await;
    let output = shop.run(&["lint", "-o", "sarif"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let sarif: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    assert_eq!(sarif["runs"][0]["results"].as_array().unwrap().len(), 9);
    let all = "EP012,EP019,EP021,EP030,topology-hints-withheld";
    let output = shop.run(&["lint", "-A", "--ignore", all]).await;
    assert_eq!(
        (output.status.code(), stdout(&output)),
        (Some(0), "0 errors, 0 warnings in 9 Services.\n".into())
    );
}

/// Without nodes alone a pipeline need not fail, and the note tells what could not be read.
#[tokio::test(flavor = "multi_thread")]
async fn lint_without_nodes_fails_only_if_strict() {
    let refuse = Fault::Refuse { status: 403, retry_after: None };
    let shop = Shop::start(vec![FaultRule::on(refuse, "list", "nodes")]).await;
    for (more, code) in [(&[][..], 0), (&["--strict"][..], 2)] {
        let lint = ["lint", "--fail-on", "never"];
        let output = shop.run(&[&lint, more].concat()).await;
        assert!(stderr(&output).starts_with("You may not read nodes: "), "{}", stderr(&output));
        assert_eq!(output.status.code(), Some(code), "{more:?}");
    }
    let output = shop.run(&["lint", "--fail-on=error"]).await;
    assert_eq!(output.status.code(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selector_chooses_services_by_their_labels() {
    let mut list = shop_objects();
    for item in list["items"].as_array_mut().unwrap() {
        if item["kind"] == "Service"
            && ["cart", "nobody"].contains(&item["metadata"]["name"].as_str().unwrap())
        {
            item["metadata"]["labels"] = serde_json::json!({"team": "checkout"});
        }
        if item["metadata"]["name"] == "db-bsvd2" {
            item["endpoints"] = Value::Array(Vec::new());
        }
    }
    let shop = Shop::with([list], Vec::new()).await;
    let output = shop.run(&["lint", "-l", "team in (checkout, none)"]).await;
    let text = stdout(&output);
    assert!(text.ends_with(" in 2 Services.\n"), "{text}{}", stderr(&output));
    assert!(
        text.contains("shop/cart") && text.contains("shop/nobody") && !text.contains("frontend"),
        "{text}"
    );
    let output = shop.run(&["lint", "--selector=team=none"]).await;
    assert_eq!((output.status.code(), &*stdout(&output)), (Some(0), "0 errors, 0 warnings in 0 Services.\n"));
    // The edited slice is one of `db`, which is not selected.
    let output = shop.run(&["diff", "-l", "team=none"]).await;
    assert_eq!((output.status.code(), &*stdout(&output)), (Some(0), "Nothing would change.\n"));
    let output = shop.run(&["lint", "-l", "team = a b"]).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("is no requirement; write `key=value`"), "{}", stderr(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn diff_finds_what_persists() {
    let shop = Shop::start(Vec::new()).await;
    let output = shop.run(&["diff", "--compatibility=upstream"]).await;
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), "Nothing would change.\n".into()));
    // A slice that another client has emptied.
    let mut list = shop_objects();
    for item in list["items"].as_array_mut().unwrap() {
        if item["metadata"]["name"] == "db-bsvd2" {
            item["endpoints"] = Value::Array(Vec::new());
        }
    }
    let shop = Shop::with([list], Vec::new()).await;
    let output = shop.run(&["diff"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    insta::assert_snapshot!(stdout(&output));
    let output = shop.run(&["diff", "-o", "json"]).await;
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["changes"][0]["verb"], "update");
    assert_eq!(json["changes"][0]["fields"].as_array().unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_forbidden_is_named_and_the_rest_is_checked() {
    let refuse = |plural| {
        let fault = Fault::Refuse { status: 403, retry_after: None };
        vec![FaultRule::on(fault, "list", plural)]
    };
    for (plural, codes, diff_code) in [
        ("nodes", "EP012 EP017 EP019 EP030", 2),
        ("endpointslices", "EP012 EP019 EP021 EP030 EP039", 2),
        ("endpoints", "EP012 EP019 EP021 EP030 EP039", 2),
        ("pods", "EP001", 2),
    ] {
        let shop = Shop::start(refuse(plural)).await;
        let output = shop.run(&["lint", "-o", "json"]).await;
        let note = stderr(&output);
        assert!(note.starts_with(&format!("You may not read {plural}: ")), "{note}");
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let codes_of = |json: &Value| {
            let codes = json["problems"]
                .as_array()
                .unwrap()
                .iter()
                .map(|lint| lint["code"].as_str().unwrap().to_owned());
            codes.collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(codes_of(&json), codes, "{plural}");
        assert_eq!(json["notRead"].as_array().unwrap().len(), 1);
        assert_eq!(output.status.code(), Some(if codes.is_empty() { 2 } else { 1 }), "{plural}");
        let output = shop.run(&["diff", "--compatibility=upstream"]).await;
        let text = stdout(&output);
        assert_eq!(
            (output.status.code(), &*text),
            (Some(diff_code), "Nothing would change in what could be read.\n"),
            "{plural}"
        );
    }
    let shop = Shop::start(refuse("services")).await;
    for command in ["lint", "diff", "cleanup"] {
        let output = shop.run(&[command]).await;
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).starts_with("error: "), "{}", stderr(&output));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_pods_a_service_is_explained_by_its_slices() {
    let refuse = Fault::Refuse { status: 403, retry_after: None };
    let shop = Shop::start(vec![FaultRule::on(refuse, "list", "pods")]).await;
    let output = shop.run(&["explain", "cart", "-o", "json"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).starts_with("You may not read pods: "), "{}", stderr(&output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["pods"].as_array().unwrap().len(), 0);
    assert_eq!((&json["verdict"]["status"], &json["verdict"]["code"]), (&"down".into(), &"EP001".into()));
    assert_eq!(json["faults"][0]["details"]["open"], "no-traffic", "{json:#}");
    assert_eq!(json["notRead"].as_array().unwrap().len(), 1, "{json:#}");
    assert_eq!(json["slices"].as_array().unwrap().len(), 2);
    // The plugin reads and judges a pod alone.
    let output = shop.run(&["explain", "pod/frontend-7dfbff9db-gnqg8", "-o", "json"]).await;
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["services"][0]["code"], "EP019", "{}", stderr(&output));
    assert_eq!(json["services"][0]["receives"], false);
    // It reads the pod's slices, too.
    assert_eq!(json["services"][0]["pod"]["places"].as_array().unwrap().len(), 1, "{json:#}");
    assert_eq!(json["notRead"].as_array().unwrap().len(), 1, "{json:#}");
}

/// The status is not known, so the exit code says that some objects could not be read.
#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_that_cannot_be_given_is_not_made_up() {
    let refuse = || Fault::Refuse { status: 403, retry_after: None };
    let rules = ["pods", "endpointslices", "endpoints", "nodes", "events"]
        .map(|plural| FaultRule::new(refuse(), move |request| request.plural() == plural));
    let shop = Shop::start(rules.into()).await;
    let output = shop.run(&["explain", "payments", "-o", "json"]).await;
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["verdict"]["code"], "EP001");
    assert_eq!(json["podsByPublication"]["receiving"], Value::Null);
    let notes: Vec<&str> =
        json["notRead"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert_eq!(stderr(&output), notes.join("\n") + "\n");
    let output = shop.run(&["explain", "cart"]).await;
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    insta::assert_snapshot!(stdout(&output), @r"
    UNKNOWN  Service shop/cart  EP001 not-known
    Pods and EndpointSlices could not be read, so whether the Service receives
    traffic is not known.

    What to do
      1. EP001  Ask for the permission to get and list pods and endpointslices, and
                explain the Service again; you have it if these say yes.
                kubectl -n shop auth can-i list pods
                kubectl -n shop auth can-i list endpointslices
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_forbidden_is_named_and_the_rest_is_shown() {
    let refuse = || Fault::Refuse { status: 403, retry_after: None };
    let shop = Shop::start(vec![
        FaultRule::on(refuse(), "list", "events"),
        FaultRule::new(refuse(), |request| request.plural() == "nodes"),
    ])
    .await;
    let output = shop.run(&["explain", "cart"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let notes = stderr(&output);
    assert!(notes.contains("You may not read nodes: "), "{notes}");
    assert!(notes.contains("You may not read events: "), "{notes}");
    assert!(
        stdout(&output).starts_with("DOWN  Service shop/cart  EP017 not-ready  since "),
        "{}",
        stdout(&output)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_short_form_of_a_service_is_short() {
    let shop = Shop::start(Vec::new()).await;
    let output = shop.run(&["explain", "frontend-typo", "-o", "json", "--brief"]).await;
    assert!(output.stdout.len() <= 8192, "{}", stdout(&output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["kind"], &json["verdict"]["code"]), (&"BriefExplanation".into(), &"EP012".into()));
    assert_eq!(json["evidence"][0]["field"], ".spec.ports");
    for refused in
        [&["explain", "frontend-typo", "--brief"][..], &["explain", "pod/db-0", "-o", "json", "--brief"]]
    {
        let output = shop.run(refused).await;
        assert_eq!(stderr(&output), "error: --brief is for Services, with -o json or -o yaml\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_say_what_is_wrong() {
    let shop = Shop::start(Vec::new()).await;
    for (arguments, want) in [
        (&["explain", "none"][..], "error: there is no Service shop/none\n"),
        (&["explain", "pod/none"], "error: there is no pod shop/none\n"),
        (
            &["explain", "configmap/web"],
            "error: \"configmap\" is no kind that is explained; write NAME, service/NAME, pod/NAME, deployment/NAME, ingress/NAME, gateway/NAME, httproute/NAME, apiservice/NAME or validatingwebhookconfiguration/NAME, or KIND NAME\n",
        ),
        (
            &["explain", "web", "api"],
            "error: \"web\" is no kind that is explained; write NAME, service/NAME, pod/NAME, deployment/NAME, ingress/NAME, gateway/NAME, httproute/NAME, apiservice/NAME or validatingwebhookconfiguration/NAME, or KIND NAME\n",
        ),
        (&["diff", "-o", "sarif"], "error: only lint prints SARIF; choose table, wide, json or yaml\n"),
    ] {
        let output = shop.run(arguments).await;
        assert_eq!((output.status.code(), stderr(&output)), (Some(2), want.to_owned()));
    }
}
