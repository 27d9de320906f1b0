//! Changes that follow one another.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use serde_json::{Value, json};

use super::Simulation;

/// Half of the time between two changes.
const HALF: Duration = Duration::from_millis(5);

/// Makes pods with `make`, which gets a name, a number and the readiness. Each pod gets an address
/// of its own.
pub fn numbered_pods(
    make: fn(&str, u8, bool) -> Value,
    numbers: Range<usize>,
    ready: bool,
) -> impl Iterator<Item = Value> {
    numbers.map(move |number| {
        let mut pod = make(&format!("p{number}"), 0, ready);
        let ip = format!("10.2.{}.{}", number / 250, number % 250 + 1);
        pod["status"]["podIPs"] = json!([{"ip": ip}]);
        pod["status"]["podIP"] = json!(ip);
        pod
    })
}

/// Returns a pod as it is before it has an address: created, bound to its node, and twice with one
/// more restart of its init container.
pub fn without_an_address(pod: &Value) -> [Value; 4] {
    let mut created = pod.clone();
    created["spec"]["nodeName"] = Value::Null;
    created["status"] = json!({"phase": "Pending"});
    let bound = |restarts: u32| {
        let mut pod = pod.clone();
        pod["status"] = json!({
            "phase": "Pending",
            "conditions": [{"type": "Ready", "status": "False"}],
            "initContainerStatuses": [{"name": "init", "ready": false, "restartCount": restarts}],
        });
        pod
    };
    [created, bound(0), bound(1), bound(2)]
}

impl<C> Simulation<C> {
    /// Loads objects, one every ten milliseconds; `patch` changes the Service `web` after 45 ms.
    /// Returns when the controller wrote, in milliseconds from the first write, which comes at
    /// once.
    ///
    /// # Panics
    ///
    /// If the controller does not write the first change at once.
    pub async fn written_at(
        &self,
        changes: impl IntoIterator<Item = Value>,
        mut patch: Option<Value>,
    ) -> Vec<u128> {
        self.server.clear_request_log();
        for (number, change) in changes.into_iter().enumerate() {
            self.load([change]);
            self.pass(HALF).await;
            assert!(!self.server.request_log().is_empty(), "the first change is written at once");
            if number == 4
                && let Some(patch) = patch.take()
            {
                self.patch("services", "web", patch).await;
            }
            self.pass(HALF).await;
        }
        self.pass(Duration::from_secs(5)).await;
        let writes = self.timed_writes();
        let first = writes.first().map_or(0, |(at, _)| *at);
        let times: BTreeSet<u128> = writes.iter().map(|(at, _)| at - first).collect();
        times.into_iter().collect()
    }
}
