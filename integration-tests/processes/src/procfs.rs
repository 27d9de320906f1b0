//! Reads CPU time and memory of a process from Linux.

use std::fs::read_to_string;
use std::time::Duration;

use anyhow::{Context, bail};

/// Returns the processor time of a process, of all its threads, in user and kernel mode. Linux
/// counts hundredths of seconds.
///
/// # Errors
///
/// If the process has ended.
pub fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let (path, stat) = read(pid, "stat")?;
    let ticks = parse_cpu_ticks(&stat).with_context(|| format!("{path} has an unknown form"))?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// The memory of a process in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// The maximum of the resident memory (`VmHWM`).
    pub peak: u64,
    /// The resident memory (`VmRSS`).
    pub resident: u64,
    /// The anonymous part of the resident memory (`RssAnon`): heap and stacks, without the
    /// program's code.
    pub anonymous: u64,
}

/// Returns the memory of a process.
pub(crate) fn memory(pid: u32) -> anyhow::Result<Memory> {
    let (path, status) = read(pid, "status")?;
    parse_memory(&status).with_context(|| format!("{path} has an unknown form"))
}

/// Returns the path and the text of a file about a process.
fn read(pid: u32, file: &str) -> anyhow::Result<(String, String)> {
    let path = format!("/proc/{pid}/{file}");
    let text =
        read_to_string(&path).with_context(|| format!("cannot read {path}; has the process ended?"))?;
    Ok((path, text))
}

/// Returns the load average of the last minute.
pub fn load_average() -> Option<f64> {
    read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// Returns the ticks of user and kernel mode, fields 14 and 15 of `/proc/PID/stat`.
fn parse_cpu_ticks(stat: &str) -> anyhow::Result<u64> {
    // Field 2 is the name of the program in parentheses. It may contain spaces and parentheses.
    let (_, fields) = stat.rsplit_once(')').context("it has no name")?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let (Some(user), Some(kernel)) = (fields.next(), fields.next()) else { bail!("it is too short") };
    Ok(user.parse::<u64>()? + kernel.parse::<u64>()?)
}

fn parse_memory(status: &str) -> anyhow::Result<Memory> {
    let bytes = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kilobytes = kilobytes.with_context(|| format!("it has no {field}"))?;
        Ok::<_, anyhow::Error>(kilobytes.trim().parse::<u64>()? * 1024)
    };
    Ok(Memory { peak: bytes("VmHWM:")?, resident: bytes("VmRSS:")?, anonymous: bytes("RssAnon:")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_ticks_are_user_and_kernel_mode() {
        let check = |stat: &str, want: Result<u64, &str>| {
            let got = parse_cpu_ticks(stat).map_err(|error| error.to_string());
            assert_eq!(got, want.map_err(str::to_owned), "{stat}");
        };
        check("7 (a) b) c) S 1 7 7 0 -1 4194560 1 2 3 4 50 6 0 0 20 0 3 0 9", Ok(56));
        check("7 (a) S 1 7 7", Err("it is too short"));
        check("", Err("it has no name"));
        check("7 (a) S 1 7 7 0 -1 4194560 1 2 3 4 x 6", Err("invalid digit found in string"));
    }

    #[test]
    fn memory_is_in_bytes() {
        let check = |status: &str, want: Result<[u64; 3], &str>| {
            let memory = parse_memory(status).map(|it| [it.peak, it.resident, it.anonymous]);
            assert_eq!(memory.map_err(|error| error.to_string()), want.map_err(str::to_owned), "{status}");
        };
        let running = "Name:\tx\nVmHWM:\t    2 kB\nVmRSS:\t    3 kB\nRssAnon:\t    1 kB\n";
        check(running, Ok([2048, 3072, 1024]));
        // A process that has ended has no memory until its parent waits for it.
        check("Name:\tx\nState:\tZ (zombie)\n", Err("it has no VmHWM:"));
    }

    #[test]
    fn a_process_that_does_not_exist_has_ended() {
        assert!(cpu_time(u32::MAX).unwrap_err().to_string().contains("has the process ended?"));
    }
}
