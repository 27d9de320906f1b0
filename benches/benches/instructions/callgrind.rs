//! Runs this program under Callgrind, which writes the number of instructions of each counted call.

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

use kube_endpoint_benches::instructions::counts_of_calls;

/// The argument that makes this program run one group; the next argument is its name.
pub(crate) const COUNT: &str = "--count";

/// The function whose calls Callgrind counts. It finds functions by their names.
const COUNTED_FUNCTION: &str = "*counted_call*";
/// The function after which Callgrind writes the count. It does only one thing for a function.
const WRITTEN_FUNCTION: &str = "*written_after_call*";

/// The C library chooses its functions for strings and memory by the features of the processor.
/// Without these, it chooses the same ones on each x86-64.
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX2,-AVX_Fast_Unaligned_Load,-BMI2,-ERMS,-FSRM,-SSSE3,-SSE4_1,-SSE4_2";

/// The text after the name of a benchmark in the output of the counted program.
const COUNTED: &str = " was counted";

/// Runs benchmarks, and prints their names in the order of their counts.
pub(crate) struct Counter;

#[inline(never)]
fn written_after_call(work: &mut dyn FnMut()) {
    counted_call(work);
}

#[inline(never)]
fn counted_call(work: &mut dyn FnMut()) {
    work();
}

impl Counter {
    /// Counts the instructions of `work`. The count does not include dropping the result.
    pub(crate) fn count<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        let mut work = Some(work);
        let mut result = None;
        written_after_call(&mut || result = work.take().map(|work| black_box(work())));
        println!("{name}{COUNTED}");
        result.expect("the call was made")
    }
}

/// Counts the benchmarks of a group, in a process of its own.
///
/// # Errors
///
/// A text that says what failed.
pub(crate) fn count(group: &str) -> Result<Vec<(String, u64)>, String> {
    let program = env::current_exe().map_err(|error| format!("the path of this program: {error}"))?;
    let file =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("callgrind.{group}.{}", std::process::id()));
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--quiet", "--collect-atstart=no", "--combine-dumps=yes"])
        .arg(format!("--toggle-collect={COUNTED_FUNCTION}"))
        .arg(format!("--dump-after={WRITTEN_FUNCTION}"))
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(program)
        .args([COUNT, group])
        .env("GLIBC_TUNABLES", TUNABLES)
        .stderr(Stdio::inherit());
    let output = valgrind
        .output()
        .map_err(|error| format!("valgrind cannot be started, install it or run with --test: {error}"))?;
    if !output.status.success() {
        return Err(format!("the benchmarks of {group} failed under valgrind: {}", output.status));
    }
    let profile = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    fs::remove_file(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let output = String::from_utf8_lossy(&output.stdout);
    let names: Vec<&str> = output.lines().filter_map(|line| line.strip_suffix(COUNTED)).collect();
    let counts = counts_of_calls(&profile)?;
    if names.is_empty() || names.len() != counts.len() {
        return Err(format!("{group}: {} benchmarks, but {} counts", names.len(), counts.len()));
    }
    Ok(names.into_iter().map(str::to_owned).zip(counts).collect())
}
