//! Plays histories with a fault at each of their requests, on all cores.
#![expect(clippy::print_stdout, reason = "a program for people")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use kube_endpoint_simulation::report;
use kube_endpoint_simulation::sweep::{Failure, Sweep, Swept, play};
use tokio::time::Instant;

/// Plays the named histories, and those of a seed in each of ten profiles, once for each fault at
/// each of their requests.
#[derive(Parser)]
struct Options {
    /// Only the histories whose name contains this. Those of seeds have the names of profiles, such
    /// as leaders-1.
    #[arg(default_value = "")]
    history: String,
    /// Play so many points, spread by chance.
    #[arg(long, conflicts_with_all = ["from", "resume"])]
    sample: Option<usize>,
    /// The seed that chooses the sample.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The first point.
    #[arg(long, default_value_t = 0, conflicts_with = "resume")]
    from: usize,
    /// Go on where the last run of these histories ended or was stopped. Its failures count.
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
    let file = SaveFile::new(&options.history, sweep.points());
    let saved = if options.resume { file.read()? } else { Saved::at(options.from) };
    let numbers: Vec<usize> = match options.sample {
        Some(count) => sweep.sample(count, options.seed),
        None => (saved.next..sweep.points()).collect(),
    };
    let is_saved = options.sample.is_none();
    if is_saved {
        // An error comes now and not when all points have been played.
        file.write(&saved)?;
    }
    let bar = ProgressBar::new(numbers.len() as u64).with_style(style).with_message("points, no failures");
    let done = Mutex::new(Progress { saved: saved.clone(), ahead: BTreeSet::new(), written: Instant::now() });
    let swept = play(&sweep, &numbers, options.failures, |number, failure| {
        bar.inc(1);
        if let Some(failure) = failure {
            bar.set_message("points, with failures");
            bar.suspend(|| print_failure(failure));
        }
        let Ok(mut done) = done.lock() else { return };
        done.played(number, failure.is_some());
        if is_saved && done.written.elapsed() > Duration::from_secs(5) {
            done.written = Instant::now();
            // The next save makes up for one that fails.
            let _ = file.write(&done.saved);
        }
    });
    bar.finish();
    print_result(&swept, &options);
    if !saved.failed.is_empty() {
        println!("the run before failed at the points {:?}", saved.failed);
    }
    if is_saved && let Ok(done) = done.into_inner() {
        file.write(&done.saved)?;
    }
    let failed = saved.failed.len() + swept.failures.len();
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

/// The points that have been played: those before `next`.
#[derive(Clone)]
struct Saved {
    next: usize,
    failed: Vec<usize>,
}

impl Saved {
    fn at(next: usize) -> Self {
        Self { next, failed: Vec::new() }
    }
}

struct Progress {
    saved: Saved,
    /// Points after `saved.next` that have been played, too.
    ahead: BTreeSet<usize>,
    /// The time of the last save.
    written: Instant,
}

impl Progress {
    fn played(&mut self, number: usize, has_failed: bool) {
        self.ahead.insert(number);
        self.saved.failed.extend(has_failed.then_some(number));
        while self.ahead.remove(&self.saved.next) {
            self.saved.next += 1;
        }
    }
}

/// The file with the progress of a run.
struct SaveFile {
    path: PathBuf,
    points: usize,
}

impl SaveFile {
    fn new(histories: &str, points: usize) -> Self {
        let name = if histories.is_empty() { "all" } else { histories };
        Self { path: format!("target/sweep/{name}.txt").into(), points }
    }

    fn write(&self, saved: &Saved) -> anyhow::Result<()> {
        let failed: String = saved.failed.iter().map(|number| format!(" {number}")).collect();
        let text = format!("{} of {}, failed:{failed}\n", saved.next, self.points);
        let folder = self.path.parent().unwrap_or(&self.path);
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&self.path, text));
        written.with_context(|| format!("writing {}", self.path.display()))
    }

    fn read(&self) -> anyhow::Result<Saved> {
        let file = self.path.display();
        let text = fs::read_to_string(&self.path)
            .with_context(|| format!("no run has left {file}: start without --resume"))?;
        let read = || {
            let (next, rest) = text.split_once(&format!(" of {}, failed:", self.points))?;
            let failed = rest.split_whitespace().map(|number| number.parse().ok()).collect::<Option<_>>()?;
            Some(Saved { next: next.parse().ok()?, failed })
        };
        read().with_context(|| {
            format!("{file} is not of these {} points but says {text:?}: start without --resume", self.points)
        })
    }
}
