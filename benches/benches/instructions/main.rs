//! Counts the instructions of decoders, plans, indexes and the queue with Callgrind, and compares
//! them with the figures in `benches/instructions.txt`. It fails if a count is past 105 % of its
//! figure, or grows too much with the cluster.
//!
//! With `--print` it only prints the counts, and with `--update` it writes the figures.
//! docs/performance.md ("Instruction counts") has the commands. Without Valgrind, `-- --test` runs
//! each benchmark once and counts nothing.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is its output")]

mod callgrind;
mod decode;
mod flip;
mod plan;
mod queue;
mod selectors;

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, thread};

use kube_endpoint_benches::instructions::{Counts, report};

use callgrind::Counter;

/// A group of benchmarks that a process of its own counts.
struct Group {
    name: &'static str,
    run: fn(&Counter),
}

/// The first group takes as long as the others together.
static GROUPS: [Group; 6] = [
    Group { name: "large", run: flip::large },
    Group { name: "flip", run: flip::flip },
    Group { name: "plan", run: plan::plan },
    Group { name: "decode", run: decode::decode },
    Group { name: "queue", run: queue::queue },
    Group { name: "selectors", run: selectors::selectors },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let has = |argument: &str| arguments.iter().any(|it| it == argument);
    if has("--test") {
        GROUPS.iter().for_each(|group| (group.run)(&Counter));
        return ExitCode::SUCCESS;
    }
    if let [counts, name] = &arguments[..]
        && counts == callgrind::COUNT
        && let Some(group) = GROUPS.iter().find(|group| group.name == name)
    {
        (group.run)(&Counter);
        return ExitCode::SUCCESS;
    }
    match compare(has("--print"), has("--update")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Counts, prints the counts beside the committed ones, and writes them, or fails where they differ
/// too much, unless it should only print.
fn compare(print: bool, update: bool) -> Result<(), String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.txt");
    let at_file = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = fs::read_to_string(&file).map_err(|error| at_file(&error))?;
    let committed = Counts::from_table(&text).map_err(|error| at_file(&error))?;
    let counted = count_all()?;
    let (table, problems) = report(&committed, &counted);
    print!("{table}");
    if update {
        return fs::write(&file, counted.to_table()).map_err(|error| at_file(&error));
    }
    if print || problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// Counts two groups at a time: the first beside the others.
fn count_all() -> Result<Counts, String> {
    let count = |groups: &[Group]| -> Result<Vec<(String, u64)>, String> {
        let counts = groups.iter().map(|group| callgrind::count(group.name));
        Ok(counts.collect::<Result<Vec<_>, _>>()?.concat())
    };
    let (first, others) = GROUPS.split_at(1);
    thread::scope(|scope| {
        let others = scope.spawn(move || count(others));
        let mut counts = count(first)?;
        counts.extend(others.join().map_err(|_| "a thread panicked".to_owned())??);
        Counts::from_list(counts)
    })
}
