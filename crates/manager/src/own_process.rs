//! Figures of this process. Linux tells all of them, in `/proc/self` for the most part; other
//! systems tell only the CPU time and the limits.

use std::fs::{read_dir, read_to_string};

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time of all threads, in user and kernel mode, in seconds.
pub(crate) fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns a field of `/proc/self/status`, such as `VmRSS` or `Threads`. Sizes are in bytes.
pub(crate) fn status(field: &str) -> Option<u64> {
    number(&read_to_string("/proc/self/status").ok()?, field)
}

/// Returns the number of open file descriptors.
pub(crate) fn open_files() -> Option<u64> {
    // The folder is open while it is read.
    Some(read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as u64)
}

/// Returns a limit that the process has now, and 0 if there is none.
pub(crate) fn limit(resource: Resource) -> Option<u64> {
    Some(getrlimit(resource).current.unwrap_or(0))
}

/// Returns the start of the process, in seconds since the epoch.
pub(crate) fn start_time() -> Option<u64> {
    let boot = read_to_string("/proc/stat").ok()?;
    let boot: u64 = boot.lines().find_map(|line| line.strip_prefix("btime "))?.parse().ok()?;
    let ticks = start_in_ticks(&read_to_string("/proc/self/stat").ok()?)?;
    Some(boot + ticks / rustix::param::clock_ticks_per_second())
}

/// Returns field 22 of a `/proc/PID/stat`: the time between the boot and the start of the process.
fn start_in_ticks(stat: &str) -> Option<u64> {
    // Field 2 is the name of the program in parentheses. It may contain spaces and parentheses.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

fn number(status: &str, field: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?.trim();
    match value.strip_suffix(" kB") {
        Some(kilobytes) => Some(kilobytes.parse::<u64>().ok()? * 1024),
        None => value.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_status_are_numbers_and_sizes() {
        let text = "VmPeak:\t 900 kB\nVmSize:\t   100000 kB\nThreads:\t7\nName:\tx\n";
        assert_eq!(number(text, "VmSize"), Some(102_400_000));
        assert_eq!(number(text, "Threads"), Some(7));
        assert_eq!(["Vm", "Name", "VmRSS"].map(|field| number(text, field)), [None; 3]);
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194560 1 2 3 4 50 6 0 0 20 0 3 0 9 10";
        assert_eq!(start_in_ticks(stat), Some(9));
        assert_eq!(start_in_ticks("7 (a) S 1"), None);
    }

    #[test]
    fn the_figures_are_those_of_this_process() {
        let resident = status("VmRSS").unwrap();
        assert!(resident > 1 << 20 && resident < status("VmSize").unwrap());
        assert!(status("Threads").unwrap() >= 2, "the harness runs a test on a thread of its own");

        let before = open_files().unwrap();
        let files = [(); 200].map(|()| std::fs::File::open("/proc/self/stat").unwrap());
        // Tests beside this one open and close files, too.
        assert!(open_files().unwrap() >= before + 100);
        drop(files);
        assert!(open_files().unwrap() <= limit(Resource::Nofile).unwrap());

        let before = cpu_time();
        while cpu_time() < before + 0.02 {}

        // Ticks and the boot are whole numbers.
        let now = u64::try_from(clock_gettime(ClockId::Realtime).tv_sec).unwrap() + 2;
        let age = now.checked_sub(start_time().unwrap()).unwrap();
        assert!(age < 3600, "{age} s");
    }
}
