//! What these tests share.

use std::time::Duration;

use kube_endpoint_integration_tests::processes::{Scene, Size, worst};

/// The program of the API server.
pub(crate) const APISERVER: &str = env!("CARGO_BIN_EXE_apiserver-process");

/// How long a process has to end.
pub(crate) const TO_END: Duration = Duration::from_secs(20);

/// How long a change may wait for its answer when a leader hands over to a standby.
pub(crate) const LONGEST_GAP: Duration = Duration::from_secs(1);

/// How long a change may wait after the server is back. The informers try again with client-go's backoff, which grows with the
/// outage: its delays double from 0.8 s on, and jitter doubles each at most.
pub(crate) fn longest_gap_after_outage(size: &Size) -> Duration {
    (size.outage + Duration::from_secs(1)) * 2
}

/// Three replicas under load.
pub(crate) async fn three_replicas(size: Size) -> Scene {
    Box::pin(Scene::with_replicas(APISERVER, size, 3)).await
}

/// Prints a measurement, which `--nocapture` shows.
pub(crate) fn report(what: &str, time: Duration) {
    println!("{what}: {:.2} s", time.as_secs_f64());
}

/// The longest time since `mark` that a change of a pod waited for its slice and its Endpoints. Prints it.
pub(crate) fn worst_since(scene: &mut Scene, mark: usize, what: &str) -> Duration {
    let longest = worst(&scene.answers_since(mark));
    report(what, longest);
    longest
}
