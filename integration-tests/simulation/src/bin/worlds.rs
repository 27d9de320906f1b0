//! Judges small worlds, all of them or some, on all cores.
#![expect(clippy::print_stdout, reason = "a program for people")]

use anyhow::bail;
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use kube_endpoint_simulation::worlds::{Worlds, judge};

/// Judges small worlds on all cores: plans each, and looks at the traffic after each write.
#[derive(Parser)]
struct Options {
    /// The first place, in an order in which the first worlds of any count are spread evenly.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..Worlds::COUNT))]
    from: u64,
    /// How many worlds; all from the first place by default.
    #[arg(long)]
    count: Option<u64>,
    /// Stop after so many failures.
    #[arg(long, default_value_t = 5)]
    failures: usize,
}

fn main() -> anyhow::Result<()> {
    let Options { from, count, failures } = Options::parse();
    let end = count.map_or(Worlds::COUNT, |count| from.saturating_add(count).min(Worlds::COUNT));
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} worlds, {per_sec}, {eta} left, {msg}")?;
    let bar = ProgressBar::new(end - from).with_style(style).with_message("no failures");
    let verdict = judge(from..end, failures, |broken| {
        bar.inc(1);
        if broken > 0 {
            bar.set_message(format!("{broken} failures"));
        }
    });
    bar.finish();
    println!("places {from} to {} of {}: {:#?}", verdict.next, Worlds::COUNT, verdict.judged);
    if let Some(report) = verdict.report() {
        println!("{report}");
        bail!("a law does not hold in {} worlds", verdict.broken.len());
    }
    Ok(())
}
