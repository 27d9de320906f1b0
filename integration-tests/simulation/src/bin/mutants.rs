//! Builds each mutant of the product in a copy of the sources, and plays histories until a rule
//! fails.
#![expect(clippy::print_stdout, reason = "a program for people")]

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use clap::Parser;
use kube_endpoint_simulation::mutants::{
    Catcher, Mutant, Played, Workshop, history_file, mutants, recorded, repository,
};

/// Builds each mutant in a copy of the sources, and plays histories until a rule fails: first the
/// seed, the named history or the small worlds that mutants/README.md names, then 30 seeds, the
/// other named histories, small worlds, and more seeds.
#[derive(Parser)]
struct Options {
    /// Only these mutants.
    names: Vec<String>,
    /// Play only what mutants/README.md names.
    #[arg(long)]
    recorded: bool,
    /// So many seeds have to catch a mutant.
    #[arg(long, default_value_t = 300)]
    seeds: u64,
    /// Ten seeds, or a named history, that have not been played after this time are taken not to
    /// end. In seconds.
    #[arg(long, default_value_t = 600)]
    limit: u64,
    /// Skip the mutants that were caught before, by this program or an interrupted run of it; print
    /// what caught them.
    #[arg(long)]
    resume: bool,
}

/// So many seeds are played by one process.
const SEEDS_AT_ONCE: u64 = 10;

/// So many seeds are played before the named histories, which are few; the other seeds after them.
const FEW_SEEDS: u64 = 30;

/// The size of the sample of small worlds.
const WORLDS: u64 = 100_000;

/// The fate of a mutant.
enum Fate {
    /// A rule failed.
    Caught(Catcher, String),
    /// No rule failed. If histories crashed or did not end, the first of them.
    Survived(Option<String>),
}

/// Plays histories on a program with a mutant.
struct Player<'a> {
    program: &'a Path,
    /// The program without the mutant.
    original: &'a Path,
    sources: &'a Path,
    limit: Duration,
    /// The first history that crashed or did not end.
    broken: Option<String>,
}

impl Player<'_> {
    fn run(&self, program: &Path, catcher: &Catcher) -> anyhow::Result<Played> {
        let arguments = match catcher {
            Catcher::Seed(seed) => ["--seed".to_owned(), seed.to_string()],
            Catcher::Named(name) => {
                ["--file".to_owned(), history_file(self.sources, name).to_string_lossy().into_owned()]
            }
            Catcher::Worlds => ["--worlds".to_owned(), WORLDS.to_string()],
        };
        let [option, value] = &arguments;
        Ok(Played::run(program, &["--no-shrink", option, value], self.limit)?)
    }

    /// Plays a history. It catches the mutant if a rule fails that holds without the mutant.
    fn try_one(&mut self, catcher: Catcher) -> anyhow::Result<Option<Fate>> {
        let played = self.run(self.program, &catcher)?;
        self.judge(played, catcher)
    }

    fn judge(&mut self, played: Played, catcher: Catcher) -> anyhow::Result<Option<Fate>> {
        let broken = match played {
            Played::Held => return Ok(None),
            Played::Failed { rule, .. } => {
                let unbroken = self.run(self.original, &catcher)?;
                ensure!(unbroken == Played::Held, "{catcher} fails without the mutant too: {unbroken:?}");
                return Ok(Some(Fate::Caught(catcher, rule)));
            }
            Played::Crashed(said) => format!("{catcher} crashed: {said}"),
            Played::TimedOut(limit) => format!("{catcher} had not ended after {limit:?}"),
        };
        self.broken.get_or_insert(broken);
        Ok(None)
    }

    fn try_seeds(&mut self, seeds: Range<u64>) -> anyhow::Result<Option<Fate>> {
        let mut first = seeds.start;
        while first < seeds.end {
            let count = SEEDS_AT_ONCE.min(seeds.end - first);
            let (number, from) = (count.to_string(), first.to_string());
            let arguments = [&number, "--from", &from, "--failures", "1", "--no-shrink"];
            let played = Played::run(self.program, &arguments, self.limit)?;
            let seed = if let Played::Failed { seed, .. } = played { seed } else { first };
            if let Some(fate) = self.judge(played, Catcher::Seed(seed))? {
                return Ok(Some(fate));
            }
            first += count;
        }
        Ok(None)
    }

    fn try_named(&mut self) -> anyhow::Result<Option<Fate>> {
        let folder = history_file(self.sources, "");
        let files = fs::read_dir(folder.parent().unwrap_or(&folder))?;
        let mut files: Vec<PathBuf> = files.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        files.sort();
        for file in files {
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if let Some(fate) = self.try_one(Catcher::Named(name))? {
                return Ok(Some(fate));
            }
        }
        Ok(None)
    }

    fn play(mut self, known: Option<&Catcher>, options: &Options) -> anyhow::Result<Fate> {
        if let Some(known) = known
            && let Some(fate) = self.try_one(known.clone())?
        {
            return Ok(fate);
        }
        if options.recorded {
            return Ok(Fate::Survived(self.broken));
        }
        let few = options.seeds.min(FEW_SEEDS);
        if let Some(fate) = self.try_seeds(0..few)? {
            return Ok(fate);
        }
        if let Some(fate) = self.try_named()? {
            return Ok(fate);
        }
        if let Some(fate) = self.try_one(Catcher::Worlds)? {
            return Ok(fate);
        }
        let fate = self.try_seeds(few..options.seeds)?;
        Ok(fate.unwrap_or(Fate::Survived(self.broken)))
    }
}

