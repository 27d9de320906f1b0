//! Kubernetes' endpoints, EndpointSlice and EndpointSlice-mirroring controllers in one binary: parses the options, builds a
//! manager and runs it until SIGTERM or SIGINT.

mod run;
mod signals;

use std::process::ExitCode;

use clap::Parser;
use kube_endpoint_manager_core::{Options, Settings, log_to_stderr};

/// Exit code for invalid input. Nothing has been started.
const INVALID_INPUT: u8 = 2;

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) if error.use_stderr() => {
            print_error(&on_one_line(&error.to_string()));
            return ExitCode::from(INVALID_INPUT);
        }
        Err(help) => help.exit(),
    };
    log_to_stderr(options.log_level());
    let settings = match Settings::try_from(&options) {
        Ok(settings) => settings,
        Err(error) => {
            print_error(&error.to_string());
            return ExitCode::from(INVALID_INPUT);
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            print_error(&format!("cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run::run(&options, &settings)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(run::RunError::InvalidInput(error)) => {
            print_error(&format!("{error}"));
            ExitCode::from(INVALID_INPUT)
        }
        Err(run::RunError::Failed(error)) => {
            print_error(&format!("{error}"));
            ExitCode::FAILURE
        }
    }
}

/// Shortens clap's error, tips and usage to one line: the error and, if clap suggests a correction, its tip.
fn on_one_line(explanation: &str) -> String {
    let mut paragraphs =
        explanation.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    let error = paragraphs.next().unwrap_or_default();
    let error = error.trim_start_matches("error: ").to_owned();
    match paragraphs.find_map(|paragraph| paragraph.strip_prefix("tip: ").map(str::to_owned)) {
        // That tip explains how to pass a value that begins with a dash, which is not what was meant.
        Some(tip) if !tip.contains("'-- ") => format!("{error}; {tip} (see --help)"),
        _ => format!("{error} (see --help)"),
    }
}

#[expect(clippy::print_stderr, reason = "a command-line tool reports its errors on standard error")]
fn print_error(message: &str) {
    eprintln!("error: {message}");
}
