//! Builds each mutant of the product in a copy of the sources, and plays seeds until one of them fails.
#![expect(clippy::print_stdout, reason = "a program for people")]

use std::fs;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
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
    /// A mutant whose seeds have not all been played after this time does not end. In seconds.
    #[arg(long, default_value_t = 900)]
    limit: u64,
}

/// What became of a mutant.
enum Fate {
    /// A seed or a named history failed: which, and the rule.
    Caught(String, String),
    /// The runs did not end.
    Endless,
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
        let seeds = options.seeds.to_string();
        let Some((_, text)) = self.run(program, &[&seeds, "--failures", "1", "--no-shrink"], limit)? else {
            return Ok(Fate::Endless);
        };
        let failure = text.lines().find_map(|line| line.strip_prefix("seed ")?.split_once(": "));
        if let Some((seed, violation)) = failure {
            let unbroken = self.run(original, &["--seed", seed], limit)?;
            ensure!(unbroken.is_some_and(|(succeeds, _)| succeeds), "seed {seed} fails without a mutant too");
            return Ok(Fate::Caught(seed.to_owned(), rule(violation)));
        }
        let histories = self.sources.join("integration-tests/simulation/tests/histories");
        let mut files: Vec<PathBuf> =
            fs::read_dir(histories)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        files.sort();
        for file in files {
            let (path, name) = (file.to_string_lossy(), file.file_stem().unwrap_or_default());
            let Some((succeeds, text)) = self.run(program, &["--no-shrink", "--file", &path], limit)? else {
                return Ok(Fate::Endless);
            };
            if !succeeds {
                let violation = text.lines().next().unwrap_or_default();
                return Ok(Fate::Caught(format!("`{}`", name.to_string_lossy()), rule(violation)));
            }
        }
        Ok(Fate::Survived)
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
    for mutant in &chosen {
        mutant.apply(&root, &["--check"])?;
    }
    let workshop = Workshop::new(&root)?;
    println!("building without a mutant");
    let original = workshop.build("original")?;
    let (workshop, original, options) = (&workshop, &original, &options);
    let mut survivors = Vec::new();
    let mut report = |mutant: &Mutant, fate: Fate| {
        let (seed, rule) = match fate {
            Fate::Caught(seed, rule) => (seed, rule),
            Fate::Endless => ("any".to_owned(), "a run ends".to_owned()),
            Fate::Survived => {
                survivors.push(mutant.name.clone());
                ("none".to_owned(), String::new())
            }
        };
        println!("| `{}` | {} | {seed} | {rule} |", mutant.name, mutant.sentence);
    };
    thread::scope(|scope| -> anyhow::Result<()> {
        // One mutant is played while the next one is built.
        let mut playing: Option<(&Mutant, thread::ScopedJoinHandle<'_, anyhow::Result<Fate>>)> = None;
        for mutant in chosen.iter().map(Some).chain([None]) {
            let program = mutant.map(|mutant| workshop.build_mutant(mutant)).transpose()?;
            if let Some((played, task)) = playing.take() {
                let fate =
                    task.join().map_err(|_| anyhow::anyhow!("the thread of {} panicked", played.name))??;
                report(played, fate);
            }
            playing = mutant.zip(program).map(|(mutant, program)| {
                (mutant, scope.spawn(move || workshop.play(&program, original, options)))
            });
        }
        Ok(())
    })?;
    if !survivors.is_empty() {
        bail!("mutants that nothing caught: {}", survivors.join(", "));
    }
    Ok(())
}
