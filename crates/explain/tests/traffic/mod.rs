//! Tests the headlines of Services: the endpoints that receive traffic as kube-proxy chooses them,
//! and the open questions of a reader who may not read a kind.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

mod by_hand;
mod consumers;
mod ending;
mod known;
mod remedies;

use kube_endpoint_core_model::{ObjectKey, Timestamp};
use kube_endpoint_explain::text::{Colors, Layout};
use kube_endpoint_explain::{Explanation, Known, LintOptions, Objects, Options, Planned, explain, lint};
use kube_endpoint_testing::Cluster;
use serde_json::Value;

fn key() -> ObjectKey {
    ObjectKey::new("default", "web")
}

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

/// Carries out the writes of slices and Endpoints, twice, because mirrored slices follow the
/// Endpoints.
fn settled(cluster: Cluster) -> Cluster {
    let objects = Objects::read(cluster.objects().iter().cloned()).unwrap();
    let planned = Planned::new(&objects, &key(), &objects.topology(), now(), &Options::default());
    let cluster = planned.slice_writes().fold(cluster, |cluster, writes| cluster.apply(writes));
    planned.endpoints_writes().fold(cluster, |cluster, writes| cluster.apply(writes))
}

/// Returns the pods `web-1` and so on. The first `not_ready` of them are not ready.
fn web(pods: usize, not_ready: usize) -> Cluster {
    let cluster = Cluster::new().node("a").service("web").pods("web", pods);
    let names: Vec<String> = (1..=not_ready).map(|at| format!("web-{at}")).collect();
    settled(names.iter().fold(cluster, |cluster, name| cluster.select("Pod", name).not_ready()))
}

/// Returns the objects that the plugin reads if these kinds are forbidden. It then assumes that
/// nodes are ready.
fn reading(cluster: &Cluster, forbidden: &str) -> (Objects, Options) {
    let may = |kind: &str| !forbidden.split(' ').any(|forbidden| forbidden == kind);
    let known = Known {
        pods: may("pods"),
        nodes: may("nodes"),
        slices: may("endpointslices"),
        endpoints: may("endpoints"),
        selectors: true,
    };
    let is_read = |object: &&Value| match object["kind"].as_str().unwrap() {
        "Pod" => known.pods,
        "EndpointSlice" => known.slices,
        "Endpoints" => known.endpoints,
        _ => true,
    };
    let objects = Objects::read(cluster.objects().iter().filter(is_read).cloned()).unwrap();
    (objects, Options::default().with_known(known))
}

fn explained(cluster: &Cluster, forbidden: &str) -> Explanation {
    let (objects, options) = reading(cluster, forbidden);
    explain(&objects, &key(), &objects.topology(), now(), None, &options).unwrap()
}

/// Returns the headline, as one line.
fn headline(cluster: &Cluster, forbidden: &str) -> String {
    let explanation = explained(cluster, forbidden);
    let verdict = &explanation.verdict;
    let status = serde_json::to_value(verdict.status).unwrap();
    format!("{} {} {}", status.as_str().unwrap(), verdict.code, verdict.message)
}

fn text(cluster: &Cluster, forbidden: &str) -> String {
    explained(cluster, forbidden).text(Layout::NARROW, now()).render(Colors::Off)
}

/// Returns the codes that lint prints.
fn linted(cluster: &Cluster, forbidden: &str) -> Vec<String> {
    let (objects, options) = reading(cluster, forbidden);
    let problems = lint(&objects, now(), &options, &LintOptions::default()).problems;
    problems.iter().map(|lint| format!("{} {}", lint.severity, lint.code)).collect()
}

fn codes(cluster: &Cluster, forbidden: &str) -> String {
    let explanation = explained(cluster, forbidden);
    let status = serde_json::to_value(explanation.verdict.status).unwrap();
    let codes: Vec<&str> = explanation.to_do.iter().map(|advice| advice.code.id()).collect();
    format!("{} {}: {}", status.as_str().unwrap(), explanation.verdict.code, codes.join(" "))
}
