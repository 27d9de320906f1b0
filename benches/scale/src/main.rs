//! `scale`: measures endpoint controllers as whole processes, on an API server that it fills. See
//! docs/performance.md.

mod api;
mod child;
mod clock;
mod fill;
mod measure;
mod options;
mod progress;
mod report;
mod run;
mod server;
mod statistics;
mod watch;
mod workload;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use options::{Command, Options};

/// The exit code after Ctrl-C, as in shells.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let options = Options::parse();
    // Each watcher is a connection if the server speaks HTTP/1, also on the side of the embedded
    // server, which inherits the limit.
    kube_endpoint_processes::raise_file_limit();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start: {error}"), ExitCode::FAILURE),
    };
    runtime.block_on(async {
        let mut signals = match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
            (Ok(interrupt), Ok(terminate)) => (interrupt, terminate),
            (Err(error), _) | (_, Err(error)) => {
                return fail(&format!("cannot start: {error}"), ExitCode::FAILURE);
            }
        };
        // Ctrl-C drops the running work, which stops the controller and the embedded server.
        tokio::select! {
            biased;
            _ = signals.0.recv() => fail("interrupted", ExitCode::from(INTERRUPTED)),
            _ = signals.1.recv() => fail("terminated", ExitCode::from(INTERRUPTED)),
            outcome = command(options) => match outcome {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => fail(&format!("{error:#}"), ExitCode::FAILURE),
            },
        }
    })
}

async fn command(options: Options) -> anyhow::Result<()> {
    match options.command {
        None => run::run(&options.run).await,
        Some(Command::Clean(options)) => run::clean(&options).await,
        Some(Command::Serve { kubeconfig, tls }) => {
            server::serve(&kubeconfig, server::Transport::with_tls(tls)).await
        }
    }
}

/// Prints a text to standard output.
fn print(text: &str) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{}", text.trim_end())
        .and_then(|()| output.flush())
        .context("cannot write to standard output")
}

fn fail(error: &str, code: ExitCode) -> ExitCode {
    // `eprintln!` would panic if writing to standard error fails.
    let _ = writeln!(std::io::stderr(), "error: {error}");
    code
}
