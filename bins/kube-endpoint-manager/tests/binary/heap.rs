//! Tests that all threads share one arena if the C library is glibc.

use std::fs;

use crate::common::{Process, command};

/// Returns the number of arenas besides the main arena, of a process that has reconciled a few
/// Services. glibc reserves 64 MB of addresses for each and makes the first part of them
/// accessible.
fn further_arenas(environment: &[(&str, &str)]) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(folder.path());
    command.env_remove("MALLOC_ARENA_MAX").env_remove("GLIBC_TUNABLES");
    let mut process = Process::spawn(command.arg("--embedded").envs(environment.iter().copied()));
    process.wait_for_line("EndpointSlice shop/");
    let maps = fs::read_to_string(format!("/proc/{}/maps", process.id())).unwrap();
    let is_reserved = |line: &&str| {
        let (range, rest) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let [start, end] = [start, end].map(|address| u64::from_str_radix(address, 16).unwrap());
        rest.starts_with("---p") && (32 << 20..64 << 20).contains(&(end - start))
    };
    maps.lines().filter(is_reserved).count()
}

#[test]
fn all_threads_share_one_arena() {
    assert_eq!(further_arenas(&[]), 0);
    assert_eq!(further_arenas(&[("GLIBC_TUNABLES", "glibc.malloc.tcache_count=3")]), 0);
}

#[test]
fn the_environment_can_allow_more_arenas() {
    assert_ne!(further_arenas(&[("MALLOC_ARENA_MAX", "8")]), 0);
    let tunables = "glibc.malloc.tcache_count=3:glibc.malloc.arena_max=8";
    assert_ne!(further_arenas(&[("GLIBC_TUNABLES", tunables)]), 0);
}
