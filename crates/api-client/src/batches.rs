//! Reading what arrives often in batches.
//!
//! Each write is followed by its event in a watch, an event that usually says nothing new. In a
//! busy cluster the process would wake for each of them, and most of what a wake costs is fetching
//! code and data that other processes have displaced from the processor's caches. So the connection
//! with the watches of EndpointSlices and Endpoints is read at most once in [`PAUSE`] while events
//! are frequent. Meanwhile they wait in the socket: the kernel wakes the process early when
//! [`LOW_WATER`] bytes have arrived or when the server closes the connection ([`LowWater`]).
//!
//! Code that waits for an event calls [`Hurry::hurry`].

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use futures::task::AtomicWaker;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::hurry::Hurry;
use crate::low_water::LowWater;

/// How long what has arrived waits at most.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);
/// Events are frequent if there were [`FREQUENT_READS`] reads within this time.
const COUNTED: Duration = Duration::from_millis(200);
/// At this rate, 50 a second, a pause saves more wakes than the one at its end.
const FREQUENT_READS: u32 = 10;
/// So long after events were found to be frequent, reads are counted again.
const FREQUENT: Duration = Duration::from_secs(2);
/// If so many bytes wait, they are read at once: a list, or hundreds of events a second.
const LOW_WATER: u16 = 16 << 10;

/// Decides when one connection is read.
#[derive(Debug)]
pub(crate) struct Batches {
    hurry: Arc<Hurry>,
    waker: Arc<AtomicWaker>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// There were so many reads since then.
    Counting { since: Instant, reads: u32 },
    /// Events are taken to be frequent until then. `pause` is the end of the pause; the
    /// connection's low-water mark is [`LOW_WATER`] as long as there is one.
    Frequent { until: Instant, pause: Option<Pin<Box<Sleep>>> },
}

impl Batches {
    pub(crate) fn new(hurry: Arc<Hurry>) -> Self {
        let waker = hurry.waker();
        Self { hurry, waker, state: State::Counting { since: Instant::now(), reads: 0 } }
    }

    /// Returns true if a pause is over. What has arrived has to be read with [`LowWater::read_now`]
    /// then. During a pause this returns false, and the task is woken at its end.
    pub(crate) fn is_pause_over(&mut self, context: &mut Context<'_>) -> bool {
        let State::Frequent { pause: Some(pause), .. } = &mut self.state else { return false };
        // A hurry that begins after this line wakes the task.
        self.waker.register(context.waker());
        self.hurry.is_on(Instant::now()) || pause.as_mut().poll(context).is_ready()
    }

    /// Call this after each read, with whether it returned all that had arrived.
    pub(crate) fn after_read(&mut self, returned_all: bool, connection: &impl LowWater) {
        let now = Instant::now();
        if let State::Counting { since, reads } = &mut self.state {
            if now - *since >= COUNTED {
                (*since, *reads) = (now, 0);
            }
            *reads += 1;
            if *reads < FREQUENT_READS {
                return;
            }
            self.state = State::Frequent { until: now + FREQUENT, pause: None };
        }
        let State::Frequent { until, pause } = &mut self.state else { return };
        let in_hurry = self.hurry.is_on(now);
        if !returned_all || pause.as_ref().is_some_and(|pause| !pause.is_elapsed() && !in_hurry) {
            // More waits, or the pause goes on though much has arrived.
            return;
        }
        let pauses = now < *until && !in_hurry;
        match pause {
            Some(pause) if pauses => pause.as_mut().reset(now + PAUSE),
            Some(_) => self.end_pause(connection),
            None if pauses && connection.set_low_water(LOW_WATER) => {
                *pause = Some(Box::pin(sleep_until(now + PAUSE)));
            }
            None => {}
        }
        if let State::Frequent { until, pause: None } = self.state
            && now >= until
        {
            self.state = State::Counting { since: now, reads: 0 };
        }
    }

    /// Call this when nothing had arrived at the end of a pause. Reads are counted again then,
    /// unless a hurry ended the pause.
    pub(crate) fn nothing_arrived(&mut self, connection: &impl LowWater) {
        self.end_pause(connection);
        let now = Instant::now();
        if !self.hurry.is_on(now) {
            self.state = State::Counting { since: now, reads: 0 };
        }
    }

    /// Lowers the mark. The kernel wakes the reader if something has arrived since the last read.
    fn end_pause(&mut self, connection: &impl LowWater) {
        if let State::Frequent { pause, .. } = &mut self.state
            && pause.take().is_some()
        {
            self.waker.take();
            connection.set_low_water(1);
        }
    }
}

#[cfg(test)]
mod tests;
