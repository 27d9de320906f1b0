//! The commands. Each returns the exit code.

use std::path::PathBuf;

use anyhow::{anyhow, bail};
use jiff::Timestamp;
use kube::Client;
use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_explain::doctor::examine;
use kube_endpoint_explain::references::{Referrer, is_namespaced};
use kube_endpoint_explain::render::{notes, to_list};
use kube_endpoint_explain::text::rendered;
use kube_endpoint_explain::{Code, Diff, FailOn, LintOptions, Options, diff, explain_pod, render};

use kube_endpoint_explain_reader::{
    BETWEEN_READINGS, Before, Explained, Reader, Reading, Resource, newest_resource,
};

use crate::args::{Command, CommandLine, Compatibility, Format, Global, Kind, Scope};
use crate::config_flags::ConfigFlags;
use crate::connect::{Connection, connect};
use crate::output::{Output, json, print, print_note};
use crate::place::{FileFlags, Place};
use crate::progress::ProgressLine;
use crate::source::version;
use crate::{FAILED, cleanup, completion, doctor, manifests, retire, top, ui};

/// How often a diff reads a cluster.
const READINGS: usize = 3;

/// Returns true if the subject is a code. The name of a Service has no capital letters. It may be
/// that of a code, such as `not-ready`: a namespace or a file shows that the Service is meant.
fn is_code(subject: &str, global: &Global, files: &FileFlags) -> bool {
    let names_a_place = global.config.namespace.is_some() || files.names_files();
    subject.starts_with("EP") || !names_a_place && subject.parse::<Code>().is_ok()
}

/// Runs a command.
///
/// # Errors
///
/// An error if the arguments are invalid, or reading the cluster or a file fails.
pub(crate) async fn run(command_line: &CommandLine) -> anyhow::Result<u8> {
    let global = &command_line.global;
    let output = Output::new(global);
    let options = match global.compatibility {
        Some(Compatibility::Upstream) => Options::upstream(),
        None => Options::default(),
    };
    match &command_line.command {
        Command::Explain { subject, name, from, brief, files } if is_code(subject, global, files) => {
            let code: Code = subject.parse()?;
            let is_alone = name.is_none() && from.is_none() && !brief && !files.names_files();
            let takes = global.config == ConfigFlags::default() && global.compatibility.is_none();
            if !(is_alone && takes) {
                bail!(
                    "{subject} is a code, whose explanation needs no cluster and no file: leave out all but -o and --color; service/NAME explains a Service of this name"
                );
            }
            let explained = code.explanation();
            output.print_as("CodeExplanation", &explained, |layout| explained.text(layout))?;
            Ok(0)
        }
        Command::Explain { subject, name, from, brief, files } => {
            let subject = named(subject, name.as_deref())?;
            if from.is_some() && subject.0 != Kind::Service {
                bail!("--from names the client of a Service; leave it out, or name a Service");
            }
            if *brief {
                check_brief(output, subject.0)?;
            }
            let options = options.with_from(from.clone());
            let place = Place::open(global, files).await?;
            Box::pin(run_explain(&place, output, &options, subject, *brief)).await
        }
        Command::Render { filename } => run_render(global, output, &options, filename),
        Command::Diff { scope, files } => {
            run_diff(&Place::open(global, files).await?, output, &options, scope).await
        }
        Command::Lint { scope, files, ignore, info, fail_on, strict } => {
            let lint_options = LintOptions {
                ignore: ignore.iter().copied().collect(),
                include_info: *info,
                selector: scope.selector.clone(),
                ..LintOptions::default()
            };
            let fail_on = FailOn { severity: fail_on.severity(), strict: *strict };
            let place = Place::open(global, files).await?;
            Box::pin(run_lint(&place, output, &options, place.scope(scope), &lint_options, fail_on)).await
        }
        Command::Top { scope } => run_top(global, output, &options, scope).await,
        Command::Doctor(args) => Box::pin(run_doctor(global, output, &options, &args.files)).await,
        Command::Retire(args) => Box::pin(retire::run(global, output, args)).await,
        Command::Ui(args) => ui::run(global, &options, args).await,
        Command::Completion { shell } => completion::print_script(*shell),
        Command::Cleanup { scope, yes } => run_cleanup(global, output, scope, *yes).await,
    }
}

