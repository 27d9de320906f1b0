//! Plays histories with a fault at each of their requests, on all cores.
#![expect(clippy::print_stdout, reason = "a program for people")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use kube_endpoint_simulation::report;
use kube_endpoint_simulation::sweep::{Failure, Sweep, Swept, play};
use tokio::time::Instant;

/// Plays the named histories, and those of ten seeds, once for each fault at each of their
/// requests.
#[derive(Parser)]
struct Options {
    /// Only the histories whose name contains this. Those of seeds are seed-0 to seed-9.
    #[arg(default_value = "")]
    history: String,
    /// Play so many points, spread by chance.
    #[arg(long, conflicts_with_all = ["from", "resume"])]
    sample: Option<usize>,
    /// The seed that chooses the sample.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The first point.
    #[arg(long, default_value_t = 0)]
    from: usize,
    /// Go on where the last run ended or was stopped.
    #[arg(long)]
    resume: bool,
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
    let sweep = Sweep::of(&options.history, 1, |_| bar.inc(1))?;
    bar.finish_and_clear();
    ensure!(!sweep.targets.is_empty(), "no history has {:?} in its name", options.history);
    if options.count {
        for target in &sweep.targets {
            println!("{:>8}  {}", target.points(), target.name);
        }
        println!("{:>8}  in {} histories", sweep.points(), sweep.targets.len());
        return Ok(());
    }
    let saved = Saved { file: PathBuf::from("target/sweep.txt"), options: &options, points: sweep.points() };
    let numbers: Vec<usize> = match options.sample {
        Some(count) => sweep.sample(count, options.seed),
        None if options.resume => (saved.read()?..sweep.points()).collect(),
        None => (options.from..sweep.points()).collect(),
    };
    if options.sample.is_none() {
        // An error comes now and not when all points have been played.
        saved.write(numbers.first().copied().unwrap_or(sweep.points()))?;
    }
    let bar = ProgressBar::new(numbers.len() as u64).with_style(style).with_message("points, no failures");
    let done = Mutex::new((BTreeSet::new(), Instant::now()));
    let next_of = |done: &BTreeSet<usize>| numbers.iter().copied().find(|number| !done.contains(number));
    let swept = play(&sweep, &numbers, options.failures, |number, failure| {
        bar.inc(1);
        if let Some(failure) = failure {
            bar.set_message("points, with failures");
            bar.suspend(|| print_failure(failure));
        }
        let Ok(mut done) = done.lock() else { return };
        done.0.insert(number);
        if options.sample.is_none() && done.1.elapsed() > Duration::from_secs(5) {
            done.1 = Instant::now();
            // The next save makes up for one that fails.
            let _ = saved.write(next_of(&done.0).unwrap_or(sweep.points()));
        }
    });
    bar.finish();
    let printed = print_result(&swept, &options);
    if options.sample.is_none()
        && let Ok((done, _)) = done.into_inner()
    {
        saved.write(next_of(&done).unwrap_or(sweep.points()))?;
    }
    printed
}

fn print_failure(Failure { number, name, history, violation, .. }: &Failure) {
    println!("point {number} in {name}: {}\n  {violation}", history.steps[0]);
}

fn print_result(swept: &Swept, options: &Options) -> anyhow::Result<()> {
    for (name, [points, struck]) in &swept.by_history {
        println!("{points:>8}  {struck:>8} struck  {name}");
    }
    for (strike, [points, struck]) in &swept.by_strike {
        println!("{points:>8}  {struck:>8} struck  {strike}");
    }
    let [points, struck] = swept.points();
    println!("{points:>8}  {struck:>8} struck, {} failures", swept.failures.len());
    for failure in swept.failures.iter().filter(|_| !options.no_shrink) {
        println!("\npoint {} in {}", failure.number, failure.name);
        println!("{}", report(&failure.history, &failure.violation));
    }
    if !swept.failures.is_empty() {
        bail!("a rule did not hold at {} points", swept.failures.len());
    }
    Ok(())
}

/// The file with the first point that a run has not played.
struct Saved<'a> {
    file: PathBuf,
    options: &'a Options,
    points: usize,
}

impl Saved<'_> {
    fn of(&self) -> String {
        format!("of {} in {:?}", self.points, self.options.history)
    }

    fn write(&self, next: usize) -> anyhow::Result<()> {
        let written = fs::create_dir_all("target")
            .and_then(|()| fs::write(&self.file, format!("{next} {}", self.of())));
        written.with_context(|| format!("writing {}", self.file.display()))
    }

    fn read(&self) -> anyhow::Result<usize> {
        let file = self.file.display();
        let text = fs::read_to_string(&self.file)
            .with_context(|| format!("no run has left {file}: start without --resume"))?;
        let next = text.split_once(' ').filter(|(_, of)| *of == self.of());
        next.and_then(|(next, _)| next.parse().ok()).with_context(|| {
            format!("{file} says {text:?}, and these are the points {}: start without --resume", self.of())
        })
    }
}
