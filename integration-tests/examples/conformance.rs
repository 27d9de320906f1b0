//! Plays conformance scenarios against a cluster on which endpoint controllers run, in real time.
//!
//! `conformance [--kubeconfig FILE] [--parts endpoints,slices,hints,mirroring] [FILES...]` prints a
//! line for each scenario and a diff for each failed step. It plays all recordings unless files are
//! given. The default kubeconfig is `$KUBECONFIG`.
#![allow(clippy::print_stdout, reason = "this program prints its results")]
#![expect(clippy::disallowed_methods, reason = "it measures real time")]

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use kube_endpoint_integration_tests::conformance::{Parts, Scenario, TestBed, play, recordings};

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let options = Options::of(std::env::args().skip(1))?;
    let bed = TestBed::of_kubeconfig(&options.kubeconfig).await?;
    let mut failed = 0;
    for file in &options.files {
        let scenario = Scenario::read(file)?;
        let start = Instant::now();
        let failures = match Box::pin(play(&bed, &scenario, options.parts)).await {
            Ok(failures) => failures.iter().map(ToString::to_string).collect(),
            Err(error) => vec![format!("{error}\n")],
        };
        let mark = if failures.is_empty() { "ok  " } else { "FAIL" };
        println!("{mark} {} {:.1}s", scenario.name, start.elapsed().as_secs_f64());
        failures.iter().for_each(|failure| print!("{failure}"));
        failed += failures.len();
    }
    println!("{} scenarios, {failed} steps failed", options.files.len());
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Options {
    kubeconfig: PathBuf,
    parts: Parts,
    files: Vec<PathBuf>,
}

impl Options {
    fn of(mut arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut kubeconfig = std::env::var_os("KUBECONFIG").map(PathBuf::from);
        let mut parts = Parts::ALL;
        let mut files = Vec::new();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--kubeconfig" => {
                    kubeconfig = Some(arguments.next().ok_or("--kubeconfig needs a file")?.into());
                }
                "--parts" => {
                    let names = arguments.next().ok_or("--parts needs names")?;
                    parts = Parts::parse(&names).ok_or_else(|| format!("{names}: no such part"))?;
                }
                flag if flag.starts_with('-') => return Err(format!("{flag}: no such option").into()),
                file => files.push(file.into()),
            }
        }
        if files.is_empty() {
            files = recordings()?;
        }
        Ok(Self { kubeconfig: kubeconfig.ok_or("no --kubeconfig, and KUBECONFIG is not set")?, parts, files })
    }
}
