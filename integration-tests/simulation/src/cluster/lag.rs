//! Watches whose events arrive late.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use kube_endpoint_embedded_apiserver::{Body, ConnectionReset};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::history::{Kind, Manager};

/// One lag: whose watches, of which kinds, and how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lag {
    pub(super) number: usize,
    pub(super) kind: Option<Kind>,
    pub(super) by: Option<Manager>,
    pub(super) time: Duration,
    /// Events arrive at multiples of the time.
    pub(super) bunched: bool,
    /// How many frames it has delayed.
    pub(super) delayed: usize,
}

/// The lags that are in effect.
#[derive(Debug, Default)]
pub(super) struct Lags(Mutex<Vec<Lag>>);

impl Lags {
    pub(super) fn add(&self, lag: Lag) {
        self.0.lock().push(lag);
    }

    /// Ends a lag. Returns how many frames it has delayed.
    pub(super) fn remove(&self, number: usize) -> usize {
        let ended: Vec<Lag> = self.0.lock().extract_if(.., |lag| lag.number == number).collect();
        ended.iter().map(|lag| lag.delayed).sum()
    }

    /// When a frame arrives that is sent now. The kind is empty for anything but a watch.
    fn arrival(&self, manager: Manager, kind: &str, opened: Instant) -> Instant {
        let now = Instant::now();
        if kind.is_empty() {
            return now;
        }
        let mut latest = now;
        for lag in self.0.lock().iter_mut() {
            if lag.by.is_some_and(|by| by != manager) || lag.kind.is_some_and(|it| it.word() != kind) {
                continue;
            }
            let step = lag.time.max(Duration::from_millis(1));
            let arrival = if lag.bunched {
                opened + step * ((now - opened).div_duration_f64(step).floor() as u32 + 1)
            } else {
                now + step
            };
            lag.delayed += 1;
            latest = latest.max(arrival);
        }
        latest
    }
}

type Polled = Option<Result<Frame<Bytes>, ConnectionReset>>;

/// The body of a watch. Frames keep their order.
pub(super) struct LaggingBody {
    pub(super) inner: Body,
    pub(super) manager: Manager,
    pub(super) kind: &'static str,
    pub(super) lags: Arc<Lags>,
    opened: Instant,
    /// What has not arrived yet, with the time of its arrival.
    held: VecDeque<(Instant, Polled)>,
    timer: Option<Pin<Box<Sleep>>>,
    ended: bool,
}

impl LaggingBody {
    pub(super) fn new(inner: Body, manager: Manager, kind: &'static str, lags: Arc<Lags>) -> Self {
        let opened = Instant::now();
        Self { inner, manager, kind, lags, opened, held: VecDeque::new(), timer: None, ended: false }
    }
}

impl http_body::Body for LaggingBody {
    type Data = Bytes;
    type Error = ConnectionReset;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ConnectionReset>>> {
        let this = &mut *self;
        while !this.ended {
            let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(context) else { break };
            this.ended = !matches!(frame, Some(Ok(_)));
            if matches!(frame, Some(Err(_))) {
                // A connection that is reset loses what was not read.
                this.held.clear();
                this.timer = None;
                return Poll::Ready(frame);
            }
            let arrival = this.lags.arrival(this.manager, this.kind, this.opened);
            let last = this.held.back().map_or(arrival, |(last, _)| *last);
            this.held.push_back((arrival.max(last), frame));
            if this.held.len() == 1 && arrival <= Instant::now() {
                break;
            }
        }
        let Some((arrival, _)) = this.held.front() else { return Poll::Pending };
        if *arrival > Instant::now() {
            let timer = match &mut this.timer {
                Some(timer) if timer.deadline() == *arrival => timer,
                timer => timer.insert(Box::pin(sleep_until(*arrival))),
            };
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        this.timer = None;
        match this.held.pop_front() {
            Some((_, frame)) => Poll::Ready(frame),
            None => Poll::Pending,
        }
    }
}
