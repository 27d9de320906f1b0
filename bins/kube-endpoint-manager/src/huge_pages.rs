//! Huge pages for a large heap (docs/performance.md, Huge pages).
//!
//! A change of a pod touches hundreds of pages all over the caches. With pages of 4 KiB, most of these accesses miss the processor's
//! cache of page addresses (TLB), which is slow above all in virtual machines. So Linux is asked to move memory that is large and nearly
//! all in use into pages of 2 MiB. Small processes stay as they are: huge pages would make them larger.
//!
//! Nothing is done before Linux 6.1, if the system's administrator has turned transparent huge pages off, with huge pages of another
//! size, or with `--embedded`.

use std::convert::Infallible;
use std::ffi::c_int;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// When the memory is looked at first. The time doubles with each look: a process grows most after its start.
const FIRST_LOOK: Duration = Duration::from_secs(10);

/// The longest time between two looks.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// The size of a huge page.
const HUGE: usize = 2 << 20;

/// A mapping with less memory in small pages than this stays as it is, in KiB.
const AT_LEAST: u64 = 32 * 1024;

/// Linux' number for `MADV_COLLAPSE`. The libc crate has it for glibc only.
const MADV_COLLAPSE: c_int = 25;

/// Moves memory of this process into huge pages, again and again because the heap grows. Never returns.
#[expect(clippy::disallowed_methods, reason = "nothing else depends on when the thread ends")]
pub(crate) async fn keep() -> Infallible {
    let stop = StopOnDrop::default();
    let mut pause = FIRST_LOOK;
    loop {
        tokio::time::sleep(pause).await;
        pause = LONGEST_PAUSE.min(pause * 2);
        let stopped = Arc::clone(&stop.0);
        // The kernel copies the memory meanwhile.
        if let Err(error) = tokio::task::spawn_blocking(move || look(&stopped)).await {
            tracing::debug!(%error, "cannot look for memory that fits huge pages");
        }
    }
}

/// Ends the thread that looks: the runtime waits for it.
#[derive(Default)]
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn look(stop: &AtomicBool) {
    let setting = |name: &str| {
        std::fs::read_to_string(format!("/sys/kernel/mm/transparent_hugepage/{name}")).unwrap_or_default()
    };
    if !is_allowed(setting) {
        return;
    }
    let Ok(smaps) = std::fs::read_to_string("/proc/self/smaps") else { return };
    for mapping in mappings(&smaps).into_iter().filter(Mapping::fits_huge_pages) {
        let (moved, end) = collapse(&mapping.range, stop, madvise);
        tracing::debug!(
            moved,
            of = blocks(&mapping.range).count(),
            error = end.map(tracing::field::display),
            "blocks of 2 MiB of memory are in huge pages"
        );
    }
}

/// Whether the system allows huge pages of 2 MiB to a process that asks for them. `MADV_COLLAPSE` does not look at these settings.
fn is_allowed(setting: impl Fn(&str) -> String) -> bool {
    let is_on = |name: &str| setting(name).contains('[') && !setting(name).contains("[never]");
    // The setting of each size came with Linux 6.8.
    let size = "hugepages-2048kB/enabled";
    setting("hpage_pmd_size").trim().parse() == Ok(HUGE)
        && is_on("enabled")
        && (setting(size).is_empty() || is_on(size))
}

/// Private memory without a file.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    range: Range<usize>,
    /// How much of it is resident, in KiB.
    resident: u64,
    /// How much of it is in huge pages, in KiB.
    huge: u64,
}

impl Mapping {
    /// Whether enough of it is in small pages, and nearly all of it is resident: huge pages would make the rest resident, too.
    fn fits_huge_pages(&self) -> bool {
        let size = self.range.len() as u64 / 1024;
        self.resident.saturating_sub(self.huge) >= AT_LEAST && self.resident * 16 >= size * 15
    }
}