/// Returns the time up to which ages count.
#[expect(clippy::disallowed_methods, reason = "the binary hands the system's time in")]
pub(crate) fn current_time() -> Timestamp {
    Timestamp::now()
}

/// Returns the kind and the name of `NAME`, `KIND/NAME` or `KIND NAME`.
fn named<'w>(subject: &'w str, name: Option<&'w str>) -> anyhow::Result<(Kind, &'w str)> {
    let (kind, name) = match name {
        Some(name) => (subject, name),
        None => subject.split_once('/').unwrap_or(("service", subject)),
    };
    let Some(kind) = Kind::of(kind) else {
        bail!(
            "{kind:?} is no kind that is explained; write NAME, service/NAME, pod/NAME, deployment/NAME, ingress/NAME, gateway/NAME, \
             httproute/NAME, apiservice/NAME or validatingwebhookconfiguration/NAME, or KIND NAME"
        )
    };
    Ok((kind, name))
}

/// Returns an error unless `--brief` has a short form to print.
fn check_brief(output: Output, kind: Kind) -> anyhow::Result<()> {
    let is_data = matches!(output.format, Format::Json | Format::Yaml);
    match kind == Kind::Service && is_data {
        true => Ok(()),
        false => bail!("--brief is for Services, with -o json or -o yaml"),
    }
}

/// Returns a reader that shows its progress.
pub(crate) fn reader(client: Client) -> Reader {
    Reader::new(client).with_progress(ProgressLine::on_stderr())
}

async fn run_explain(
    place: &Place,
    output: Output,
    options: &Options,
    (kind, name): (Kind, &str),
    brief: bool,
) -> anyhow::Result<u8> {
    let (reader, options) = (&place.reader, place.options(options));
    if let Kind::Referrer(kind) = kind {
        let resource = newest_resource(kind).filter(|_| is_namespaced(kind));
        let namespace = resource.map(|resource| place.namespace_of(resource, name)).unwrap_or_default();
        let of = Referrer { kind, object: ObjectKey::new(namespace, name) };
        let explained = reader.explain_referrer(&of, &options, &|| place.now()).await?;
        explained.not_read.iter().for_each(|note| print_note(note));
        output.print_as("BackendsExplanation", &explained, |layout| explained.text(layout))?;
        return Ok(explained.exit_code());
    }
    if kind == Kind::Pod {
        let key = ObjectKey::new(place.namespace_of(Resource::PODS, name), name);
        let Reading { objects, notes, known, .. } = reader.pod(&key).await?;
        notes.iter().for_each(|note| print_note(note));
        let options = options.with_known(known);
        let topology = objects.topology();
        let now = place.now();
        let says = explain_pod(&objects, &key, &topology, now, &options);
        let says = says.ok_or_else(|| anyhow!("there is no pod {key}"))?.with_not_read(notes);
        output.print_as("PodExplanation", &says, |layout| says.text(layout, now))?;
        Ok(says.exit_code())
    } else {
        let key = ObjectKey::new(place.namespace_of(Resource::SERVICES, name), name);
        let Explained { explanation, at: now, .. } =
            reader.explain_service(&key, &options, &|| place.now()).await?;
        explanation.not_read.iter().for_each(|note| print_note(note));
        let text = |layout| explanation.text(layout, now);
        match brief {
            true => output.print_as("BriefExplanation", &explanation.brief(), text)?,
            false => output.print_as("ServiceExplanation", &explanation, text)?,
        }
        Ok(explanation.exit_code())
    }
}

fn run_render(global: &Global, output: Output, options: &Options, files: &[PathBuf]) -> anyhow::Result<u8> {
    output.check_format()?;
    let manifests = manifests::read(files, global.config.namespace.as_deref())?;
    manifests.notes.iter().for_each(|note| print_note(note));
    if !manifests.refused.is_empty() {
        manifests.refused.iter().for_each(|refused| print_note(&format!("error: {refused}")));
        return Ok(FAILED);
    }
    if let Some(why) = manifests.why_nothing() {
        bail!(why);
    }
    let all = render(&manifests.objects, options);
    notes(&manifests.objects, &all).iter().for_each(|note| print_note(note));
    output.print(&to_list(&all)?, |_| rendered(&all))?;
    Ok(0)
}

