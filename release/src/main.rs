//! Makes the files of a release (`release/build`), and checks what publishing needs
//! (`release/publish`, [`publish`]). docs/releasing.md says how to use them.
//!
//! The same commit gives the same bytes for every user, at every path, on every day:
//!
//! - [`source`] reads the version, the commit and its time, and refuses what is not in the commit;
//! - [`target`] names the platforms and the programs, and the tools that a platform needs;
//! - [`compile`] makes the programs, which name no path of the machine, and splits their debug
//!   symbols off;
//! - [`bill`] lists the crates that a program is made of;
//! - [`archive`] packs files in order, with one time and one owner;
//! - [`image`] makes the container image, and [`deploy`] the chart, the kustomizations and the krew
//!   manifest, which name its digest;
//! - [`plan`] names the files and their destinations.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it reports on a terminal")]

mod archive;
mod bill;
mod compile;
mod deploy;
mod image;
mod plan;
mod publish;
mod source;
mod target;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser};

use archive::Entry;
use source::Source;
use target::{Program, Target};

/// Makes the files of a release: archives, symbols, bills of materials, a container image, a chart,
/// kustomizations, a krew manifest, and their SHA-256 sums.
#[derive(Args)]
pub(crate) struct Options {
    /// The version, such as 0.1.0: that of Cargo.toml and of the chart
    version: String,
    /// Platform, by Rust's name; may be repeated [default: both of Linux and Windows, on macOS both
    /// of macOS]
    #[arg(long = "target", value_enum, value_name = "TARGET")]
    targets: Vec<Target>,
    /// Profile of Cargo; a release has "dist"
    #[arg(long, default_value = "dist")]
    profile: String,
    /// Folder of the files; it may have archives of other platforms already [default:
    /// target/release-VERSION]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Print what would be made and where the workflow would push it, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Build although files differ from the commit; the programs then call the commit dirty
    #[arg(long)]
    allow_dirty: bool,
}

/// The scripts of this folder, each a command.
#[derive(Parser)]
#[command(name = "release")]
enum CommandLine {
    Build(Options),
    Publish(publish::Options),
}

fn main() -> ExitCode {
    let done = match CommandLine::parse() {
        CommandLine::Build(options) => run(options),
        CommandLine::Publish(options) => publish::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> Result<()> {
    let source = Source::read(Some(&options.version), options.allow_dirty || options.dry_run)?;
    let targets = match options.targets {
        targets if !targets.is_empty() => targets,
        // Those of all machines.
        _ if options.dry_run => Target::ALL.to_vec(),
        _ => Target::defaults(),
    };
    if options.dry_run {
        print!("{}", plan::text(&source, &targets));
        return Ok(());
    }
    target::check_tools(&targets)?;
    let out = options.out.unwrap_or_else(|| source.target_folder.join(format!("release-{}", source.version)));
    prepare(&out)?;

    source.fetch(&targets)?;
    // The texts are those of a program that runs here, so it comes first.
    let mut ordered = targets;
    ordered.sort_by_key(|target| (!target.runs_here(), target.triple()));
    ordered.dedup();
    let mut texts: BTreeMap<&str, Vec<Entry>> = BTreeMap::new();
    let mut images = Vec::new();
    for target in ordered {
        for program in target.programs() {
            let built = compile::build(&source, target, program, &options.profile)?;
            if target.runs_here() && !texts.contains_key(program.name) {
                texts.insert(program.name, compile::texts(program, &built.unstripped)?);
            }
            let binary = Entry::program(&target.executable(program), built.binary);
            let mut entries = texts[program.name].clone();
            entries.extend([binary.clone(), Entry::file("LICENSE", read(&source.root.join("LICENSE"))?)]);
            write(&out, &plan::archive(program, target), archive::tar_gz(entries, source.time)?)?;
            if let Some(symbols) = built.symbols {
                let symbols = vec![Entry::file(&format!("{}.debug", program.binary), symbols)];
                write(&out, &plan::symbols(program, target), archive::tar_gz(symbols, source.time)?)?;
            }
            write(&out, &plan::bill(program, target), bill::make(&source, target, program)?)?;
            if program.name == Program::MANAGER.name {
                images.push((target, binary));
            }
        }
    }
    if !images.is_empty() {
        images.sort_by_key(|(target, _)| target.architecture());
        let image = image::make(&source, images)?;
        let named = deploy::Image { name: plan::IMAGE, digest: &image.digest };
        write(&out, plan::IMAGE_FILE, image.archive)?;
        write(&out, &plan::chart(&source.version), deploy::chart(&source, &named)?)?;
        write(&out, plan::KUSTOMIZATIONS, deploy::kustomizations(&source, &named)?)?;
    }
    write(&out, plan::SCHEMA, read(&source.root.join("docs").join(plan::SCHEMA))?)?;
    let sums = sums(&out)?;
    let krew = deploy::krew(&source, &sums)?;
    write(&out, plan::KREW, krew.into_bytes())?;
    let sums = sums_text(&out)?;
    print!("{sums}");
    write(&out, plan::SUMS, sums.into_bytes())
}

/// Makes the folder. It may have archives of other machines: those for macOS are made on macOS.
fn prepare(out: &Path) -> Result<()> {
    std::fs::create_dir_all(out).with_context(|| format!("cannot make the folder {}", out.display()))?;
    for name in files(out)? {
        if !Target::ALL.iter().any(|target| target.is_file_of(&name)) {
            bail!(
                "{} has a file '{name}' of another build: empty it, or name another folder with --out",
                out.display()
            );
        }
    }
    Ok(())
}

fn files(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Returns the SHA-256 sum of each file of a folder.
fn sums(folder: &Path) -> Result<BTreeMap<String, String>> {
    let sum = |name: String| Ok((name.clone(), archive::sha256(&read(&folder.join(name))?)));
    files(folder)?.into_iter().map(sum).collect()
}

/// Returns the sums as `sha256sum --check` reads them.
fn sums_text(folder: &Path) -> Result<String> {
    Ok(sums(folder)?.into_iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(out: &Path, name: &str, contents: Vec<u8>) -> Result<()> {
    let path = out.join(name);
    std::fs::write(&path, contents).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_scripts_list_the_options() {
        let command = CommandLine::command();
        command.clone().debug_assert();
        for (name, script) in [("build", include_str!("../build")), ("publish", include_str!("../publish"))] {
            assert!(script.contains(&format!(" {name} \"$@\"")));
            let options = command.find_subcommand(name).unwrap().get_opts();
            for option in options.filter_map(|option| option.get_long()) {
                assert!(script.contains(&format!("--{option}")), "release/{name}: --{option}");
            }
        }
    }
}
