//! A kubectl plugin that explains why a Service has the endpoints that it has. It works on any cluster, whichever controllers
//! run there, and only reads.

mod args;
mod commands;
mod connect;
mod output;
mod reader;

use std::process::ExitCode;

use clap::Parser;
use kube_endpoint_core_model::causes;

use args::CommandLine;

/// Exit code of a command that failed; 1 stands for a difference or a problem that was found.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    let command_line = CommandLine::parse();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start: {error}")),
    };
    match runtime.block_on(commands::run(&command_line)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => fail(&causes(&*error)),
    }
}

fn fail(error: &str) -> ExitCode {
    output::print_note(&format!("error: {error}"));
    ExitCode::from(FAILED)
}