/// The mappings of `/proc/PID/smaps` that an allocator can have got.
fn mappings(smaps: &str) -> Vec<Mapping> {
    let mut found: Vec<Mapping> = Vec::new();
    let mut is_last = false;
    for line in smaps.lines() {
        if let Some(range) = head(line) {
            is_last = range.is_some();
            found.extend(range.map(|range| Mapping { range, resident: 0, huge: 0 }));
        } else if is_last && let Some(mapping) = found.last_mut() {
            if let Some(kib) = value(line, "Rss:") {
                mapping.resident = kib;
            } else if let Some(kib) = value(line, "AnonHugePages:") {
                mapping.huge = kib;
            }
        }
    }
    found
}

/// None if the line does not begin a mapping. Otherwise its addresses, if it is private memory without a file.
fn head(line: &str) -> Option<Option<Range<usize>>> {
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

/// The addresses of the blocks that a huge page each can hold.
fn blocks(range: &Range<usize>) -> impl Iterator<Item = usize> + use<> {
    let end = range.end;
    (range.start.next_multiple_of(HUGE)..end).step_by(HUGE).filter(move |block| end - block >= HUGE)
}

/// Moves each block into a huge page. Returns in how many blocks the memory is in huge pages now, and the error that ended it early: the
/// system or the process may not have more memory, and a block of which nothing is resident is refused.
fn collapse(
    range: &Range<usize>,
    stop: &AtomicBool,
    mut advise: impl FnMut(usize) -> io::Result<()>,
) -> (usize, Option<io::Error>) {
    let mut moved = 0;
    for block in blocks(range) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        match advise(block) {
            Ok(()) => moved += 1,
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EAGAIN)) => {}
            Err(error) => return (moved, Some(error)),
        }
    }
    (moved, None)
}

