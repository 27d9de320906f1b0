//! Judges small worlds, all of them or some, on all cores.
#![expect(clippy::print_stdout, reason = "a program for people")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::bail;
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use kube_endpoint_simulation::worlds::{Judged, World, Worlds};

/// Judges small worlds on all cores: plans each, and looks at the traffic after each write.
#[derive(Parser)]
struct Options {
    /// The first world: with the number that a run has printed, it goes on where that ended.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many worlds; all from the first one by default.
    #[arg(long)]
    count: Option<u64>,
    /// Stop after so many failures.
    #[arg(long, default_value_t = 5)]
    failures: usize,
}

/// How many worlds a thread takes at once.
const BATCH: u64 = 1000;

fn main() -> anyhow::Result<()> {
    let Options { from, count, failures } = Options::parse();
    let from = from.min(Worlds::COUNT);
    let end = count.map_or(Worlds::COUNT, |count| from.saturating_add(count).min(Worlds::COUNT));
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} worlds, {per_sec}, {eta} left, {msg}")?;
    let bar = ProgressBar::new(end - from).with_style(style).with_message("no failures");
    let (next, total, broken) = (AtomicU64::new(from), Mutex::new(Judged::default()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let first = next.fetch_add(BATCH, Ordering::Relaxed);
                    if first >= end || broken.lock().is_ok_and(|broken| broken.len() >= failures) {
                        break;
                    }
                    let mut judged = Judged::default();
                    for number in first..end.min(first + BATCH) {
                        match World::of(number).judge() {
                            Ok(one) => judged.add(one),
                            Err(law) => {
                                if let Ok(mut broken) = broken.lock() {
                                    broken.push((number, law));
                                    bar.set_message(format!("{} failures", broken.len()));
                                }
                            }
                        }
                    }
                    if let Ok(mut total) = total.lock() {
                        total.add(judged);
                    }
                    bar.inc(BATCH);
                }
            });
        }
    });
    bar.finish();
    if let Ok(total) = total.into_inner() {
        println!("worlds {from} to {} of {}: {total:#?}", next.into_inner().min(end), Worlds::COUNT);
    }
    let mut broken = broken.into_inner().unwrap_or_default();
    broken.sort_by_key(|(number, _)| *number);
    for (number, law) in broken.iter().take(failures) {
        println!("world {number}: {}: {}\n{}", law.law, law.detail, World::of(*number));
    }
    if !broken.is_empty() {
        bail!("a law does not hold in {} worlds", broken.len());
    }
    Ok(())
}
