//! Tests that the embedded API server gives the answers of a real one to the same requests.
//!
//! To play the cases on a real cluster and compare its answers with the recorded ones, give a
//! kubeconfig of a user who may do everything in a cluster of no importance: the cases create and
//! delete namespaces and nodes.
//!
//! ```sh
//! DIFFERENTIAL_KUBECONFIG=~/.kube/config cargo test -p kube-endpoint-integration-tests --test programs differential
//! ```
//!
//! With `DIFFERENTIAL_RECORD=1` as well, its answers replace the recorded ones.

use std::path::Path;

use kube_endpoint_controllers::{ApiClient, connect};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_integration_tests::conformance::unified_diff;
use kube_endpoint_integration_tests::differential::{Answer, Case, play};
use kube_endpoint_integration_tests::programs::{Missing, Tests};
use kube_endpoint_integration_tests::{programs, tests};

/// Names the kubeconfig of the real server.
const KUBECONFIG: &str = "DIFFERENTIAL_KUBECONFIG";

pub(crate) fn tests() -> Vec<Tests> {
    vec![
        tests!(programs::nothing => the_embedded_server_gives_the_recorded_answers),
        tests!(a_cluster => async a_real_server_gives_the_recorded_answers),
    ]
}

fn a_cluster() -> Result<(), Missing> {
    let needed = || Missing::Optional(format!("no cluster: set {KUBECONFIG}"));
    std::env::var_os(KUBECONFIG).map(|_| ()).ok_or_else(needed)
}

fn cases() -> Vec<Case> {
    Case::read_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("differential")).unwrap()
}

fn shown(answer: &Answer) -> serde_json::Value {
    serde_json::to_value(answer).unwrap()
}

/// Returns the differences between the recorded answers of a case and others.
fn differences(case: &Case, answers: &[Answer], intended: bool) -> Vec<String> {
    let mut found = Vec::new();
    for (number, (exchange, answer)) in case.exchanges.iter().zip(answers).enumerate() {
        let recorded = exchange.answer.as_ref().expect("each request has a recorded answer");
        let request = format!("{} {}: {}", case.name, number + 1, exchange.request);
        match &exchange.differs {
            Some(why) if intended => {
                if answer == recorded {
                    found.push(format!("{request}\nthe answers are equal, so this is no longer true: {why}"));
                }
            }
            _ if answer == recorded => {}
            _ => found.push(format!("{request}\n{}", unified_diff(&shown(recorded), &shown(answer)))),
        }
    }
    found
}

fn the_embedded_server_gives_the_recorded_answers() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(compare_with_the_embedded_server());
}

async fn compare_with_the_embedded_server() {
    let mut requests = 0;
    let mut found = Vec::new();
    for case in cases() {
        let server = EmbeddedApiServer::builder().build().unwrap();
        let answers = play(&ApiClient::for_tests(server.service()), &case).await.unwrap();
        requests += answers.len();
        found.extend(differences(&case, &answers, true));
    }
    assert!(requests > 300, "{requests} requests");
    assert!(found.is_empty(), "{} of {requests} answers differ\n\n{}", found.len(), found.join("\n\n"));
}

async fn a_real_server_gives_the_recorded_answers() {
    let kubeconfig = std::env::var_os(KUBECONFIG).unwrap();
    let record = std::env::var_os("DIFFERENTIAL_RECORD").is_some();
    let client = connect(Some(Path::new(&kubeconfig)), None).await.unwrap();
    let mut found = Vec::new();
    for mut case in cases() {
        let answers = play(&client, &case).await.unwrap();
        if record {
            case.record(answers).unwrap();
        } else {
            found.extend(differences(&case, &answers, false));
        }
    }
    assert!(found.is_empty(), "{} answers differ\n\n{}", found.len(), found.join("\n\n"));
}
