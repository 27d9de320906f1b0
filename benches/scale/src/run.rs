//! `scale` and `scale clean`.

use std::path::Path;

use anyhow::{Context, bail};
use kube_endpoint_processes::load_average;

use crate::child::program_name;
use crate::fill::{clean as remove_all, fill};
use crate::measure::{Plan, round};
use crate::options::{CleanOptions, RunOptions};
use crate::print;
use crate::report::{Report, Subject, ratios};
use crate::server::{Server, Transport};
use crate::workload::{Names, counted};

/// The program that this measures without a command.
const DEFAULT_PROGRAM: &str = "kube-endpoint-manager";

/// Its flags. The limits are those of comparisons of controllers: a client limit would hide their
/// speed.
const DEFAULT_FLAGS: &str = "--kubeconfig={kubeconfig} --kube-api-qps=5000 --kube-api-burst=10000 --leader-elect=false --secure-port=0";

/// Returns the command of the program beside this one.
fn default_command() -> anyhow::Result<String> {
    let program = std::env::current_exe()?.with_file_name(DEFAULT_PROGRAM);
    if !program.is_file() {
        bail!(
            "there is no {}; build {DEFAULT_PROGRAM} with the profile of this program, as in \
             `cargo build --profile dist -p {DEFAULT_PROGRAM}`, or say with --command what to measure",
            program.display()
        );
    }
    let program = program.to_str().with_context(|| format!("the path {} is not UTF-8", program.display()))?;
    Ok(format!("{} {DEFAULT_FLAGS}", shlex::try_quote(program)?))
}

/// Measures one or two controllers.
pub(crate) async fn run(options: &RunOptions) -> anyhow::Result<()> {
    let workload = options.workload().map_err(anyhow::Error::msg)?;
    let plan = options.plan();
    let command = options.command.clone().map_or_else(default_command, Ok)?;
    let mut subjects: Vec<Subject> = std::iter::once(command)
        .chain(options.against.clone())
        .map(|command| Subject { name: program_name(&command), command, rounds: Vec::new() })
        .collect();
    if let [first, second] = &mut subjects[..]
        && first.name == second.name
    {
        second.name += " (against)";
    }
    if let Some(file) = &options.json {
        check_writable(file)?;
    }
    let load_average = load_average();
    let server = match &options.kubeconfig {
        Some(file) => Server::of_kubeconfig(file, options.server_pid).await?,
        None => Server::embedded(Transport::with_tls(options.tls)).await?,
    };
    let names = Names { prefix: options.prefix.clone() };
    let filled = fill(&server.api, &workload, &names).await?;
    for _ in 0..options.rounds {
        for subject in &mut subjects {
            let figures = round(&server, &filled, &plan, (&subject.name, &subject.command));
            let figures = Box::pin(figures).await.with_context(|| subject.name.clone())?;
            subject.rounds.push(figures);
        }
    }
    let report = Report {
        work: describe(&plan),
        workload,
        server: server.description.clone(),
        cpus: std::thread::available_parallelism().map_or(0, usize::from),
        load_average,
        ratios: ratios(&subjects),
        subjects,
    };
    print(&report.table())?;
    if let Some(file) = &options.json {
        write(file, &(serde_json::to_string_pretty(&report)? + "\n"))?;
    }
    Ok(())
}

/// Removes the objects with a prefix.
pub(crate) async fn clean(options: &CleanOptions) -> anyhow::Result<()> {
    let server = Server::of_kubeconfig(&options.kubeconfig, None).await?;
    let names = Names { prefix: options.prefix.clone() };
    let (namespaces, nodes) = remove_all(&server.api, &names).await?;
    print(&format!(
        "removed {} and {} of the prefix {}",
        counted(namespaces, "namespace"),
        counted(nodes, "node"),
        options.prefix
    ))
}

/// Writes a file.
fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Fails if the file is not writable: better before the measurement than after it.
fn check_writable(file: &Path) -> anyhow::Result<()> {
    let named = || format!("cannot write {}", file.display());
    let existed = file.exists();
    std::fs::File::options().append(true).create(true).open(file).with_context(named)?;
    if existed { Ok(()) } else { std::fs::remove_file(file).with_context(named) }
}

fn describe(plan: &Plan) -> String {
    match plan.flips {
        0 => "cold start only".to_owned(),
        flips => format!("{} of readiness, {} a second", counted(flips, "change"), plan.rate),
    }
}
