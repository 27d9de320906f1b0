//! Huge pages for a large heap.
//!
//! A change of a pod touches hundreds of pages all over the caches. With pages of 4 KiB, most of these accesses miss the processor's
//! cache of page addresses (TLB), which is slow above all in virtual machines. So the kernel is asked to move memory that is large and
//! nearly all in use into pages of 2 MiB (docs/performance.md). Small processes stay as they are: huge pages would make them larger.
//!
//! If the system's administrator has turned transparent huge pages off, nothing is done.

use std::ops::Range;
use std::time::Duration;

/// When the memory is looked at first. The time doubles with each look: a process grows most after its start.
const FIRST_LOOK: Duration = Duration::from_secs(10);

/// The longest time between two looks.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Less memory than this stays in small pages, in KiB.
const AT_LEAST: u64 = 32 * 1024;

/// Moves the memory of this process into huge pages whenever enough of it is not. Never returns.
#[expect(clippy::disallowed_methods, reason = "nothing else depends on when the thread ends")]
pub(crate) async fn keep() -> std::convert::Infallible {
    let mut pause = FIRST_LOOK;
    loop {
        tokio::time::sleep(pause).await;
        pause = LONGEST_PAUSE.min(pause * 2);
        // The kernel copies the memory meanwhile.
        if let Err(error) = tokio::task::spawn_blocking(look).await {
            tracing::debug!(%error, "cannot look for memory that huge pages would serve");
        }
    }
}

fn look() {
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    if !setting.is_ok_and(|setting| allows(&setting)) {
        return;
    }
    let Ok(smaps) = std::fs::read_to_string("/proc/self/smaps") else { return };
    for range in candidates(&smaps) {
        let length = range.len() >> 20;
        match collapse(&range) {
            Ok(()) => tracing::debug!("moved {length} MiB of memory into huge pages"),
            Err(error) => tracing::debug!(%error, "cannot move {length} MiB of memory into huge pages"),
        }
    }
}

/// Whether the system's setting, such as `always [madvise] never`, allows huge pages to a process that asks for them.
fn allows(setting: &str) -> bool {
    !setting.contains("[never]")
}

/// The mappings of `/proc/PID/smaps` that huge pages would serve: private memory without a file, nearly all of it resident, and enough of
/// it in small pages.
fn candidates(smaps: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut mapping = None;
    let (mut size, mut resident) = (0, 0);
    for line in smaps.lines() {
        if let Some(range) = heap_like(line) {
            mapping = range;
        } else if let Some(kib) = value(line, "Size:") {
            size = kib;
        } else if let Some(kib) = value(line, "Rss:") {
            resident = kib;
        } else if let Some(huge) = value(line, "AnonHugePages:")
            && resident.saturating_sub(huge) >= AT_LEAST
            // Huge pages would make what is not resident so.
            && resident * 16 >= size * 15
        {
            found.extend(mapping.take());
        }
    }
    found
}

/// None if the line does not begin a mapping. Otherwise its addresses, if it is memory that an allocator can have got.
fn heap_like(line: &str) -> Option<Option<Range<usize>>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let range = address(start)?..address(end)?;
    let permissions = words.next()?;
    let inode = words.nth(2)?;
    let name = words.next().unwrap_or_default();
    Some((permissions == "rw-p" && inode == "0" && matches!(name, "" | "[heap]")).then_some(range))
}

