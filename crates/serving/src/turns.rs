//! Gives turns to clients that have not authenticated. The server makes public-key operations for
//! them in their turns only: one after the other, for at most a quarter of a processor.
//!
//! One thread runs all tasks of the process, and a handshake with a 4096-bit RSA key takes several
//! milliseconds of it. Anyone who can connect can begin handshakes, so without a limit they could
//! keep the leader from its Lease. The limit is on time, not on a number, so that it fits each kind
//! of key: an ECDSA key allows thousands of handshakes a second. The server measures that time,
//! because a client chooses how much its certificates cost.
//!
//! The client address that has waited longest since its last turn has the next one: a client that
//! begins many handshakes delays those of its own address. Among the connections of an address,
//! those that have had a turn are first, then the newest and the oldest alternate. A probe is the
//! newest when it arrives; among clients that give up sooner, it becomes the oldest.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use lru::LruCache;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

/// All turns together take this fraction of the time: one part of `PARTS`.
const PARTS: u32 = 4;

/// The time that turns may take without a pause after a quiet time.
const BURST: Duration = Duration::from_millis(100);

/// The longest time that a turn counts for. If the thread was suspended during a turn, the next
/// turns must not wait for many times as long.
const LONGEST: Duration = Duration::from_millis(20);

/// How many client addresses the order remembers.
const ADDRESSES: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// The number of waiting clients from which on the server warns, once in a while.
const MANY: usize = 50;
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The time that turns may take.
#[derive(Debug, Default)]
struct Budget {
    /// Before this moment there is no turn.
    free_at: Option<Instant>,
}

impl Budget {
    /// Charges the budget for a turn that took this long and ended now.
    fn charge(&mut self, took: Duration, now: Instant) {
        let saved = now.checked_sub(BURST * PARTS).unwrap_or(now);
        let free_at = self.free_at.map_or(saved, |free_at| free_at.max(saved));
        self.free_at = Some(free_at + took.min(LONGEST) * PARTS);
    }

    /// Returns when the next turn may begin, or `None` if it may begin now.
    fn wait(&self, now: Instant) -> Option<Instant> {
        self.free_at.filter(|free_at| *free_at > now)
    }
}

/// Chooses whose turn it is.
#[derive(Debug)]
struct Order {
    /// The last turn of an address.
    last: LruCache<IpAddr, Last>,
    turns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Last {
    turn: u64,
    /// Set if the newest connection had it.
    newest: bool,
}

impl Order {
    fn new() -> Self {
        Self { last: LruCache::new(ADDRESSES), turns: 0 }
    }

    /// Returns the waiting client whose turn it is, by its number; numbers grow. It looks at all of
    /// them, which are some hundreds.
    fn next(&mut self, waiting: impl Iterator<Item = (u64, Client)>) -> Option<u64> {
        let last = |address: &IpAddr| self.last.peek(address).copied().unwrap_or_default();
        let order = |(number, Client { address, begun }): &(u64, Client)| {
            let Last { turn, newest } = last(address);
            (turn, !begun, if newest { *number } else { u64::MAX - number })
        };
        let (number, Client { address, .. }) = waiting.min_by_key(order)?;
        self.turns += 1;
        let newest = !last(&address).newest;
        self.last.put(address, Last { turn: self.turns, newest });
        Some(number)
    }
}

/// The client of a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) address: IpAddr,
    /// Set once its connection has had a turn.
    pub(crate) begun: bool,
}

struct Waiting {
    client: Client,
    given: oneshot::Sender<Turn>,
}

struct State {
    budget: Budget,
    order: Order,
    /// By a number that grows.
    waiting: BTreeMap<u64, Waiting>,
    next: u64,
    /// Set while someone has a turn.
    taken: bool,
    logged: Option<Instant>,
}

/// The next step of giving turns.
enum Step {
    Wait,
    WaitUntil(Instant),
    Give(oneshot::Sender<Turn>),
}

/// Gives turns. Clones share them.
#[derive(Clone)]
pub(crate) struct Turns {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
}

/// A turn, which ends when it is dropped.
pub(crate) struct Turn {
    turns: Turns,
    /// Set once it is used.
    begun: Option<Instant>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.turns.state.lock();
        state.taken = false;
        if let Some(begun) = self.begun {
            let now = Instant::now();
            state.budget.charge(now.saturating_duration_since(begun), now);
        }
        drop(state);
        self.turns.changed.notify_one();
    }
}

