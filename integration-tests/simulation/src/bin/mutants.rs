//! Builds each mutant of the product in a copy of the sources, and plays seeds until one of them fails.
#![expect(clippy::print_stdout, reason = "a program for people")]

use std::fs;
use std::io::{Read, Seek};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use clap::Parser;
use kube_endpoint_simulation::mutants::{Mutant, mutants, repository};
use tokio::time::Instant;

/// Builds each mutant in a copy of the sources, and plays seeds until one of them fails.
#[derive(Parser)]
struct Options {
    /// Only these mutants.
    names: Vec<String>,
    /// So many seeds have to catch a mutant.
    #[arg(long, default_value_t = 300)]
    seeds: u64,
    /// Ten seeds that have not been played after this time are taken not to end. In seconds.
    #[arg(long, default_value_t = 600)]
    limit: u64,
    /// Skip the mutants that were caught before, by this program or an interrupted run of it; print what caught them.
    #[arg(long)]
    resume: bool,
}

/// So many seeds are played by one process.
const SEEDS_AT_ONCE: usize = 10;

/// So many seeds are played before the named histories, which are few; the other seeds after them.
const FEW_SEEDS: u64 = 30;

/// What became of a mutant.
enum Fate {
    /// A seed or a named history failed: which, and the rule.
    Caught(String, String),
    /// Nothing failed.
    Survived,
}

/// The copy of the sources, the target directory and the programs.
struct Workshop {
    sources: PathBuf,
    target: PathBuf,
    programs: PathBuf,
}

impl Workshop {
    fn new(root: &Path) -> anyhow::Result<Self> {
        let folder = root.join("target/mutants");
        let this = Self {
            sources: folder.join("sources"),
            target: folder.join("target"),
            programs: folder.join("programs"),
        };
        fs::create_dir_all(&this.programs)?;
        this.copy_sources(root)?;
        Ok(this)
    }

    /// Copies what git knows, or would add. Equal files are left alone, so that cargo builds nothing for them.
    fn copy_sources(&self, root: &Path) -> anyhow::Result<()> {
        let mut list = Command::new("git");
        list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
        let list = list.output().context("listing the sources")?;
        ensure!(list.status.success(), "git ls-files: {}", String::from_utf8_lossy(&list.stderr));
        let names = String::from_utf8(list.stdout)?;
        let known = self.sources.with_extension("list");
        for name in fs::read_to_string(&known).unwrap_or_default().split('\0') {
            if !name.is_empty() && !names.split('\0').any(|it| it == name) {
                // It may be gone already.
                let _ = fs::remove_file(self.sources.join(name));
            }
        }
        for name in names.split('\0').filter(|name| !name.is_empty()) {
            let (from, to) = (root.join(name), self.sources.join(name));
            if !from.is_file() {
                continue;
            }
            let content = fs::read(&from)?;
            if fs::read(&to).is_ok_and(|old| old == content) {
                continue;
            }
            fs::create_dir_all(to.parent().unwrap_or(&self.sources))?;
            fs::write(&to, content)?;
        }
        fs::write(known, names)?;
        Ok(())
    }

    /// Builds the sources as they are, and keeps the program under a name.
    fn build(&self, name: &str) -> anyhow::Result<PathBuf> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--package", "kube-endpoint-simulation", "--bin", "simulate"]);
        build.current_dir(&self.sources).env("CARGO_TARGET_DIR", &self.target).env("CARGO_INCREMENTAL", "1");
        let output = build.output().context("running cargo")?;
        ensure!(
            output.status.success(),
            "{name} does not build:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let program = self.programs.join(name);
        fs::copy(self.target.join("debug/simulate"), &program)?;
        Ok(program)
    }

    fn build_mutant(&self, mutant: &Mutant) -> anyhow::Result<PathBuf> {
        mutant.apply(&self.sources, &[])?;
        let program = self.build(&mutant.name);
        mutant.apply(&self.sources, &["--reverse"])?;
        program
    }

