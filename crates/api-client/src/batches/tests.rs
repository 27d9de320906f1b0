//! When a simulated connection is read.

use std::io;
use std::ops::RangeInclusive;
use std::task::{Poll, Waker};

use hyper::rt::{Read, ReadBufCursor};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::io::AsyncReadExt;
use tokio::time::sleep;

use super::*;
use crate::hurry::{MANY_HURRIES, NO_PAUSES};
use crate::read_ahead::ReadAhead;

/// A simulated socket. It wakes its reader as the kernel and tokio would.
#[derive(Clone, Default)]
struct FakeSocket(Arc<Mutex<Socket>>);

#[derive(Default)]
struct Socket {
    /// Received and not read.
    waiting: usize,
    closed: bool,
    /// Reported once, by the next read that finds nothing.
    error: Option<io::ErrorKind>,
    /// None if the mark cannot be set.
    low_water: Option<usize>,
    is_ready: bool,
    reader: Option<Waker>,
    /// How often the mark was raised.
    raised: u32,
}

impl Socket {
    fn wake(&mut self) {
        if self.waiting > 0 && self.waiting >= self.low_water.unwrap_or(1) || self.closed {
            self.is_ready = true;
            if let Some(reader) = self.reader.take() {
                reader.wake();
            }
        }
    }
}

impl FakeSocket {
    fn receive(&self, bytes: usize) {
        let mut socket = self.0.lock();
        socket.waiting += bytes;
        socket.wake();
    }

    fn close(&self) {
        let mut socket = self.0.lock();
        socket.closed = true;
        socket.wake();
    }
}

impl LowWater for FakeSocket {
    fn set_low_water(&self, bytes: u16) -> bool {
        let mut socket = self.0.lock();
        if socket.low_water.is_none() {
            return false;
        }
        socket.low_water = Some(bytes.into());
        socket.raised += u32::from(bytes > 1);
        socket.wake();
        true
    }

    fn read_now(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut socket = self.0.lock();
        let count = socket.waiting.min(into.len());
        socket.waiting -= count;
        match socket.error.take_if(|_| count == 0) {
            Some(error) => Err(error.into()),
            None if count == 0 && !socket.closed => Err(io::ErrorKind::WouldBlock.into()),
            None => Ok(count),
        }
    }
}