/// A place among the waiting clients. Dropping it gives the place up.
struct Place {
    turns: Turns,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.turns.state.lock().waiting.remove(&self.number);
    }
}

impl Turns {
    pub(crate) fn new() -> Self {
        let (budget, order, waiting) = (Budget::default(), Order::new(), BTreeMap::new());
        let state = State { budget, order, waiting, next: 0, taken: false, logged: None };
        Self { state: Arc::new(Mutex::new(state)), changed: Arc::default() }
    }

    /// Waits for a turn of a client. The caller must not wait for anything until it drops the turn.
    pub(crate) async fn take(self, client: Client) -> Turn {
        if let Some(turn) = self.take_at_once(client) {
            return turn;
        }
        let (given, received) = oneshot::channel();
        let place = {
            let mut state = self.state.lock();
            let number = state.next;
            state.next += 1;
            state.waiting.insert(number, Waiting { client, given });
            drop(state);
            Place { turns: self, number }
        };
        place.turns.changed.notify_one();
        match received.await {
            Ok(mut turn) => {
                turn.begun = Some(Instant::now());
                turn
            }
            // Nobody drops the other side without giving a turn.
            Err(_) => std::future::pending().await,
        }
    }

    /// Takes a turn if nobody has one or waits for one.
    fn take_at_once(&self, client: Client) -> Option<Turn> {
        let mut state = self.state.lock();
        let now = Instant::now();
        if state.taken || !state.waiting.is_empty() || state.budget.wait(now).is_some() {
            return None;
        }
        state.order.next(std::iter::once((0, client)))?;
        state.taken = true;
        drop(state);
        Some(Turn { turns: self.clone(), begun: Some(now) })
    }

    /// Gives turns to the waiting clients, until the future is dropped.
    pub(crate) async fn run(&self) {
        loop {
            let step = self.step();
            match step {
                Step::Wait => self.changed.notified().await,
                Step::WaitUntil(at) => sleep_until(at).await,
                // If the client has gone, this drops the turn, which is then free again.
                Step::Give(given) => drop(given.send(Turn { turns: self.clone(), begun: None })),
            }
        }
    }

