//! Reads CPU time and memory of a process from Linux.

use std::fs::read_to_string;

use anyhow::{Context, bail};

/// Returns the CPU seconds of a process, of all its threads, in user and kernel mode. Linux counts
/// hundredths of seconds.
pub(crate) fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let stat =
        read_to_string(&path).with_context(|| format!("cannot read {path}; has the process ended?"))?;
    let ticks = parse_cpu_ticks(&stat).with_context(|| format!("{path} has an unknown form"))?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The memory of a process in megabytes of 1,048,576 bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Memory {
    /// The maximum of the resident memory (`VmHWM`).
    pub(crate) peak: f64,
    /// The resident memory (`VmRSS`).
    pub(crate) resident: f64,
}

/// Returns the memory of a process.
pub(crate) fn memory(pid: u32) -> anyhow::Result<Memory> {
    let path = format!("/proc/{pid}/status");
    let status =
        read_to_string(&path).with_context(|| format!("cannot read {path}; has the process ended?"))?;
    parse_memory(&status).with_context(|| format!("{path} has an unknown form"))
}

/// Returns the load average of the last minute.
pub(crate) fn load_average() -> Option<f64> {
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
    let megabytes = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kilobytes = kilobytes.with_context(|| format!("it has no {field}"))?;
        Ok::<_, anyhow::Error>(kilobytes.trim().parse::<f64>()? / 1024.0)
    };
    Ok(Memory { peak: megabytes("VmHWM:")?, resident: megabytes("VmRSS:")? })
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
    fn memory_is_in_megabytes() {
        let check = |status: &str, want: Result<(f64, f64), &str>| {
            let got =
                parse_memory(status).map(|it| (it.peak, it.resident)).map_err(|error| error.to_string());
            assert_eq!(got, want.map_err(str::to_owned), "{status}");
        };
        check("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1536 kB\n", Ok((2.0, 1.5)));
        // A process that has ended has no memory until its parent waits for it.
        check("Name:\tx\nState:\tZ (zombie)\n", Err("it has no VmHWM:"));
    }

    #[test]
    fn this_process_has_cpu_time_and_memory() {
        let pid = std::process::id();
        assert!(cpu_seconds(pid).unwrap() < 3_600.0);
        let memory = memory(pid).unwrap();
        assert!(memory.resident > 1.0 && memory.peak >= memory.resident, "{memory:?}");
        assert!(cpu_seconds(u32::MAX).unwrap_err().to_string().contains("has the process ended?"));
    }
}
