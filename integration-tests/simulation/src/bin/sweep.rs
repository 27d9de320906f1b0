//! Plays histories with a fault at each of their requests, on all cores.
#![expect(clippy::print_stdout, reason = "a program for people")]

use anyhow::ensure;
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use kube_endpoint_simulation::report;
use kube_endpoint_simulation::sweep::{Failure, Sweep, Swept, play};

/// Plays the named histories, and those of a seed in each of ten profiles, once for each fault at
/// each of their requests.
#[derive(Parser)]
struct Options {
    /// Only the histories whose name contains this. Those of seeds have the names of profiles, such
    /// as leaders-1.
    #[arg(default_value = "")]
    history: String,
    /// Play so many points, spread by chance.
    #[arg(long, conflicts_with = "from")]
    sample: Option<usize>,
    /// The seed that chooses the sample.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The first point. To go on after a stop, give the number that the progress showed.
    #[arg(long, default_value_t = 0)]
    from: usize,
    /// Print the number of points of each history, and play none.
    #[arg(long)]
    count: bool,
    /// Stop after so many failures.
    #[arg(long, default_value_t = 5)]
    failures: usize,
    /// Do not make the histories of failures shorter at the end.
    #[arg(long)]
    no_shrink: bool,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}, {per_sec}, {eta} left")?;
    let bar = ProgressBar::no_length().with_style(style.clone()).with_message("histories");
    let sweep = Sweep::of(&options.history, 1, || bar.inc(1))?;
    bar.finish_and_clear();
    ensure!(!sweep.targets.is_empty(), "no history has {:?} in its name", options.history);
    if options.count {
        for target in &sweep.targets {
            println!("{:>8}  {}", target.points.len(), target.name);
        }
        println!("{:>8}  in {} histories", sweep.points(), sweep.targets.len());
        return Ok(());
    }
    ensure!(options.from < sweep.points(), "the points are 0 to {}", sweep.points() - 1);
    let numbers: Vec<usize> = match options.sample {
        Some(count) => sweep.sample(count, options.seed),
        None => (options.from..sweep.points()).collect(),
    };
    let bar = ProgressBar::new((options.from + numbers.len()) as u64).with_position(options.from as u64);
    let bar = bar.with_style(style).with_message("points, no failures");
    let swept = play(&sweep, &numbers, options.failures, |failure| {
        bar.inc(1);
        if let Some(failure) = failure {
            bar.set_message("points, with failures");
            bar.suspend(|| print_failure(failure));
        }
    });
    bar.finish();
    print_result(&swept, &options);
    let failed = swept.failures.len();
    ensure!(failed == 0, "a rule did not hold at {failed} points");
    Ok(())
}

fn print_failure(Failure { number, name, history, violation }: &Failure) {
    println!("point {number} in {name}: {}\n  {violation}", history.steps[0]);
}

fn print_result(swept: &Swept, options: &Options) {
    for (name, [points, injected]) in &swept.by_history {
        println!("{points:>8}  {injected:>8} injected  {name}");
    }
    for (fault, [points, injected]) in &swept.by_fault {
        println!("{points:>8}  {injected:>8} injected  {fault}");
    }
    let [points, injected] = swept.points();
    println!("{points:>8}  {injected:>8} injected, {} failures", swept.failures.len());
    for failure in swept.failures.iter().filter(|_| !options.no_shrink) {
        println!("\npoint {} in {}", failure.number, failure.name);
        println!("{}", report(&failure.history, &failure.violation));
    }
}
