//! A kubectl plugin that explains why a Service has the endpoints that it has, for everybody who is
//! on call for one. It works on any cluster, whichever controllers run there, and only reads,
//! except for `cleanup --yes`.
//!
//! ```sh
//! kubectl diagnose-svc explain web -n shop     # why the Service has no endpoints, and what to do
//! kubectl diagnose-svc lint --all-namespaces   # all Services with a problem, the worst first
//! kubectl diagnose-svc diff --all-namespaces   # what the controllers would change
//! ```

mod args;
mod cleanup;
mod commands;
mod completion;
mod config_flags;
mod connect;
mod doctor;
mod files;
mod manifests;
mod output;
mod place;
mod progress;
mod retire;
mod source;
mod top;
mod ui;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use kube_endpoint_core_model::causes;

use args::CommandLine;

/// The exit code of a failed command; 1 stands for a difference or a problem.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start: {error}")),
    };
    match runtime.block_on(run()) {
        Ok(code) => ExitCode::from(code),
        Err(error) => fail(&causes(&*error)),
    }
}

async fn run() -> anyhow::Result<u8> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    match words.split_first() {
        // An incomplete command line is no error yet.
        Some((first, words)) if first == completion::REQUEST => completion::complete(words).await.map(|()| 0),
        Some((first, [folder])) if first == completion::MAN_PAGES => {
            completion::write_man_pages(folder).map(|()| 0)
        }
        _ => match CommandLine::try_parse() {
            Ok(command_line) => commands::run(&command_line).await,
            // The help text and the version.
            Err(error) if !error.use_stderr() => output::printed(error.print()).map(|()| 0),
            Err(error) => {
                // If writing to standard error fails, only the exit code tells the error.
                let _ = error.print();
                Ok(FAILED)
            }
        },
    }
}

fn fail(error: &str) -> ExitCode {
    output::print_note(&format!("error: {error}"));
    ExitCode::from(FAILED)
}
