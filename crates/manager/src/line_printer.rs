//! Prints lines from a thread of its own, so that a slow reader of the output never delays the
//! caller.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

/// The most lines that wait for the output; about 100 KB.
const CAPACITY: usize = 1000;

/// The pause between two looks of [`LinePrinter::flush`] and [`LinePrinter::flush_blocking`].
const POLL: Duration = Duration::from_millis(10);

/// Writes lines to an output from a thread of its own. If nobody reads the output (a pipe without a
/// reader, a terminal after Ctrl-S) and 1000 lines wait for it, the printer drops further lines
/// until it has written those. Then a line tells the number of dropped lines. Clones print to the
/// same output.
#[derive(Clone, Debug)]
pub struct LinePrinter {
    /// The count of waiting lines bounds the channel. A bounded channel would take memory for all
    /// lines from the start.
    lines: Sender<String>,
    /// The most lines that wait, besides the line that the thread writes.
    capacity: usize,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Lines that the thread has not written yet.
    waiting: AtomicUsize,
    /// Lines dropped since the last notice.
    dropped: AtomicUsize,
}

impl LinePrinter {
    /// Starts the thread, which ends after the last clone of the printer.
    ///
    /// # Errors
    ///
    /// If the operating system refuses a thread.
    pub fn new(out: impl Write + Send + 'static) -> std::io::Result<Self> {
        Self::with(out, CAPACITY, dropped_notice)
    }

    /// Like [`Self::new`], but `capacity` lines wait at most, and `notice` makes the line that
    /// tells the number of dropped lines.
    pub(crate) fn with(
        out: impl Write + Send + 'static,
        capacity: usize,
        notice: fn(usize) -> String,
    ) -> std::io::Result<Self> {
        let (lines, receiver) = channel();
        let counts = Arc::new(Counts::default());
        let printer = Self { lines, capacity, counts: Arc::clone(&counts) };
        std::thread::Builder::new().name("line-printer".to_owned()).spawn(move || {
            write_lines(out, &receiver, &counts, notice);
        })?;
        Ok(printer)
    }

    /// Prints a text and a line end, or drops it. Never blocks. The printer ignores that an output
    /// is closed.
    pub fn print(&self, line: String) {
        let waiting = self.counts.waiting.fetch_add(1, Ordering::AcqRel);
        // If no line waits, the thread may already have printed its notice and wait for a line
        // itself. Dropping this one would leave it waiting.
        let dropping = waiting > 0 && self.counts.dropped.load(Ordering::Acquire) > 0;
        if dropping || waiting > self.capacity || self.lines.send(line).is_err() {
            self.counts.waiting.fetch_sub(1, Ordering::AcqRel);
            self.counts.dropped.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Waits until the thread has written all lines, for `timeout` at most.
    pub async fn flush(&self, timeout: Duration) {
        let written = async {
            while self.counts.waiting.load(Ordering::Acquire) > 0 {
                tokio::time::sleep(POLL).await;
            }
        };
        // The process loses the rest.
        let _ = tokio::time::timeout(timeout, written).await;
    }

    /// Like [`Self::flush`], for callers outside a runtime. Blocks the caller's thread.
    #[expect(clippy::disallowed_methods, reason = "outside a runtime there is no other clock")]
    pub fn flush_blocking(&self, timeout: Duration) {
        let start = Instant::now();
        while self.counts.waiting.load(Ordering::Acquire) > 0 && start.elapsed() < timeout {
            std::thread::sleep(POLL);
        }
    }
}

/// Returns the line that tells the number of dropped lines.
pub(crate) fn dropped_notice(lines: usize) -> String {
    match lines {
        1 => "1 line was dropped: this output was not read in time".to_owned(),
        many => format!("{many} lines were dropped: this output was not read in time"),
    }
}

fn write_lines(mut out: impl Write, lines: &Receiver<String>, counts: &Counts, notice: fn(usize) -> String) {
    let mut write = |line: &str| {
        // One write for the whole line: an output that fails between two writes, as on a full disk,
        // would get half of it.
        let _ = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
    };
    loop {
        let mut next = lines.try_recv();
        if next.is_err() {
            match counts.dropped.swap(0, Ordering::AcqRel) {
                0 => {}
                dropped => write(&notice(dropped)),
            }
        }
        if let Err(TryRecvError::Empty) = next {
            next = lines.recv().map_err(|_| TryRecvError::Disconnected);
        }
        let Ok(line) = next else { return };
        write(&line);
        counts.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{SyncSender, sync_channel};

    /// An output that takes each text only when the reader does.
    struct Pipe(SyncSender<String>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.send(String::from_utf8_lossy(bytes).into_owned()).unwrap();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn an_output_that_nobody_reads_blocks_nobody_and_loses_lines() {
        let (sender, reader) = sync_channel(0);
        let printer = LinePrinter::new(Pipe(sender)).unwrap();
        for number in 0..3 * CAPACITY {
            printer.print(format!("line {number}"));
        }
        printer.flush(Duration::from_millis(50)).await;
        let mut text = String::new();
        while !text.contains("dropped: this output was not read in time\n") {
            text += &reader.recv().unwrap();
        }
        let lines: Vec<&str> = text.lines().collect();
        let (last, printed) = lines.split_last().unwrap();
        assert!((CAPACITY..=CAPACITY + 1).contains(&printed.len()), "{}", printed.len());
        let expected: Vec<String> = (0..printed.len()).map(|number| format!("line {number}")).collect();
        assert_eq!(printed, expected);
        let dropped = 3 * CAPACITY - printed.len();
        assert_eq!(*last, format!("{dropped} lines were dropped: this output was not read in time"));
        // The printer goes on afterwards.
        printer.print("more".to_owned());
        let mut text = String::new();
        while !text.ends_with('\n') {
            text += &reader.recv().unwrap();
        }
        assert_eq!(text, "more\n");
    }

    /// The printer drops one more line after the thread has printed its notice, while no line
    /// waits: only another line wakes the thread.
    #[test]
    fn a_line_that_is_dropped_while_nothing_waits_does_not_stop_the_next_ones() {
        let (sender, reader) = sync_channel(0);
        let printer = LinePrinter::new(Pipe(sender)).unwrap();
        printer.counts.dropped.store(1, Ordering::Release);
        printer.print("next".to_owned());
        let text = reader.recv().unwrap() + &reader.recv().unwrap();
        assert_eq!(text, "next\n1 line was dropped: this output was not read in time\n");
    }

    #[tokio::test]
    async fn lines_are_written_in_order() {
        struct Collect(Sender<Vec<u8>>);
        impl Write for Collect {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                let _ = self.0.send(bytes.to_vec());
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let (sender, reader) = channel();
        let printer = LinePrinter::new(Collect(sender)).unwrap();
        printer.print("a".to_owned());
        printer.clone().print("b".to_owned());
        printer.flush(Duration::from_secs(60)).await;
        printer.print("c".to_owned());
        printer.flush_blocking(Duration::from_secs(60));
        assert_eq!(printer.counts.waiting.load(Ordering::Acquire), 0);
        drop(printer);
        let text: Vec<u8> = reader.into_iter().flatten().collect();
        assert_eq!(text, b"a\nb\nc\n");
    }

    #[tokio::test]
    async fn a_closed_output_is_ignored() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
        }
        let printer = LinePrinter::new(Closed).unwrap();
        (0..10).for_each(|_| printer.print("x".to_owned()));
        printer.flush(Duration::from_secs(60)).await;
        assert_eq!(printer.counts.waiting.load(Ordering::Acquire), 0);
    }
}
