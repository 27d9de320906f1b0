//! Measures the memory of the informer's stores, in bytes for each pod, by kind of object.
//!
//! `cargo run --release -p kube-endpoint-benches --example store_memory -- [PODS SERVICES NODES]`
//! fills the stores as reflectors do, once with label sets that the pods of a Service share and
//! once with labels of their own for each pod. It prints the allocated bytes by kind, their
//! maximum, and the growth of the resident memory. Without arguments it has the size of a cluster
//! at Kubernetes' supported limits.
#![allow(clippy::print_stdout, reason = "this is its output")]

#[path = "store_memory/fill.rs"]
mod fill;

use std::error::Error;

use fill::{Size, fill};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    // The highest resident memory is a figure of a process, so each case is a process of its own.
    if let Some(case) = arguments.iter().position(|one| one == "shared" || one == "unique") {
        let unique_labels = arguments.remove(case) == "unique";
        let mut numbers = arguments.iter().map(|number| number.parse::<usize>());
        let mut number = |default| numbers.next().unwrap_or(Ok(default));
        let (pods, services, nodes) = (number(150_000)?, number(10_000)?, number(5_000)?);
        return measure(Size { pods, services, nodes, namespaces: 50, unique_labels });
    }
    for case in ["shared", "unique"] {
        println!("{case} label sets");
        let status =
            std::process::Command::new(std::env::current_exe()?).arg(case).args(&arguments).status()?;
        if !status.success() {
            return Err(format!("the measurement ended with {status}").into());
        }
    }
    Ok(())
}

fn measure(size: Size) -> Result<(), Box<dyn Error>> {
    let each = |bytes: usize| bytes / size.pods;
    let (resident, start) = (kilobytes("VmRSS:")?, ALLOCATED.current_usage());
    let mut before = start;
    ALLOCATED.reset_peak_usage();
    let filled = fill(size, |kind| {
        let now = ALLOCATED.current_usage();
        println!("  {:<16}{:>6} bytes for each pod", kind.name(), each(now.saturating_sub(before)));
        before = now;
    });
    println!("  {:<16}{:>6}", "all", each(ALLOCATED.current_usage() - start));
    println!("  {:<16}{:>6}", "at most", each(ALLOCATED.peak_usage() - start));
    println!("  {:<16}{:>6}", "resident", each(1024 * (kilobytes("VmRSS:")? - resident)));
    println!("  {:<16}{:>6}", "resident at most", each(1024 * (kilobytes("VmHWM:")? - resident)));
    println!("  {}", filled.describe());
    Ok(())
}

fn kilobytes(field: &str) -> Result<usize, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find_map(|line| line.strip_prefix(field)).ok_or("/proc/self/status lacks a field")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
