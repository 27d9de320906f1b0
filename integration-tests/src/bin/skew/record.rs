//! Records what a replica leaves on a server.
#![expect(clippy::disallowed_methods, reason = "it waits for a real process, which reads the time")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use kube::Client;
use kube_endpoint_integration_tests::left_behind::{
    ALL_CONTROLLERS, change, inputs, read, record_of, shows_leader,
};
use kube_endpoint_integration_tests::processes::{Scene, Size};
use rustix::process::Signal;
use serde_json::Value;

use crate::builds::Builds;

/// The time limit for the outputs, and for the end of the process.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the process goes on, to write what else it may.
const REST: Duration = Duration::from_secs(5);

/// Runs the other binary on the inputs, ends it, and writes all objects to a file. Returns its
/// path.
pub(crate) async fn record(builds: &Builds) -> anyhow::Result<PathBuf> {
    let version = builds.other.version()?;
    let size = Size { services: 0, ..Size::SMALL };
    let mut scene = Box::pin(Scene::start_on(&builds.apiserver, size, inputs())).await;
    let replica = scene.start_replica_of(&builds.other.program, &[ALL_CONTROLLERS]);
    let services = inputs().iter().filter(|it| it["kind"] == "Service").count();
    wait_for(&scene.client, "each Service has a slice", |slices| slices.len() == services).await?;
    tokio::time::sleep(REST).await;
    // The replica has seen the Lease, so its renewal proves that the leader lives.
    change(&scene.client, jiff::Timestamp::now()).await?;
    wait_for(&scene.client, "a slice shows the leader", shows_leader).await?;
    tokio::time::sleep(REST).await;
    scene.signal(replica, Signal::TERM);
    let status = scene.replicas[replica].process.wait(PATIENCE).await;
    ensure!(status.success(), "{} ended with {status}", builds.other.name);
    let path = record_of(&version);
    let text = serde_json::to_string_pretty(&read(&scene.client).await?)? + "\n";
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    Ok(path.canonicalize()?)
}

/// Waits until the slices on the server meet a condition.
async fn wait_for(client: &Client, what: &str, is_met: impl Fn(&[Value]) -> bool) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut slices = read(client).await?;
        slices.retain(|object| object["kind"] == "EndpointSlice");
        if is_met(&slices) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}; the slices: {slices:#?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
