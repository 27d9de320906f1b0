//! Measures `lint` as a pure function, with 100,000 pods and 10,000 Services that select no pod.
//!
//! ```console
//! $ cargo run --release -p kube-endpoint-explain --example lint_large -- 100
//! ```
//!
//! The argument is the number of Services in a namespace.
#![expect(clippy::unwrap_used, reason = "an example may fail")]
#![expect(clippy::print_stdout, reason = "it talks to the user")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::time::Instant;

use kube_endpoint_explain::{LintOptions, Objects, Options, lint};
use serde_json::json;

const SERVICES: usize = 10_000;
const PODS: usize = 10;

fn main() {
    let in_namespace: usize = std::env::args().nth(1).map_or(100, |word| word.parse().unwrap());
    let mut objects = Objects::new();
    for at in 0..SERVICES {
        let (name, namespace) = (format!("web-{at:05}"), format!("team-{:03}", at / in_namespace));
        // Every second selector has one requirement, the others two.
        let mut selector = json!({"app": format!("{name}-old")});
        if at % 2 == 0 {
            selector["part-of"] = "shop".into();
        }
        objects
            .add(json!({"kind": "Service", "metadata": {"name": name, "namespace": namespace},
                "spec": {"selector": selector, "ports": [{"port": 80}]}}))
            .unwrap();
        for pod in 0..PODS {
            objects
                .add(json!({"kind": "Pod", "metadata": {"name": format!("{name}-{pod}"), "namespace": namespace,
                    "labels": {"app": name, "part-of": "shop"}}}))
                .unwrap();
        }
    }
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let begin = Instant::now();
    let report = lint(&objects, now, &Options::default(), &LintOptions::default());
    println!("{} problems in {} Services: {:?}", report.problems.len(), report.services, begin.elapsed());
}
