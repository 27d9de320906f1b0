//! Plays the histories of many seeds, and prints the shrunk history and a timeline of each one that
//! fails.
#![expect(clippy::print_stdout, reason = "a program for people")]

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use kube_endpoint_simulation::text::Field;
use kube_endpoint_simulation::{History, Profile, report, run_seeds, simulate_with_transcript};

/// Plays the histories of many seeds on all cores.
#[derive(Parser)]
struct Options {
    /// How many seeds.
    #[arg(default_value_t = 1000)]
    count: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Play one seed only.
    #[arg(long)]
    seed: Option<u64>,
    /// Play histories of this profile only.
    #[arg(long, value_parser = profile)]
    profile: Option<Profile>,
    /// Play the history in this file.
    #[arg(long)]
    file: Option<PathBuf>,
    /// Print the history and every request, change and step of it, instead of a summary. For one
    /// seed or file.
    #[arg(long)]
    transcript: bool,
    /// Stop after so many failures.
    #[arg(long, default_value_t = 5)]
    failures: usize,
    /// Print failing seeds without making their histories shorter.
    #[arg(long)]
    no_shrink: bool,
}

fn profile(text: &str) -> Result<Profile, String> {
    let all = || Profile::ALL.iter().map(|it| it.word()).collect::<Vec<_>>().join(", ");
    Profile::read(text).ok_or_else(|| format!("the profiles are {}", all()))
}

fn history(seed: u64, profile: Option<Profile>) -> History {
    profile.map_or_else(|| History::of(seed), |profile| History::with_profile(profile, seed))
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let one = match (&options.file, options.seed) {
        (Some(file), _) => {
            let text =
                std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
            Some(text.parse().with_context(|| format!("parsing {}", file.display()))?)
        }
        (None, Some(seed)) => Some(history(seed, options.profile)),
        (None, None) => None,
    };
    match one {
        Some(history) => play_one(&history, &options),
        None => play_many(&options),
    }
}

fn play_one(history: &History, options: &Options) -> anyhow::Result<()> {
    let outcome = simulate_with_transcript(history);
    if options.transcript {
        println!("{history}");
        outcome.transcript.iter().for_each(|line| println!("{}", line.text));
    }
    let Some(violation) = outcome.violation else {
        println!("all rules held: {:#?}", outcome.statistics);
        outcome.without_effect.iter().for_each(|step| println!("no effect: {step}"));
        return Ok(());
    };
    if options.transcript || options.no_shrink {
        println!("seed {}: {violation}", history.setup.seed);
    } else {
        println!("{}", report(history, &violation));
    }
    bail!("a rule did not hold")
}

fn play_many(options: &Options) -> anyhow::Result<()> {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left, {msg}")?;
    let bar = ProgressBar::new(options.count).with_style(style).with_message("no failures");
    let seeds = options.from..options.from + options.count;
    let run = run_seeds(seeds.clone(), options.profile, options.failures, |failures| {
        bar.inc(1);
        if failures > 0 {
            bar.set_message(format!("{failures} failures"));
        }
    });
    bar.finish();
    println!("{:#?}", run.statistics);
    println!(
        "seeds {seeds:?} in {:.1?}; the slowest was {} with {:.1?}",
        run.took, run.slowest.0, run.slowest.1
    );
    for failure in &run.failures {
        if options.no_shrink {
            println!("seed {}: {}", failure.seed, failure.violation);
        } else {
            println!("{}", report(&history(failure.seed, options.profile), &failure.violation));
        }
    }
    if run.failures.is_empty() {
        return Ok(());
    }
    let seeds: Vec<String> = run.failures.iter().map(|failure| failure.seed.to_string()).collect();
    bail!("failing seeds: {}", seeds.join(", "))
}
