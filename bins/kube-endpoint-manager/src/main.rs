//! Kubernetes' endpoints, EndpointSlice and EndpointSlice-mirroring controllers in one binary: reads the options, builds a
//! manager, runs it until it is told to stop.

mod run;
mod signals;

use std::process::ExitCode;

use clap::Parser;
use kube_endpoint_manager_core::{Options, Settings, log_to_stderr};

/// What was asked for makes no sense; nothing has been started.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) if error.use_stderr() => {
            complain(&in_one_line(&error.to_string()));
            return ExitCode::from(BAD_INPUT);
        }
        Err(help) => help.exit(),
    };
    log_to_stderr(options.log_level());
    let settings = match Settings::try_from(&options) {
        Ok(settings) => settings,
        Err(error) => {
            complain(&error.to_string());
            return ExitCode::from(BAD_INPUT);
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run::run(&options, &settings)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(run::Ended::BadInput(error)) => {
            complain(&format!("{error}"));
            ExitCode::from(BAD_INPUT)
        }
        Err(run::Ended::Failed(error)) => {
            complain(&format!("{error}"));
            ExitCode::FAILURE
        }
    }
}

/// clap explains at length: what is wrong, tips, usage. One line says what is wrong and what may have been meant.
fn in_one_line(explanation: &str) -> String {
    let mut paragraphs =
        explanation.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    let what = paragraphs.next().unwrap_or_default();
    let what = what.trim_start_matches("error: ").to_owned();
    match paragraphs.find_map(|paragraph| paragraph.strip_prefix("tip: ").map(str::to_owned)) {
        // Such a tip is how to write what begins with a dash and is no flag.
        Some(tip) if !tip.contains("'-- ") => format!("{what}; {tip} (see --help)"),
        _ => format!("{what} (see --help)"),
    }
}

#[expect(clippy::print_stderr, reason = "a command line tool says on standard error why it gives up")]
fn complain(what: &str) {
    eprintln!("error: {what}");
}
