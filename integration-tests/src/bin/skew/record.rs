//! Records what a replica leaves on a server.
#![expect(clippy::disallowed_methods, reason = "it waits for a real process, which reads the time")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use kube_endpoint_integration_tests::left_behind::{
    ALL_CONTROLLERS, inputs, read, record_of, renew_leaders_lease, shows_leader,
};
use kube_endpoint_integration_tests::processes::{Scene, Size};
use rustix::process::Signal;
use serde_json::Value;

use crate::builds::Builds;

/// The time limit for the outputs, and for the end of the process.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the process goes on, after its last output, to write what else it may.
const REST: Duration = Duration::from_secs(5);

/// Runs the other binary on the inputs, ends it, and writes all objects to a file. Returns its
/// path.
pub(crate) async fn record(builds: &Builds) -> anyhow::Result<PathBuf> {
    let version = builds.other.version()?;
    let size = Size { services: 0, ..Size::SMALL };
    let mut scene = Box::pin(Scene::start_on(&builds.apiserver, size, inputs())).await;
    let replica = scene.start_replica_of(&builds.other.program, &[ALL_CONTROLLERS]);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let slices: Vec<Value> =
            read(&scene.client).await?.into_iter().filter(|it| it["kind"] == "EndpointSlice").collect();
        if shows_leader(&slices) {
            break;
        }
        ensure!(Instant::now() < deadline, "no slice shows the leader after {PATIENCE:?}: {slices:#?}");
        // The first record that the process sees proves nothing.
        renew_leaders_lease(&scene.client, jiff::Timestamp::now()).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    tokio::time::sleep(REST).await;
    scene.signal(replica, Signal::TERM);
    let status = scene.replicas[replica].process.wait(PATIENCE).await;
    ensure!(status.success(), "{} ended with {status}", builds.other.name);
    let path = record_of(&version);
    let text = serde_json::to_string_pretty(&read(&scene.client).await?)? + "\n";
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    Ok(path.canonicalize()?)
}