fn madvise(block: usize) -> io::Result<()> {
    #[expect(unsafe_code, reason = "madvise is a function of C")]
    // SAFETY: the advice does not change what memory holds, or whether it can be read or written, whatever is mapped there by now.
    let result = unsafe { libc::madvise(block as *mut libc::c_void, HUGE, MADV_COLLAPSE) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const MIB: u64 = 1024;

    /// A mapping of 128 MiB as smaps shows it.
    fn shown(head: &str, resident: u64, huge: u64) -> String {
        format!(
            "{head}\nSize:             131072 kB\nKernelPageSize:        4 kB\nRss: {resident:19} kB\nPss: {resident:19} kB\n\
             Pss_Dirty:             0 kB\nAnonHugePages: {huge:9} kB\nShmemPmdMapped:        0 kB\nTHPeligible:           1\n\
             VmFlags: rd wr mr mw me ac\n"
        )
    }

    #[track_caller]
    fn check(smaps: &str, want: &[Range<usize>]) {
        let fit: Vec<_> = mappings(smaps).into_iter().filter(Mapping::fits_huge_pages).collect();
        assert_eq!(fit.iter().map(|mapping| mapping.range.clone()).collect::<Vec<_>>(), want, "{smaps}");
    }

    const HEAP: &str = "10000000-18000000 rw-p 00000000 00:00 0                                  [heap]";
    const UNNAMED: &str = "70000000-78000000 rw-p 00000000 00:00 0 ";
    const LIBRARY: &str =
        "20000000-28000000 rw-p 00000000 fe:00 1234                       /usr/lib/libc.so.6";

    #[test]
    fn large_memory_in_use_is_chosen() {
        let (heap, unnamed) = (0x1000_0000..0x1800_0000, 0x7000_0000..0x7800_0000);
        check("", &[]);
        check(&shown(HEAP, 128 * MIB, 0), std::slice::from_ref(&heap));
        check(&shown(UNNAMED, 120 * MIB, 0), std::slice::from_ref(&unnamed));
        let all =
            [shown(HEAP, 128 * MIB, 96 * MIB), shown(LIBRARY, 8, 0), shown(UNNAMED, 128 * MIB, 2 * MIB)]
                .concat();
        check(&all, &[heap, unnamed]);
    }

    #[test]
    fn other_memory_is_left_alone() {
        for head in [
            "10000000-18000000 rw-s 00000000 00:00 0 ",
            "10000000-18000000 r--p 00000000 00:00 0 ",
            "10000000-18000000 rw-p 00000000 00:00 0                                  [stack]",
            "no mapping at all",
            LIBRARY,
        ] {
            check(&shown(head, 128 * MIB, 0), &[]);
        }
        // Too small, in huge pages already, and with much that is not resident.
        check(&shown(&HEAP.replace("18000000", "11f00000"), 31 * MIB, 0), &[]);
        check(&shown(HEAP, 128 * MIB, 97 * MIB), &[]);
        check(&shown(HEAP, 119 * MIB, 0), &[]);
        // What is said of a library does not count for the heap before it.
        check(&(shown(HEAP, 8, 0) + &shown(LIBRARY, 128 * MIB, 0)), &[]);
    }

    #[test]
    fn the_administrators_settings_are_kept() {
        let allowed = |size: &str, enabled: &str, of_size: &str| {
            is_allowed(|name| {
                let text = match name {
                    "hpage_pmd_size" => size,
                    "enabled" => enabled,
                    _ => of_size,
                };
                text.to_owned()
            })
        };
        let (madvise, never) = ("always [madvise] never\n", "always madvise [never]\n");
        let (inherit, not_2_mib) = ("always [inherit] madvise never\n", "always inherit madvise [never]\n");
        assert!(allowed("2097152\n", madvise, ""));
        assert!(allowed("2097152\n", "[always] madvise never\n", inherit));
        assert!(!allowed("2097152\n", never, inherit));
        assert!(!allowed("2097152\n", madvise, not_2_mib));
        assert!(!allowed("33554432\n", madvise, inherit));
        assert!(!allowed("", "", ""));
    }

    #[test]
    fn only_whole_blocks_are_moved_and_a_lack_of_memory_ends_it() {
        let range = 3 * HUGE - 1..7 * HUGE + 5;
        let collapsed = |code: c_int| {
            let mut asked = Vec::new();
            let (moved, error) = collapse(&range, &AtomicBool::new(false), |block| {
                asked.push(block / HUGE);
                if block == 4 * HUGE { Err(io::Error::from_raw_os_error(code)) } else { Ok(()) }
            });
            (asked, moved, error.and_then(|error| error.raw_os_error()))
        };
        // One that cannot be moved does not keep the others from it.
        assert_eq!(collapsed(libc::EINVAL), (vec![3, 4, 5, 6], 3, None));
        assert_eq!(collapsed(libc::EAGAIN), (vec![3, 4, 5, 6], 3, None));
        assert_eq!(collapsed(libc::ENOMEM), (vec![3, 4], 1, Some(libc::ENOMEM)));
        assert_eq!(collapse(&range, &AtomicBool::new(true), |_| panic!("it was stopped")).0, 0);
        assert_eq!(blocks(&(1..HUGE)).count(), 0);
    }

    /// With the kernel of this machine.
    #[test]
    fn memory_is_moved_and_keeps_what_it_holds() {
        let bytes: Vec<u8> = (0..48 << 20).map(|index: usize| (index % 251) as u8).collect();
        let mapping = || {
            let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let holds = |mapping: &Mapping| mapping.range.contains(&(bytes.as_ptr() as usize));
            mappings(&smaps).into_iter().find(holds).unwrap()
        };
        let before = mapping();
        assert!(before.fits_huge_pages() || before.huge > 0, "{before:?}");
        let (moved, _) = collapse(&before.range, &AtomicBool::new(false), madvise);
        // None where the kernel is too old or has no memory to spare.
        let huge = mapping().huge;
        assert!(huge >= before.huge.max(moved as u64 * 2 * MIB), "{moved} blocks moved, {huge} KiB are huge");
        assert!(bytes.iter().enumerate().all(|(index, byte)| *byte == (index % 251) as u8));
    }
}