async fn run_diff(place: &Place, output: Output, options: &Options, scope: &Scope) -> anyhow::Result<u8> {
    let namespace = place.scope(scope);
    let wanted = if place.may_change() { READINGS } else { 1 };
    let mut readings: Vec<Diff> = Vec::new();
    // If nothing would change, there is nothing to wait for.
    while readings.len() < wanted && readings.last().is_none_or(|last| !last.is_empty()) {
        if !readings.is_empty() {
            tokio::time::sleep(BETWEEN_READINGS).await;
        }
        let Reading { objects, notes, known, .. } = place.reader.all(namespace).await?;
        let options = place.options(options).with_known(known);
        let mut reading = diff(&objects, place.now(), &options)?;
        if let Some(selector) = &scope.selector {
            reading.changes.retain(|change| objects.is_selected(&change.service, selector));
        }
        readings.push(reading.with_not_read([notes, options.lacking(&objects)].concat()));
    }
    let persisting = Diff::persisting(&readings);
    persisting.not_read.iter().for_each(|note| print_note(note));
    output.print_as("Diff", &persisting, |_| persisting.text())?;
    Ok(persisting.exit_code())
}

async fn run_lint(
    place: &Place,
    output: Output,
    options: &Options,
    namespace: Option<&str>,
    lint_options: &LintOptions,
    fail_on: FailOn,
) -> anyhow::Result<u8> {
    let options = place.options(options);
    let read = async |before: Option<&Before>| {
        place.reader.lint(namespace, &options, lint_options, before, || place.now()).await
    };
    let first = read(None).await?;
    // Without nodes, a write that is under way looks like one whose cause is not known.
    let may_pass = |code: Code| code.may_be_under_way() || code == Code::NotKnown;
    let is_open = first.report.problems.iter().any(|problem| may_pass(problem.code));
    let (now, report) = if is_open && place.may_change() {
        let before = first.before();
        // A large cluster has no room for the objects of two readings.
        drop(first);
        tokio::time::sleep(BETWEEN_READINGS).await;
        let second = read(Some(&before)).await?;
        (second.at, second.lasting(Some(&before), may_pass))
    } else {
        (first.at, first.report)
    };
    let report = report.with_root_cause(now);
    report.not_read.iter().for_each(|note| print_note(note));
    match output.format {
        Format::Sarif => print(&json(&report.sarif(env!("CARGO_PKG_VERSION")))?)?,
        _ => output.print_as("LintReport", &report, |_| report.text(output.layout_of_table()))?,
    }
    Ok(report.exit_code(fail_on))
}

async fn run_doctor(
    global: &Global,
    output: Output,
    options: &Options,
    files: &FileFlags,
) -> anyhow::Result<u8> {
    output.check_format()?;
    if let Some(namespace) = &global.config.namespace {
        bail!("doctor reads the whole cluster; leave out --namespace {namespace}");
    }
    let place = Place::open(global, files).await?;
    let facts = Box::pin(doctor::facts(&place, options)).await?;
    let now = place.now();
    let report = examine(&facts, now);
    output.print_as("DoctorReport", &report, |layout| report.text(layout, now))?;
    Ok(report.exit_code())
}

async fn run_cleanup(global: &Global, output: Output, scope: &Scope, delete: bool) -> anyhow::Result<u8> {
    // The command deletes nothing if it could not print the report.
    output.check_format()?;
    let Connection { client, namespace, .. } = connect(&global.config).await?;
    let reader = reader(client.kube().clone());
    let namespace = scope.namespace(&namespace);
    let found = cleanup::run(&reader, namespace, scope.selector.as_ref(), delete).await?;
    found.not_read.iter().for_each(|note| print_note(note));
    output.print_as("Cleanup", &found, |layout| found.text(layout))?;
    Ok(found.exit_code())
}

async fn run_top(global: &Global, output: Output, options: &Options, scope: &Scope) -> anyhow::Result<u8> {
    top::check_format(output)?;
    let connection = connect(&global.config).await?;
    // The watches would wait for the server without end.
    let _ = version(connection.client.kube()).await?;
    let namespace = scope.namespace(&connection.namespace).map(str::to_owned);
    let place = match &namespace {
        Some(namespace) => format!("namespace {namespace}"),
        None => "all namespaces".to_owned(),
    };
    let place = match &*connection.context {
        "" => place,
        context => format!("context {context}, {place}"),
    };
    top::run(connection, namespace, scope.selector.clone(), place, output, options).await
}
