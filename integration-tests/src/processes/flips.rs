//! The load: one pod after another becomes unready or ready again.

use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::cluster::{NAMESPACE, pod_name};
use super::size::Size;

/// A running load.
#[derive(Debug)]
pub struct Flips {
    stop: oneshot::Sender<()>,
    task: JoinHandle<usize>,
}

impl Flips {
    /// Starts the load. Each flip concerns the next Service, and each time a Service's turn comes,
    /// its next pod. The load repeats a flip that fails, because the server is away, until it
    /// succeeds. `done` is the number of flips of an earlier load, with which this one goes on.
    pub fn start(client: Client, size: Size, done: usize) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_secs(1) / size.flips_per_second);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            let mut flips = done;
            loop {
                tokio::select! {
                    biased;
                    _ = &mut stopped => return flips,
                    _ = ticks.tick() => {}
                }
                if flip(&client, flips, size).await.is_ok() {
                    flips += 1;
                }
            }
        });
        Self { stop, task }
    }

    /// Stops the load, and returns the number of changed pods, with those of an earlier load.
    ///
    /// # Panics
    ///
    /// If the load panicked.
    pub async fn stop(self) -> usize {
        // The task runs until this message.
        let _ = self.stop.send(());
        self.task.await.unwrap()
    }
}

/// Returns the pod of the flip with this number, and true if it becomes ready.
fn target(flip: usize, size: Size) -> (String, bool) {
    let (service, round) = (flip % size.services, flip / size.services);
    let (pod, times) = (round % size.pods_per_service, round / size.pods_per_service);
    (pod_name(service, pod), times % 2 == 1)
}

async fn flip(client: &Client, flip: usize, size: Size) -> kube::Result<()> {
    let (pod, ready) = target(flip, size);
    let status = if ready { "True" } else { "False" };
    let patch = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    let uri = format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}/status");
    let request = http::Request::patch(uri)
        .header("content-type", "application/merge-patch+json")
        .body(patch.to_string().into_bytes())
        .map_err(kube::Error::HttpError)?;
    // Without a limit, a connection to a stopped server would hold up the load.
    let answer = tokio::time::timeout(Duration::from_secs(2), client.request::<Value>(request));
    answer.await.map_or_else(|error| Err(kube::Error::Service(error.into())), |answer| answer.map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flip_changes_a_pod_and_the_services_take_turns() {
        let size = Size { services: 2, pods_per_service: 2, ..Size::SMALL };
        let targets: Vec<(String, bool)> = (0..6).map(|flip| target(flip, size)).collect();
        let expected = [
            ("service-000-0", false),
            ("service-001-0", false),
            ("service-000-1", false),
            ("service-001-1", false),
            ("service-000-0", true),
            ("service-001-0", true),
        ];
        assert_eq!(targets, expected.map(|(pod, ready)| (pod.to_owned(), ready)));
    }
}