    /// Runs a program until it ends; none if it does not within the limit. Returns whether it succeeded, and its output.
    fn run(
        &self,
        program: &Path,
        arguments: &[&str],
        limit: Duration,
    ) -> anyhow::Result<Option<(bool, String)>> {
        let mut output = tempfile::tempfile()?;
        let mut command = Command::new(program);
        command.args(arguments).stdout(output.try_clone()?).stderr(Stdio::null());
        let mut child: Child = command.spawn()?;
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if began.elapsed() > limit {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(200));
        };
        let mut text = String::new();
        output.rewind()?;
        output.read_to_string(&mut text)?;
        Ok(Some((status.success(), text)))
    }

    fn play(&self, program: &Path, original: &Path, options: &Options) -> anyhow::Result<Fate> {
        let limit = Duration::from_secs(options.limit);
        let few = options.seeds.min(FEW_SEEDS);
        for seeds in [0..few, few..options.seeds] {
            if let Some(caught) = self.play_seeds(program, original, seeds.clone(), limit)? {
                return Ok(caught);
            }
            if seeds.start == 0
                && let Some(caught) = self.play_histories(program, limit)?
            {
                return Ok(caught);
            }
        }
        Ok(Fate::Survived)
    }

    fn play_seeds(
        &self,
        program: &Path,
        original: &Path,
        seeds: Range<u64>,
        limit: Duration,
    ) -> anyhow::Result<Option<Fate>> {
        for first in seeds.clone().step_by(SEEDS_AT_ONCE) {
            let count = (SEEDS_AT_ONCE as u64).min(seeds.end - first).to_string();
            let arguments = [&count, "--from", &first.to_string(), "--failures", "1", "--no-shrink"];
            let Some((succeeds, text)) = self.run(program, &arguments, limit)? else {
                return Ok(Some(Fate::Caught(first.to_string(), "runs end".to_owned())));
            };
            let failure = text.lines().find_map(|line| line.strip_prefix("seed ")?.split_once(": "));
            if let Some((seed, violation)) = failure {
                let unbroken = self.run(original, &["--seed", seed], limit)?;
                let succeeds = unbroken.is_some_and(|(succeeds, _)| succeeds);
                ensure!(succeeds, "seed {seed} fails without {} too", program.display());
                return Ok(Some(Fate::Caught(seed.to_owned(), rule(violation))));
            }
            ensure!(succeeds, "the program fails without a failing seed: {text}");
        }
        Ok(None)
    }

    fn play_histories(&self, program: &Path, limit: Duration) -> anyhow::Result<Option<Fate>> {
        let histories = self.sources.join("integration-tests/simulation/tests/histories");
        let mut files: Vec<PathBuf> =
            fs::read_dir(histories)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        files.sort();
        for file in files {
            let (path, name) = (file.to_string_lossy(), file.file_stem().unwrap_or_default());
            let Some((succeeds, text)) = self.run(program, &["--no-shrink", "--file", &path], limit)? else {
                return Ok(Some(Fate::Caught(
                    format!("`{}`", name.to_string_lossy()),
                    "runs end".to_owned(),
                )));
            };
            if !succeeds {
                let violation = text.lines().next().unwrap_or_default();
                return Ok(Some(Fate::Caught(format!("`{}`", name.to_string_lossy()), rule(violation))));
            }
        }
        Ok(None)
    }
}

/// The file with the rows of the mutants that were caught.
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

/// The rule of a printed violation: `TIME RULE: OBJECT: DETAIL`.
fn rule(violation: &str) -> String {
    let after_time = violation.split_once(' ').map_or(violation, |(_, rest)| rest);
    after_time.split(": ").next().unwrap_or_default().to_owned()
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let mut chosen = mutants()?;
    for name in &options.names {
        ensure!(chosen.iter().any(|mutant| mutant.name == *name), "there is no mutant {name}");
    }
    chosen.retain(|mutant| options.names.is_empty() || options.names.contains(&mutant.name));
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
    let (workshop, original, options) = (&workshop, &original, &options);
    let mut failures = Vec::new();
    let mut report = |mutant: &Mutant, fate: anyhow::Result<Fate>| -> anyhow::Result<()> {
        match fate {
            Ok(Fate::Caught(seed, rule)) => {
                let row = format!("| `{}` | {} | {seed} | {rule} |", mutant.name, mutant.sentence);
                println!("{row}");
                return results.add(&row);
            }
            Ok(Fate::Survived) => println!("| `{}` | {} | none | |", mutant.name, mutant.sentence),
            Err(error) => println!("{}: {error:#}", mutant.name),
        }
        failures.push(mutant.name.clone());
        Ok(())
    };
    thread::scope(|scope| -> anyhow::Result<()> {
        // One mutant is played while the next one is built.
        let mut playing: Option<(&Mutant, thread::ScopedJoinHandle<'_, anyhow::Result<Fate>>)> = None;
        for mutant in chosen.iter().map(Some).chain([None]) {
            let program = mutant.map(|mutant| workshop.build_mutant(mutant)).transpose()?;
            if let Some((played, task)) = playing.take() {
                report(played, task.join().unwrap_or_else(|_| Err(anyhow!("its thread panicked"))))?;
            }
            playing = mutant.zip(program).map(|(mutant, program)| {
                (mutant, scope.spawn(move || workshop.play(&program, original, options)))
            });
        }
        Ok(())
    })?;
    if !failures.is_empty() {
        bail!("mutants that nothing caught: {}", failures.join(", "));
    }
    Ok(())
}