fn value(line: &str, name: &str) -> Option<u64> {
    line.strip_prefix(name)?.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Moves the memory into huge pages, or lets the kernel do so in its own time where it cannot be told to do it now (before Linux 6.1).
fn collapse(range: &Range<usize>) -> std::io::Result<()> {
    let advise = |advice| {
        #[expect(unsafe_code, reason = "madvise is a function of C")]
        // SAFETY: neither advice changes what the memory holds, or whether it can be read or written, whatever is mapped there by now.
        let result = unsafe { libc::madvise(range.start as *mut libc::c_void, range.len(), advice) };
        if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    match advise(libc::MADV_COLLAPSE) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => advise(libc::MADV_HUGEPAGE),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A mapping as smaps shows it.
    fn mapping(head: &str, size: u64, resident: u64, huge: u64) -> String {
        format!(
            "{head}\nSize: {size:18} kB\nKernelPageSize:        4 kB\nRss: {resident:19} kB\nPss: {resident:19} kB\n\
             Pss_Dirty:             0 kB\nAnonHugePages: {huge:9} kB\nShmemPmdMapped:        0 kB\nTHPeligible:           1\n\
             VmFlags: rd wr mr mw me ac\n"
        )
    }

    #[track_caller]
    fn check(smaps: &str, want: &[Range<usize>]) {
        assert_eq!(candidates(smaps), want, "{smaps}");
    }

    const HEAP: &str = "10000000-18000000 rw-p 00000000 00:00 0                                  [heap]";
    const UNNAMED: &str = "7f0000000000-7f0008000000 rw-p 00000000 00:00 0 ";
    const MIB: u64 = 1024;

    #[test]
    fn large_memory_in_use_is_chosen() {
        let heap = 0x1000_0000..0x1800_0000;
        let unnamed = 0x7f00_0000_0000..0x7f00_0800_0000;
        check("", &[]);
        check(&mapping(HEAP, 128 * MIB, 128 * MIB, 0), std::slice::from_ref(&heap));
        check(&mapping(UNNAMED, 128 * MIB, 120 * MIB, 0), std::slice::from_ref(&unnamed));
        let both =
            mapping(HEAP, 128 * MIB, 128 * MIB, 96 * MIB) + &mapping(UNNAMED, 128 * MIB, 128 * MIB, 2 * MIB);
        check(&both, &[heap, unnamed]);
    }

    #[test]
    fn other_memory_is_left_alone() {
        for head in [
            "10000000-18000000 rw-s 00000000 00:00 0 ",
            "10000000-18000000 r--p 00000000 00:00 0 ",
            "10000000-18000000 rw-p 00000000 fe:00 1234                       /usr/lib/libc.so.6",
            "10000000-18000000 rw-p 00000000 00:00 0                                  [stack]",
            "no mapping at all",
        ] {
            check(&mapping(head, 128 * MIB, 128 * MIB, 0), &[]);
        }
        // Too small, in huge pages already, and with much that is not resident.
        check(&mapping(HEAP, 31 * MIB, 31 * MIB, 0), &[]);
        check(&mapping(HEAP, 128 * MIB, 128 * MIB, 97 * MIB), &[]);
        check(&mapping(HEAP, 128 * MIB, 119 * MIB, 0), &[]);
        // Sizes of a mapping that is not one of the heap do not count for the one before.
        let library = "7f0000000000-7f0008000000 r--p 00000000 fe:00 1234 /usr/lib/libc.so.6";
        check(&(mapping(HEAP, 8, 8, 0) + &mapping(library, 128 * MIB, 128 * MIB, 0)), &[]);
    }

    #[test]
    fn the_administrators_setting_is_kept() {
        assert!(allows("always [madvise] never\n"));
        assert!(allows("[always] madvise never\n"));
        assert!(!allows("always madvise [never]\n"));
    }

    /// The memory of this process, as the kernel describes it.
    #[test]
    fn memory_keeps_what_it_holds() {
        let bytes: Vec<u8> = (0..48 << 20).map(|index: usize| (index % 251) as u8).collect();
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let address = bytes.as_ptr() as usize;
        let range =
            smaps.lines().filter_map(heap_like).flatten().find(|range| range.contains(&address)).unwrap();
        // Where huge pages are not allowed, or there is none, this fails.
        let moved = collapse(&range);
        assert!(bytes.iter().enumerate().all(|(index, byte)| *byte == (index % 251) as u8), "{moved:?}");
        look();
    }
}
