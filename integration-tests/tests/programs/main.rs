//! The tests that need a program or a cluster which a machine may lack
//! ([`programs`](kube_endpoint_integration_tests::programs)). Each module lists its tests.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod deploy;
mod differential;
mod handover;
mod kubectl;
mod mutants;
mod page;
mod windows;

use std::process::ExitCode;

use kube_endpoint_integration_tests::programs;

fn main() -> ExitCode {
    let modules = [
        deploy::tests(),
        differential::tests(),
        handover::tests(),
        kubectl::tests(),
        mutants::tests(),
        page::tests(),
        windows::tests(),
    ];
    programs::run(modules.into_iter().flatten())
}