    fn step(&self) -> Step {
        let mut state = self.state.lock();
        let State { budget, order, waiting, taken, logged, .. } = &mut *state;
        if *taken || waiting.is_empty() {
            return Step::Wait;
        }
        let now = Instant::now();
        if let Some(at) = budget.wait(now) {
            if waiting.len() >= MANY && logged.is_none_or(|logged| now >= logged + LOG_INTERVAL) {
                *logged = Some(now);
                tracing::warn!(
                    waiting = waiting.len(),
                    "clients begin more TLS handshakes on the secure port than a quarter of a processor answers, so that handshakes \
                     wait; if these are not an attack, serve with an ECDSA key (--tls-private-key-file), which takes little"
                );
            }
            return Step::WaitUntil(at);
        }
        let next = order.next(waiting.iter().map(|(number, waiting)| (*number, waiting.client)));
        match next.and_then(|number| waiting.remove(&number)) {
            Some(Waiting { given, .. }) => {
                *taken = true;
                Step::Give(given)
            }
            None => Step::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn client(number: u8) -> Client {
        Client { address: IpAddr::from([10, 0, 0, number]), begun: false }
    }

    #[tokio::test(start_paused = true)]
    async fn turns_take_a_quarter_of_the_time_and_a_tenth_of_a_second_at_once() {
        for took in [MS / 10, 6 * MS, 15 * MS, 20 * MS] {
            let (mut budget, start) = (Budget::default(), Instant::now());
            let (mut now, mut used, mut at_once) = (start, Duration::ZERO, None);
            while now < start + 10_000 * MS {
                if let Some(at) = budget.wait(now) {
                    at_once.get_or_insert(used);
                    now = at;
                }
                now += took;
                used += took;
                budget.charge(took, now);
            }
            let at_once = at_once.unwrap();
            assert!(at_once >= BURST && at_once < BURST + 2 * took + 40 * MS, "{took:?}: {at_once:?}");
            let allowed = (now - start) / PARTS + BURST + took;
            assert!(used <= allowed && used * 10 >= allowed * 9, "{took:?}: {used:?} of {allowed:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_that_was_suspended_delays_the_next_turns_by_little() {
        let mut budget = Budget::default();
        for _ in 0..100 {
            let now = budget.wait(Instant::now()).unwrap_or_else(Instant::now);
            budget.charge(3600 * 1000 * MS, now);
            let wait = budget.wait(now).map_or(Duration::ZERO, |at| at - now);
            assert!(wait <= LONGEST * PARTS, "{wait:?}");
        }
    }

    #[test]
    fn addresses_take_turns_and_of_each_the_newest_and_the_oldest_do() {
        let mut order = Order::new();
        // Ten clients of one address, then two of another and one of a third.
        let mut waiting: BTreeMap<u64, Client> = (0..10).map(|number| (number, client(1))).collect();
        waiting.extend([(10, client(2)), (11, client(2)), (12, client(3))]);
        let mut turns = Vec::new();
        while let Some(next) = order.next(waiting.iter().map(|(number, client)| (*number, *client))) {
            waiting.remove(&next);
            turns.push(next);
        }
        assert_eq!(turns, [12, 11, 9, 10, 0, 8, 1, 7, 2, 6, 3, 5, 4]);
        // A client that always has one waiting connection does not keep others waiting.
        let mut turns = Vec::new();
        for number in 0..6 {
            let waiting = [(number, client(1)), (number + 1, client(2)), (number + 2, client(2))];
            turns.push(order.next(waiting.into_iter()).unwrap() - number);
        }
        assert_eq!(turns, [2, 0, 1, 0, 2, 0]);
        let begun = Client { begun: true, ..client(4) };
        assert_eq!(Order::new().next([(0, client(4)), (1, begun), (2, client(4))].into_iter()), Some(1));
    }

    /// Forty clients of the probe's address wait at any time, and give up soon: ten come for each
    /// turn.
    #[test]
    fn a_probe_that_waits_longer_than_others_has_a_turn_soon() {
        let mut order = Order::new();
        let turns = (1..).take_while(|turn| {
            let flood = 10 * turn..10 * turn + 40;
            let waiting = std::iter::once(0).chain(flood).map(|number| (number, client(1)));
            order.next(waiting) != Some(0)
        });
        assert!(turns.count() <= 1);
    }

    #[tokio::test(start_paused = true)]
    async fn one_has_a_turn_at_a_time_and_a_place_that_is_given_up_is_free() {
        let turns = Turns::new();
        let running = tokio::spawn({
            let turns = turns.clone();
            async move { turns.run().await }
        });
        let first = turns.clone().take(client(1)).await;
        let mut second = Box::pin(turns.clone().take(client(1)));
        let given_up = tokio::time::timeout(10 * MS, turns.clone().take(client(2))).await;
        assert!(given_up.is_err());
        assert!(tokio::time::timeout(10 * MS, &mut second).await.is_err());
        assert_eq!(turns.state.lock().waiting.len(), 1);
        // It took 20 ms, but turns may take a tenth of a second without a pause.
        drop(first);
        let begun = Instant::now();
        let second = second.await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        tokio::time::sleep(200 * MS).await;
        drop(second);
        drop(turns.clone().take(client(1)).await);
        tokio::time::sleep(30 * MS).await;
        let mut third = turns.clone().take(client(1)).await;
        third.begun = Some(Instant::now() - 10 * MS);
        drop(third);
        drop(turns.clone().take(client(1)).await);
        assert!(turns.state.lock().waiting.is_empty());
        running.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_waits_until_the_budget_allows_it() {
        let turns = Turns::new();
        let of = turns.clone();
        let running = tokio::spawn(async move { of.run().await });
        let start = Instant::now();
        let mut taken = 0;
        while start.elapsed() < Duration::from_secs(10) {
            let turn = turns.clone().take(client(1)).await;
            tokio::time::sleep(5 * MS).await;
            drop(turn);
            taken += 1;
        }
        // A quarter of 10 s, and the time that turns may take without a pause.
        assert!((500..=530).contains(&taken), "{taken}");
        running.abort();
    }
}