impl Read for FakeSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut socket = self.0.lock();
        if !socket.is_ready {
            socket.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = socket.waiting.min(into.remaining());
        into.put_slice(&vec![0; count]);
        socket.waiting -= count;
        socket.is_ready = socket.closed || count > 0 && into.remaining() == 0;
        if let Some(error) = socket.error.take_if(|_| count == 0) {
            return Poll::Ready(Err(error.into()));
        }
        if count == 0 && !socket.closed {
            socket.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

/// Stands for an error.
const ERROR: usize = usize::MAX;

/// A connection whose low-water mark can be set or not, and what was read when: milliseconds and
/// bytes.
struct Connection {
    socket: FakeSocket,
    hurry: Arc<Hurry>,
    start: Instant,
    reads: Arc<Mutex<Vec<(u128, usize)>>>,
}

impl Connection {
    fn new(has_low_water: bool) -> Self {
        let socket = FakeSocket::default();
        socket.0.lock().low_water = has_low_water.then_some(1);
        let (hurry, start, reads) =
            (Arc::<Hurry>::default(), Instant::now(), Arc::<Mutex<Vec<_>>>::default());
        let mut stream = TokioIo::new(ReadAhead::new(socket.clone(), Some(Batches::new(hurry.clone()))));
        let log = reads.clone();
        tokio::spawn(async move {
            let mut buffer = vec![0; 1 << 16];
            loop {
                let read = stream.read(&mut buffer).await;
                let ends = !matches!(read, Ok(1..));
                log.lock().push((start.elapsed().as_millis(), read.unwrap_or(ERROR)));
                if ends {
                    return;
                }
            }
        });
        Self { socket, hurry, start, reads }
    }

    /// The server sends an event of 100 bytes every `interval`, so many times. The last one was
    /// read when this returns, unless it waits.
    async fn events(&self, count: usize, interval: Duration) {
        for _ in 0..count {
            sleep(interval).await;
            self.socket.receive(100);
        }
        self.read().await;
    }

    /// Lets the reader read what it was woken for.
    async fn read(&self) {
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
    }

    /// A pause has just begun.
    async fn pausing() -> Self {
        let connection = Self::new(true);
        connection.events(10, Duration::from_millis(10)).await;
        assert_eq!(connection.raised(), 1);
        assert_eq!(connection.reads(), every_10_ms(10..=100));
        connection.reads.lock().clear();
        connection
    }

    /// How often a pause began after none.
    fn raised(&self) -> u32 {
        self.socket.0.lock().raised
    }

    fn reads(&self) -> Vec<(u128, usize)> {
        self.reads.lock().clone()
    }
}

/// Reads of one event each.
fn every_10_ms(times: RangeInclusive<u128>) -> Vec<(u128, usize)> {
    times.step_by(10).map(|at| (at, 100)).collect()
}

#[tokio::test(start_paused = true)]
async fn frequent_events_wait_for_one_another() {
    let connection = Connection::pausing().await;
    connection.events(95, Duration::from_millis(10)).await;
    sleep(PAUSE).await;
    connection.read().await;
    let reads = connection.reads();
    // 20 a second instead of 100.
    assert!(reads.len() <= 20, "{reads:?}");
    assert_eq!(reads.iter().map(|(_, bytes)| bytes).sum::<usize>(), 9_500);
    // The mark is raised once for all pauses.
    assert_eq!(connection.raised(), 1);
    let mut received = 0;
    for (at, bytes) in reads {
        // The first of these events arrived so long before.
        let first = 110 + received as u128 * 10;
        assert!(at - first <= PAUSE.as_millis(), "the event at {first} ms was read at {at} ms");
        received += bytes / 100;
    }
}

#[tokio::test(start_paused = true)]
async fn forty_events_a_second_are_read_at_once() {
    let connection = Connection::new(true);
    connection.events(200, Duration::from_millis(25)).await;
    assert_eq!(connection.reads(), (1..=200).map(|k| (k * 25, 100)).collect::<Vec<_>>());
    assert_eq!(connection.raised(), 0);
}

#[tokio::test(start_paused = true)]
async fn events_that_are_no_longer_frequent_are_read_at_once_after_two_seconds() {
    let connection = Connection::pausing().await;
    // One in each pause, which saves nothing.
    connection.events(200, Duration::from_millis(45)).await;
    let reads = connection.reads();
    let at_once = |(at, _): &&(u128, usize)| (at - 100).is_multiple_of(45);
    let late = reads.iter().filter(|it| !at_once(it)).count();
    assert!((20..=45).contains(&late), "{reads:?}");
    assert!(reads.iter().rev().take(100).all(|it| at_once(&it)), "{reads:?}");
    assert_eq!(connection.raised(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pause_in_which_nothing_arrives_is_the_last() {
    let connection = Connection::pausing().await;
    sleep(PAUSE).await;
    connection.read().await;
    connection.events(9, Duration::from_millis(10)).await;
    assert_eq!(connection.reads(), every_10_ms(160..=240));
    assert_eq!(connection.raised(), 1);
    connection.events(1, Duration::from_millis(10)).await;
    assert_eq!(connection.raised(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_hurry_ends_the_pause_and_prevents_the_next() {
    let connection = Connection::pausing().await;
    connection.events(1, Duration::from_millis(10)).await;
    assert_eq!(connection.reads(), []);
    sleep(Duration::from_millis(5)).await;
    connection.hurry.hurry();
    connection.read().await;
    assert_eq!(connection.reads(), [(115, 100)]);
    connection.events(4, Duration::from_millis(10)).await;
    assert_eq!(connection.reads()[1..], [(125, 100), (135, 100), (145, 100), (155, 100)]);
    assert_eq!(connection.raised(), 1);
    // The hurry is over.
    connection.events(1, Duration::from_millis(10)).await;
    assert_eq!(connection.raised(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_event_after_a_hurry_is_read_at_once() {
    let connection = Connection::pausing().await;
    connection.hurry.hurry();
    connection.read().await;
    connection.events(1, Duration::from_millis(40)).await;
    assert_eq!(connection.reads(), [(140, 100)]);
    // Events are still taken to be frequent.
    connection.events(1, Duration::from_millis(40)).await;
    assert_eq!((connection.reads().len(), connection.raised()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_changes_all_the_time_stops_the_pauses() {
    let connection = Connection::pausing().await;
    for _ in 0..50 * 60 {
        sleep(Duration::from_millis(20)).await;
        // The sync of this change needs the event of the one before.
        if connection.socket.0.lock().waiting > 0 {
            connection.hurry.hurry();
            connection.read().await;
        }
        connection.socket.receive(100);
        connection.read().await;
    }
    // About 8 in 11 seconds. Without the limit there would be about 600 in the minute.
    let pauses = connection.raised();
    assert!((40..60).contains(&pauses), "{pauses} pauses in a minute");
}

#[tokio::test(start_paused = true)]
async fn many_calls_at_a_time_are_one_hurry() {
    let connection = Connection::pausing().await;
    for _ in 0..100 {
        connection.hurry.hurry();
    }
    connection.read().await;
    connection.events(1, PAUSE).await;
    assert_eq!(connection.raised(), 2);
    for hurry in 2..=MANY_HURRIES {
        connection.hurry.hurry();
        connection.events(1, PAUSE).await;
        assert_eq!(connection.raised(), hurry.min(MANY_HURRIES - 1) + 1);
    }
    connection.events(1, NO_PAUSES - PAUSE).await;
    connection.events(9, Duration::from_millis(10)).await;
    assert_eq!(connection.raised(), MANY_HURRIES);
    connection.events(1, Duration::from_millis(10)).await;
    assert_eq!(connection.raised(), MANY_HURRIES + 1);
}

#[tokio::test(start_paused = true)]
async fn much_is_read_at_once() {
    let connection = Connection::pausing().await;
    connection.socket.receive(usize::from(LOW_WATER) - 1);
    connection.read().await;
    assert_eq!(connection.reads(), []);
    connection.socket.receive(1);
    connection.read().await;
    let read: usize = connection.reads().iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(read, usize::from(LOW_WATER));
    assert_eq!(connection.start.elapsed().as_millis(), 100);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_connection_is_read_at_once() {
    let connection = Connection::pausing().await;
    connection.socket.receive(7);
    connection.socket.close();
    connection.read().await;
    assert_eq!(connection.reads(), [(100, 7), (100, 0)]);
}

/// The kernel reports an error once, and then the end of the stream.
#[tokio::test(start_paused = true)]
async fn an_error_during_a_pause_is_not_lost() {
    for in_hurry in [false, true] {
        let connection = Connection::pausing().await;
        connection.socket.receive(7);
        connection.socket.0.lock().error = Some(io::ErrorKind::ConnectionReset);
        if in_hurry {
            connection.hurry.hurry();
        }
        connection.socket.close();
        connection.read().await;
        assert_eq!(connection.reads(), [(100, 7), (100, ERROR)]);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_low_water_mark_events_are_read_at_once() {
    let connection = Connection::new(false);
    connection.events(20, Duration::from_millis(10)).await;
    assert_eq!(connection.reads(), every_10_ms(10..=200));
}

/// Whatever arrives when, and whoever is in a hurry: each byte is read within [`PAUSE`], and the
/// end of the stream at once.
#[tokio::test(start_paused = true)]
async fn nothing_waits_for_longer_than_a_pause() {
    let mut pauses = 0;
    for seed in 0..300 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let connection = Connection::new(true);
        let mut arrived = Vec::new();
        let longest = *[3, 30, 120].choose(&mut random).unwrap();
        for _ in 0..random.random_range(1..200) {
            sleep(Duration::from_millis(random.random_range(0..longest))).await;
            if random.random_ratio(1, 20) {
                connection.hurry.hurry();
            }
            let bytes = if random.random_ratio(1, 20) { 40_000 } else { random.random_range(1..5000) };
            arrived.push((connection.start.elapsed().as_millis(), bytes));
            connection.socket.receive(bytes);
        }
        if random.random() {
            sleep(PAUSE).await;
        }
        connection.socket.close();
        connection.read().await;
        let closed = connection.start.elapsed().as_millis();
        let reads = connection.reads();
        assert_eq!(reads.last(), Some(&(closed, 0)), "seed {seed}");
        let (mut read, mut reads) = (0, reads.into_iter());
        let (mut sum, mut last) = (0, 0);
        for (at, bytes) in arrived {
            sum += bytes;
            while read < sum {
                let (now, count) = reads.next().unwrap();
                (read, last) = (read + count, now);
            }
            assert!(last <= at + PAUSE.as_millis(), "seed {seed}: arrived at {at} ms, read at {last} ms");
        }
        pauses += connection.raised();
    }
    assert!(pauses > 200, "{pauses}");
}
