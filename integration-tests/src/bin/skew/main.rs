//! Plays hand-overs between this version and that of a git revision, as processes, both ways: what
//! each leaves on the server is what the other starts on (docs/compatibility.md, "Replicas of two
//! versions"). It also records what a version leaves, for `tests/left_behind`.
#![allow(clippy::print_stdout, reason = "a program for people")]

mod builds;
mod hand_over;
mod load;
mod record;
mod table;

use anyhow::{bail, ensure};
use clap::Parser;

use builds::Builds;
use hand_over::hand_overs;

/// Plays hand-overs between this version and that of a git revision on the embedded API server,
/// while pods change. Fails if a hand-over goes wrong.
#[derive(Parser)]
struct Options {
    /// A tag, a branch or a commit, such as HEAD~100
    revision: String,
    /// Record what the revision leaves on a server in integration-tests/fixtures/left-behind,
    /// instead of playing hand-overs
    #[arg(long)]
    record: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let builds = Builds::make(&options.revision)?;
    if options.record {
        ensure!(
            builds.left_out().is_empty(),
            "{} has no {}, for which the inputs of a record have objects",
            builds.other.name,
            builds.left_out().join(" and no ")
        );
        let path = Box::pin(record::record(&builds)).await?;
        println!("recorded in {}", path.display());
        return Ok(());
    }
    let rows = Box::pin(hand_overs(&builds)).await;
    println!("{}", table::table(&builds, &rows));
    let failed = rows.iter().filter(|row| !row.faults.is_empty()).count();
    if failed > 0 {
        bail!("{failed} of {} hand-overs went wrong", rows.len());
    }
    Ok(())
}
