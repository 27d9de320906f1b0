//! The program of the test bed: the pods that answer, the clients that ask, and what counts both.

mod ask;
mod cluster;
mod controllers;
mod delays;
mod explained;
mod figures;
mod holders;
mod scenarios;
mod serve;
mod traffic;
mod workloads;

use clap::Parser;

/// Measures what clients of a Service see on real nodes.
#[derive(Parser)]
enum Command {
    /// Do nothing, as the first process of a pod does.
    Pause,
    /// Answer requests with the name of this pod and its role.
    Serve(serve::Options),
    /// Send requests, each on a connection of its own, and write a line about each to standard
    /// output. Ends when standard input does.
    Ask(ask::Options),
    /// Play scenarios on the cluster that `integration-tests/nodes/cluster` has started.
    Measure(scenarios::Options),
}

fn main() -> anyhow::Result<()> {
    let command = Command::parse();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build()?;
    match command {
        Command::Pause => runtime.block_on(serve::pause()),
        Command::Serve(options) => runtime.block_on(serve::run(options)),
        Command::Ask(options) => runtime.block_on(ask::run(options)),
        Command::Measure(options) => scenarios::run(&options),
    }
}
