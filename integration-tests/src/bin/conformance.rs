//! Plays the recordings and the hand-over on a test cluster, and reports what passed.
#![expect(clippy::print_stdout, reason = "standard output is the report, unless a file gets it")]
#![expect(clippy::print_stderr, reason = "progress is for a person")]

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use kube_endpoint_integration_tests::conformance::on_cluster::{Wanted, run};
use kube_endpoint_integration_tests::conformance::{Scenario, recordings};

/// Plays the recordings of kube-controller-manager 1.36 on a test cluster, and reports what passed.
///
/// It creates namespaces endpoint-conformance-... and nodes conf-... with the label
/// kube-endpoint-manager.github.io/conformance, and deletes them at its end. It changes nothing
/// else.
///
/// If nothing writes endpoints in the cluster, this program's controllers do. If the cluster's own
/// controllers run, they write, and this program's plan has to agree with them.
///
/// The exit code is 0 if recordings passed and nothing failed, 1 if something failed or the server
/// refused an object of each recording, and 2 if the cluster does not fit.
#[derive(Parser)]
#[command(name = "conformance", max_term_width = 100)]
struct Options {
    /// The kubeconfig of the test cluster; its current context counts.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// A command that starts kube-controller-manager's endpoints loops on this cluster, for the
    /// hand-over. It gets SIGTERM.
    #[arg(long, value_name = "COMMAND")]
    upstream: Option<String>,
    /// Only these recordings, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Write the report in Markdown to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match Box::pin(play(Options::parse())).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Returns true if the run passed.
async fn play(options: Options) -> anyhow::Result<bool> {
    let recordings = chosen(&options.only)?;
    // Minutes of work would be lost if it could not be written at the end.
    if let Some(file) = &options.report {
        check_writable(file).with_context(|| format!("writing {}", file.display()))?;
    }
    let parts = recordings.len() as u64 + 3;
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed}")?;
    let bar = ProgressBar::new(parts).with_style(style);
    let progress = |line: &str| {
        bar.suspend(|| eprintln!("{line}"));
        bar.inc(1);
    };
    let Options { kubeconfig, upstream, .. } = options;
    let report = Box::pin(run(&Wanted { kubeconfig, recordings, upstream }, &progress)).await;
    bar.finish_and_clear();
    let report = report?;
    match &options.report {
        Some(file) => write(file, &report.markdown())?,
        None => print!("{}", report.markdown()),
    }
    Ok(report.passed())
}

/// Fails if a file cannot be written, and changes nothing: a cluster that does not fit must cost no
/// earlier report, and must leave no empty one.
fn check_writable(file: &Path) -> io::Result<()> {
    match File::create_new(file) {
        Ok(_) => fs::remove_file(file),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            File::options().write(true).open(file).map(drop)
        }
        Err(error) => Err(error),
    }
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(file, text).with_context(|| format!("writing {}", file.display()))
}

/// Returns the recordings with these names, or all.
fn chosen(names: &[String]) -> anyhow::Result<Vec<Scenario>> {
    let mut all: Vec<Scenario> =
        recordings()?.iter().map(|file| Scenario::read(file)).collect::<Result<_, _>>()?;
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|scenario| scenario.name == **name)) {
        let known: Vec<&str> = all.iter().map(|scenario| &*scenario.name).collect();
        bail!("no recording is called {unknown:?}: choose from {}", known.join(", "));
    }
    all.retain(|scenario| names.is_empty() || names.contains(&scenario.name));
    Ok(all)
}
