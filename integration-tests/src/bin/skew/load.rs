//! The objects and changes beside the load of a scene: those of `fixtures/left-behind` that both
//! versions know.

use std::time::Duration;

use kube::Client;
use kube_endpoint_integration_tests::left_behind::{inputs, renew_leaders_lease, set_ready};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::builds::Builds;

/// A pod that is ready and not ready in turn.
pub(crate) const POD: &str = "p1";
/// The Services whose outputs have this in them. That of the leader does not: `p1` never leads.
const SERVICES: [&str; 4] = ["close", "expressions", "headless", "retired"];

/// The time between two changes.
const PERIOD: Duration = Duration::from_secs(2);

/// Returns the objects that both versions know.
pub(crate) fn objects(builds: &Builds) -> Vec<Value> {
    let (selectors, retired) = (builds.both_know("EndpointSelectors"), builds.both_know("retired Endpoints"));
    let is_known = |object: &Value| {
        let has = |name: &str| object["metadata"]["annotations"][name].is_string();
        let of_selector =
            object["kind"] == "EndpointSelector" || has("kube-endpoint-manager.github.io/endpoint-selector");
        (selectors || !of_selector) && (retired || !has("kube-endpoint-manager.github.io/endpoints"))
    };
    inputs().into_iter().filter(is_known).collect()
}

/// Returns the Services whose outputs change with a pod.
pub(crate) fn services_of(pod: &str) -> Vec<String> {
    match pod {
        POD => SERVICES.map(str::to_owned).to_vec(),
        _ => vec![pod.rsplit_once('-').map_or(pod, |(service, _)| service).to_owned()],
    }
}

/// The running changes.
pub(crate) struct Load {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Load {
    /// Starts to change the pod, and to renew the Lease of the leader.
    pub(crate) fn start(client: Client) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut is_ready = false;
            loop {
                change(&client, is_ready).await;
                is_ready = !is_ready;
                tokio::select! {
                    biased;
                    _ = &mut stopped => return,
                    () = tokio::time::sleep(PERIOD) => {}
                }
            }
        });
        Self { stop, task }
    }

    pub(crate) async fn stop(self) {
        // The task runs until this message.
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

/// The next change comes soon, so it does not matter if one fails.
#[expect(clippy::disallowed_methods, reason = "a real process reads this time")]
async fn change(client: &Client, is_ready: bool) {
    let _ = set_ready(client, POD, is_ready).await;
    let _ = renew_leaders_lease(client, jiff::Timestamp::now()).await;
}
