//! Kubernetes' endpoints, EndpointSlice and EndpointSlice-mirroring controllers in one binary, for
//! operators of their own control plane: it takes over three loops of kube-controller-manager.
//!
//! ```sh
//! # A Kubernetes API server with sample Services, the controllers, and a page that explains them:
//! kube-endpoint-manager --embedded
//! # What the controllers would change in a cluster, without a write:
//! kube-endpoint-manager --kubeconfig=controllers.conf --dry-run
//! ```
//!
//! The program parses the options, builds a manager and runs it until SIGTERM or SIGINT.

mod completion;
mod heap;
mod run;
mod signals;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind as ClapErrorKind};
use kube_endpoint_controllers::command_line::command;
use kube_endpoint_controllers::{
    CommandLine, CommandLineError, LinePrinter, LoggingFormat, Settings, harmless, log_to_stderr,
    raise_open_files_limit,
};

/// The exit code for invalid input. The program has started nothing.
const INVALID_INPUT: u8 = 2;

/// The maximum number of characters of a printed error, which may quote a file or a server.
const LONGEST_ERROR: usize = 4000;

/// The time limit for writing the last lines of the log.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The version, and the commit of the sources.
const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("KUBE_ENDPOINT_MANAGER_COMMIT"), ")");

fn main() -> ExitCode {
    heap::limit_to_one_arena();
    let command = command().version(VERSION).after_help(completion::USAGE);
    let words: Vec<_> = std::env::args_os().collect();
    match completion::requested(&words) {
        Ok(None) => {}
        Ok(Some(script)) => return print(&script),
        Err(error) => return refuse_arguments(&error),
    }
    if let Some(written) = completion::write_man_page(&command, &words) {
        return match written {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => refuse(&format!("cannot write the man page: {error}")),
        };
    }
    let command_line = match CommandLine::read_with(command, words, std::env::vars_os()) {
        Ok(command_line) => command_line,
        Err(CommandLineError::Arguments(error)) => return refuse_arguments(&error),
        Err(error) => return refuse(&error.to_string()),
    };
    let options = &command_line.options;
    let format = match LoggingFormat::new(&options.logging) {
        Ok(format) => format,
        Err(error) => return refuse(&command_line.locate(&error)),
    };
    if let Err(error) = raise_open_files_limit() {
        print_error(&error.to_string());
        return ExitCode::FAILURE;
    }
    let log = match log_to_stderr(options.log_level(), format) {
        Ok(log) => log,
        Err(error) => {
            print_error(&format!("cannot start a thread for the log: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let code = run_logged(&command_line, &log);
    log.flush_blocking(FLUSH_TIMEOUT);
    code
}

/// Runs the manager. From here on errors go through the log's printer, behind the lines that wait
/// in it.
fn run_logged(command_line: &CommandLine, log: &LinePrinter) -> ExitCode {
    let fail = |error: String, code| {
        log.print(format!("error: {}", harmless(&error, LONGEST_ERROR)));
        code
    };
    let invalid_input = ExitCode::from(INVALID_INPUT);
    command_line.log_warnings();
    let settings = match Settings::try_from(&command_line.options) {
        Ok(settings) => settings,
        Err(error) => return fail(command_line.locate(&error), invalid_input),
    };
    // One thread runs all tasks but the server of pages: these wait most of the time, and more
    // threads wake each other for every request (docs/log/2026-11-22-threads.md). Work that takes
    // milliseconds hands the other tasks to another thread meanwhile.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(format!("cannot start the runtime: {error}"), ExitCode::FAILURE),
    };
    match runtime.block_on(run::run(command_line, &settings, VERSION)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(run::RunError::InvalidInput(error)) => fail(error.to_string(), invalid_input),
        Err(run::RunError::Failed(error)) => fail(error.to_string(), ExitCode::FAILURE),
    }
}

/// Reports an error of clap's, or prints the help text or the version, which clap also returns as
/// errors.
fn refuse_arguments(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return printed(error.print());
    }
    let word = error.get(ContextKind::InvalidArg);
    if let (ClapErrorKind::UnknownArgument, Some(ContextValue::String(word))) = (error.kind(), word)
        && !word.starts_with('-')
    {
        return refuse(&format!("unexpected word '{word}'; write values as --flag=value (see --help)"));
    }
    refuse(&on_one_line(&error.to_string()))
}

/// Prints to standard output.
fn print(text: &[u8]) -> ExitCode {
    let mut output = std::io::stdout();
    printed(output.write_all(text).and_then(|()| output.flush()))
}

/// Returns the exit code after printing a text. A reader that has gone, such as `head`, is no
/// error.
fn printed(result: std::io::Result<()>) -> ExitCode {
    match result {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            print_error(&format!("cannot write to standard output: {error}"));
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Shortens clap's error, tips and usage to one line: the error and, if clap suggests a correction,
/// its tip.
fn on_one_line(explanation: &str) -> String {
    let mut paragraphs =
        explanation.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    let error = paragraphs.next().unwrap_or_default();
    let error = error.trim_start_matches("error: ").to_owned();
    match paragraphs.find_map(|paragraph| paragraph.strip_prefix("tip: ").map(str::to_owned)) {
        // The other tip explains how to pass a value that begins with a dash, which the user did
        // not mean.
        Some(tip) if !tip.contains("'-- ") => format!("{error}; {tip} (see --help)"),
        _ => format!("{error} (see --help)"),
    }
}

fn refuse(error: &str) -> ExitCode {
    print_error(error);
    ExitCode::from(INVALID_INPUT)
}

fn print_error(message: &str) {
    // `eprintln!` would panic if writing to standard error fails.
    let _ = writeln!(std::io::stderr(), "error: {}", harmless(message, LONGEST_ERROR));
}
