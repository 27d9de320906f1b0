//! Measures how much a large Service that changes all the time delays the others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::measure::{Flips, Round};
use crate::progress::Progress;

/// The number of changes of the large Service, which go on as long as those of the others.
const ENDLESS: usize = usize::MAX;

/// Measures the small Services alone, and then beside the large one.
pub(crate) async fn measure(round: &mut Round<'_>, big_rate: f64) -> anyhow::Result<()> {
    let small = |seed| Flips {
        pods: (0..round.filled.workload.pods).collect(),
        count: round.plan.flips,
        rate: round.plan.rate,
        seed,
    };
    let (alone, beside) = (small(round.plan.seed), small(round.plan.seed + 1));
    let big_pods: Vec<usize> = round.filled.workload.pods_of_big_only().collect();

    round.begin()?;
    let progress = Progress::steps("small Services alone", alone.count);
    let unready = alone.run(round.server, round.filled, &round.watches, &progress).await?;
    round.answers().await?;
    let latencies = round.latencies(|_| true)?;
    round.note_latencies("alone", &latencies);
    round.make_ready(unready).await?;
    drop(progress);
    tokio::time::sleep(Duration::from_secs(1)).await;

    let before = round.begin()?;
    let progress = Progress::steps("beside the large Service", beside.count);
    let done = AtomicBool::new(false);
    let big = Flips { pods: big_pods, count: ENDLESS, rate: big_rate, seed: round.plan.seed + 2 };
    let (unready, big) = {
        let hidden = Progress::waiting("");
        let small = async {
            let unready = beside.run(round.server, round.filled, &round.watches, &progress).await;
            done.store(true, Ordering::Relaxed);
            unready
        };
        let big = big.run_until(&done, round.server, round.filled, &round.watches, &hidden);
        tokio::try_join!(small, big)?
    };
    round.answers().await?;
    round.child.check()?;
    round.end("churn", before)?;
    let latencies = round.latencies(|(is_big, _)| !is_big)?;
    round.note_latencies("beside", &latencies);
    let latencies = round.latencies(|(is_big, _)| is_big)?;
    round.note_latencies("big", &latencies);
    round.note("big_flips", big.count as f64);
    if let (Some(alone), Some(beside)) =
        (round.figures.get("alone_p99_ms").copied(), round.figures.get("beside_p99_ms").copied())
    {
        round.note("beside_over_alone", beside / alone);
    }
    round.make_ready(unready).await?;
    round.make_ready(big.unready).await
}
