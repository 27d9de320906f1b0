//! Helpers of these tests.
#![expect(clippy::disallowed_methods, reason = "it waits for real processes")]

use std::time::{Duration, Instant};

use kube_endpoint_integration_tests::processes::{Pages, Scene, Size, worst};

/// The program of the API server.
pub(crate) const APISERVER: &str = env!("CARGO_BIN_EXE_apiserver-process");

/// The time limit for the end of a process.
pub(crate) const TO_END: Duration = Duration::from_secs(20);

/// How long a change may wait for its answer when a leader hands over to a standby.
pub(crate) const LONGEST_GAP: Duration = Duration::from_secs(1);

/// Returns how long a change may wait after the server is back. The informers try again with
/// client-go's backoff, which grows with the outage: its delays double from 0.8 s on, and jitter
/// doubles each at most.
pub(crate) fn longest_gap_after_outage(size: &Size) -> Duration {
    (size.outage + Duration::from_secs(1)) * 2
}

/// Starts three replicas under load.
pub(crate) async fn three_replicas(size: Size) -> Scene {
    Box::pin(Scene::with_replicas(APISERVER, size, 3)).await
}

/// Prints a measurement, which `--nocapture` shows.
pub(crate) fn report(what: &str, time: Duration) {
    println!("{what}: {:.2} s", time.as_secs_f64());
}

/// Returns the longest time since `mark` that a change of a pod waited for its slice and its
/// Endpoints. Prints it.
pub(crate) fn worst_since(scene: &mut Scene, mark: usize, what: &str) -> Duration {
    let longest = worst(&scene.answers_since(mark));
    report(what, longest);
    longest
}

/// Probes until `stop`, ten times a second. Returns the times that the probes took, the shortest
/// first. A probe that takes five times the limit fails.
pub(crate) async fn probes(
    pages: Pages,
    limit: Duration,
    mut stop: tokio::sync::oneshot::Receiver<()>,
) -> Vec<Duration> {
    let mut times = Vec::new();
    while stop.try_recv().is_err() {
        let start = Instant::now();
        let answer = tokio::time::timeout(limit * 5, pages.read("/livez")).await;
        let (status, body) = answer.expect("a probe has no answer").unwrap();
        assert_eq!((status, &*body), (200, "ok"));
        times.push(start.elapsed());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    times.sort_unstable();
    times
}
