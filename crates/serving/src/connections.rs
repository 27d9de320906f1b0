//! The table of open connections, which chooses one to close when it is full.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::AbortHandle;

/// The priority of a connection; the table closes the lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Priority {
    /// The client has not authenticated: the handshake is under way, no request has come yet, or
    /// the request is for health.
    Unknown,
    /// The client has authenticated and has no request.
    Idle,
    /// The server is answering a request of an authenticated client.
    Busy,
}

#[derive(Debug)]
struct Entry {
    peer: IpAddr,
    authenticated: bool,
    requests: usize,
    /// Set once the task runs.
    task: Option<AbortHandle>,
}

impl Entry {
    fn priority(&self) -> Priority {
        match (self.authenticated, self.requests) {
            (false, _) => Priority::Unknown,
            (true, 0) => Priority::Idle,
            (true, _) => Priority::Busy,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    /// The entries by a number that grows, so that the oldest is first.
    entries: BTreeMap<u64, Entry>,
    next: u64,
}

/// The open connections. Their number never exceeds the limit.
#[derive(Debug)]
pub(crate) struct Connections {
    limit: usize,
    state: Mutex<State>,
}

/// A place in the table. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Place {
    connections: Arc<Connections>,
    number: u64,
    peer: IpAddr,
    has_closed: bool,
}

impl Connections {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit: limit.max(1), state: Mutex::default() })
    }

    /// Makes a place for a new connection. If the table is full, this closes another one: the
    /// oldest connection without authentication of the address that has most of those. A probe
    /// takes milliseconds, so it gets its answer before it becomes the oldest; clients that are
    /// slow on purpose close each other's connections.
    pub(crate) fn place(self: &Arc<Self>, peer: IpAddr) -> Place {
        let mut state = self.state.lock();
        let mut has_closed = false;
        while state.entries.len() >= self.limit {
            let Some(victim) = victim(&state.entries) else { break };
            if let Some(Entry { task: Some(task), .. }) = state.entries.remove(&victim) {
                task.abort();
                has_closed = true;
            }
        }
        let number = state.next;
        state.next += 1;
        state.entries.insert(number, Entry { peer, authenticated: false, requests: 0, task: None });
        drop(state);
        Place { connections: Arc::clone(self), number, peer, has_closed }
    }

    /// Sets the task of a place, so that the table can end it. It ends the task at once if the
    /// place is lost by now.
    pub(crate) fn started(&self, number: u64, task: AbortHandle) {
        match self.state.lock().entries.get_mut(&number) {
            Some(entry) => entry.task = Some(task),
            None => task.abort(),
        }
    }

    /// Returns how many connections are open.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.state.lock().entries.len()
    }
}

impl Place {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the address of the client.
    pub(crate) fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Returns true if the table closed another connection for this one.
    pub(crate) fn has_closed(&self) -> bool {
        self.has_closed
    }

    fn change(&self, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.connections.state.lock().entries.get_mut(&self.number) {
            change(entry);
        }
    }

    /// Notes that a request begins.
    pub(crate) fn request_begins(&self) {
        self.change(|entry| entry.requests += 1);
    }

    /// Notes that a request ends.
    pub(crate) fn request_ends(&self) {
        self.change(|entry| entry.requests = entry.requests.saturating_sub(1));
    }

    /// Notes that the client has authenticated.
    pub(crate) fn authenticated(&self) {
        self.change(|entry| entry.authenticated = true);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.state.lock().entries.remove(&self.number);
    }
}

/// Returns the connection to close. It looks at all entries, which are some hundreds.
fn victim(entries: &BTreeMap<u64, Entry>) -> Option<u64> {
    let priority = entries.values().map(Entry::priority).min()?;
    let candidates = || entries.iter().filter(|(_, entry)| entry.priority() == priority);
    let mut of_peer: BTreeMap<IpAddr, usize> = BTreeMap::new();
    for (_, entry) in candidates() {
        *of_peer.entry(entry.peer).or_default() += 1;
    }
    let most = of_peer.values().copied().max()?;
    candidates().find(|(_, entry)| of_peer.get(&entry.peer) == Some(&most)).map(|(number, _)| *number)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn peer(number: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, number).into()
    }

    /// Returns the numbers of the connections that are still open.
    fn left(connections: &Connections) -> Vec<u64> {
        connections.state.lock().entries.keys().copied().collect()
    }

    #[test]
    fn the_oldest_unknown_client_makes_room() {
        let connections = Connections::new(3);
        let places: Vec<Place> = (0..3).map(|_| connections.place(peer(1))).collect();
        places[0].authenticated();
        let _new = connections.place(peer(1));
        assert_eq!(left(&connections), [0, 2, 3]);
    }

    #[test]
    fn the_address_with_most_connections_makes_room() {
        let connections = Connections::new(5);
        let _places: Vec<Place> =
            [1, 2, 2, 2, 1].map(|number| connections.place(peer(number))).into_iter().collect();
        let _probe = connections.place(peer(3));
        assert_eq!(left(&connections), [0, 2, 3, 4, 5]);
    }

    #[test]
    fn idle_clients_make_room_before_busy_ones() {
        let connections = Connections::new(3);
        let places: Vec<Place> = (0..3).map(|_| connections.place(peer(1))).collect();
        for place in &places {
            place.authenticated();
            place.request_begins();
        }
        places[1].request_ends();
        let new = connections.place(peer(1));
        assert_eq!(left(&connections), [0, 2, 3]);
        new.authenticated();
        new.request_begins();
        let _newer = connections.place(peer(1));
        assert_eq!(left(&connections), [2, 3, 4]);
    }

    #[test]
    fn a_place_that_is_dropped_is_free() {
        let connections = Connections::new(2);
        let first = connections.place(peer(1));
        drop(connections.place(peer(1)));
        let _third = connections.place(peer(1));
        assert_eq!(left(&connections), [0, 2]);
        drop(first);
        assert_eq!(connections.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_task_of_a_lost_place_is_aborted() {
        let connections = Connections::new(1);
        for named_before in [true, false] {
            let place = connections.place(peer(1));
            let number = place.number();
            let task = tokio::spawn(async move {
                let _place = place;
                std::future::pending::<()>().await;
            });
            if named_before {
                connections.started(number, task.abort_handle());
            }
            let _new = connections.place(peer(1));
            if !named_before {
                connections.started(number, task.abort_handle());
            }
            assert!(task.await.unwrap_err().is_cancelled());
            assert_eq!(connections.len(), 1);
        }
    }
}
