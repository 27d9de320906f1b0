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
            // clap explains at length; one line says what is wrong.
            let text = error.to_string();
            let lines = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim);
            complain(&format!(
                "{} (see --help)",
                lines.collect::<Vec<_>>().join(" ").trim_start_matches("error: ")
            ));
            return ExitCode::from(BAD_INPUT);
        }
        Err(help) => help.exit(),
    };
    log_to_stderr(options.verbosity);
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

#[expect(clippy::print_stderr, reason = "a command line tool says on standard error why it gives up")]
fn complain(what: &str) {
    eprintln!("error: {what}");
}