/// The file with the rows of the caught mutants.
struct Results(PathBuf);

impl Results {
    fn read(&self) -> String {
        fs::read_to_string(&self.0).unwrap_or_default()
    }

    fn clear(&self) -> anyhow::Result<String> {
        fs::write(&self.0, "").with_context(|| format!("writing {}", self.0.display()))?;
        Ok(String::new())
    }

    fn add(&self, row: &str) -> anyhow::Result<()> {
        let rows = self.read() + row + "\n";
        fs::write(&self.0, rows).with_context(|| format!("writing {}", self.0.display()))
    }
}

/// Prints the fates of the mutants, and keeps the tasks that follow from them.
struct Report {
    results: Results,
    recorded: BTreeMap<String, (Catcher, String)>,
    /// The mutants that no rule caught.
    survivors: Vec<String>,
    /// The rows that differ from those of mutants/README.md.
    new_rows: Vec<String>,
}

impl Report {
    fn add(&mut self, mutant: &Mutant, fate: anyhow::Result<Fate>) -> anyhow::Result<()> {
        let why = match fate {
            Ok(Fate::Caught(catcher, rule)) => {
                let row = format!("| `{}` | {} | {catcher} | {rule} |", mutant.name, mutant.sentence);
                println!("{row}");
                if self.recorded.get(&mutant.name) != Some(&(catcher, rule)) {
                    self.new_rows.push(row.clone());
                }
                return self.results.add(&row);
            }
            Ok(Fate::Survived(None)) => "no rule failed".to_owned(),
            Ok(Fate::Survived(Some(broken))) => format!("no rule failed; {broken}"),
            Err(error) => format!("{error:#}"),
        };
        println!("{}: {why}", mutant.name);
        self.survivors.push(mutant.name.clone());
        Ok(())
    }
}

fn chosen(options: &Options) -> anyhow::Result<Vec<Mutant>> {
    let mut chosen = mutants()?;
    for name in &options.names {
        ensure!(chosen.iter().any(|mutant| mutant.name == *name), "there is no mutant {name}");
    }
    chosen.retain(|mutant| options.names.is_empty() || options.names.contains(&mutant.name));
    // Mutants of one crate come one after another, so that cargo builds the crates below it once.
    chosen.sort_by_cached_key(Mutant::file);
    Ok(chosen)
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let mut chosen = chosen(&options)?;
    let root = repository().canonicalize()?;
    let workshop = Workshop::new(&root)?;
    let results = Results(root.join("target/mutants/results.md"));
    let known = if options.resume { results.read() } else { results.clear()? };
    chosen.retain(|mutant| {
        let row = known.lines().find(|row| row.starts_with(&format!("| `{}` |", mutant.name)));
        row.inspect(|row| println!("{row}")).is_none()
    });
    for mutant in &chosen {
        mutant.apply(&root, &["--check"])?;
    }
    println!("building without a mutant");
    let original = workshop.build("original")?;
    let recorded = recorded()?;
    let (workshop, original, options, catchers) = (&workshop, &original, &options, &recorded);
    let mut report =
        Report { results, recorded: recorded.clone(), survivors: Vec::new(), new_rows: Vec::new() };
    thread::scope(|scope| -> anyhow::Result<()> {
        // The program plays one mutant while it builds the next one.
        let mut playing: Option<(&Mutant, thread::ScopedJoinHandle<'_, anyhow::Result<Fate>>)> = None;
        for mutant in chosen.iter().map(Some).chain([None]) {
            let program = mutant.map(|mutant| workshop.build_mutant(mutant));
            if let Some((played, task)) = playing.take() {
                report.add(played, task.join().unwrap_or_else(|_| Err(anyhow!("its thread panicked"))))?;
            }
            playing = match (mutant, program) {
                (Some(mutant), Some(Ok(program))) => {
                    let task = scope.spawn(move || {
                        let limit = Duration::from_secs(options.limit);
                        let (program, sources) = (&*program, workshop.sources());
                        let player = Player { program, original, sources, limit, broken: None };
                        let known = catchers.get(&mutant.name).map(|(catcher, _)| catcher);
                        player.play(known, options)
                    });
                    Some((mutant, task))
                }
                (Some(mutant), Some(Err(error))) => {
                    report.add(mutant, Err(error))?;
                    None
                }
                _ => None,
            };
        }
        Ok(())
    })?;
    if !report.new_rows.is_empty() {
        println!(
            "integration-tests/simulation/mutants/README.md has other rows than these:\n{}",
            report.new_rows.join("\n")
        );
    }
    if !report.survivors.is_empty() {
        bail!("mutants that no rule caught: {}", report.survivors.join(", "));
    }
    Ok(())
}
