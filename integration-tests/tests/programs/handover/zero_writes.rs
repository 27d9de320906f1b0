//! Tests that a switch writes nothing on a cluster in which nothing changes: neither the first one,
//! with upstream's behaviour, nor those that turn on one gate after another and change between
//! protobuf and JSON.

use std::time::Duration;

use kube_endpoint_controllers::{ContentType, Gate};
use kube_endpoint_integration_tests::processes::Line;
use rustix::process::Signal;

use crate::handover::cluster::{Cluster, Under};

/// The time limit for the end of a process.
const TO_END: Duration = Duration::from_secs(30);

/// How long the test watches a new leader.
const WATCHED: Duration = Duration::from_secs(5);

pub(crate) async fn switches_write_nothing() {
    let cluster = Box::pin(Cluster::from_environment()).await;
    let mut upstream = cluster.start_upstream("upstream", Under::NameOfLease);
    cluster.settled().await;
    let mut ours = cluster.start_ours("ours-0", &["--compatibility=upstream"]);
    cluster.wait_for_watch("ours-0").await;
    upstream.signal(Signal::TERM);
    upstream.wait(TO_END).await;
    cluster.wait_for_holder("ours-0").await;
    tokio::time::sleep(WATCHED).await;

    let mut on = Vec::new();
    for gate in Gate::all() {
        on.push(format!("{}=true", gate.name()));
        let user = format!("ours-{}", on.len());
        let gates = format!("--feature-gates={}", on.join(","));
        let encoding = if on.len() % 2 == 0 { ContentType::Protobuf } else { ContentType::Json };
        let encoding = format!("--kube-api-content-type={}", encoding.as_str());
        let next = cluster.start_ours(&user, &["--compatibility=upstream", &gates, &encoding]);
        cluster.wait_for_watch(&user).await;
        ours.signal(Signal::TERM);
        assert!(ours.wait(TO_END).await.success());
        cluster.wait_for_holder(&user).await;
        tokio::time::sleep(WATCHED).await;
        ours = next;
    }
    let lines = cluster.lines();
    // Renewals of the Lease do not count, nor do events on it that tell who leads.
    let writes = |line: &&Line| {
        line.user.starts_with("ours") && line.is_write() && !line.agent.ends_with(" leader-election")
    };
    let writes: Vec<&Line> = lines.iter().filter(writes).collect();
    assert!(writes.is_empty(), "{writes:#?}");
    println!("{} switches wrote nothing", on.len() + 1);
}
