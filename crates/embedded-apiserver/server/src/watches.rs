//! Keeps the open watches, so that a handle of the server can end, break or silence them.

use std::collections::BTreeMap;

use kube_endpoint_watch_channel as watch;
use parking_lot::Mutex;

use crate::request::RequestInfo;

/// The ending of an open watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The response ends in order, as after a timeout.
    Closed,
    /// The connection breaks.
    Broken,
    /// The connection stays open and nothing arrives on it.
    Silent,
}

/// The open watches, by the id that each got at its begin.
#[derive(Debug, Default)]
pub(crate) struct OpenWatches(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    open: BTreeMap<u64, (RequestInfo, watch::Sender<Option<Ending>>)>,
}

impl OpenWatches {
    /// Adds a watch. The receiver learns of its ending; the id is for [`Self::remove`].
    pub(crate) fn add(&self, request: &RequestInfo) -> (u64, watch::Receiver<Option<Ending>>) {
        let (sender, receiver) = watch::channel(None);
        let mut state = self.0.lock();
        state.next += 1;
        let id = state.next;
        state.open.insert(id, (request.clone(), sender));
        (id, receiver)
    }

    /// Removes a watch after its response is dropped.
    pub(crate) fn remove(&self, id: u64) {
        self.0.lock().open.remove(&id);
    }

    /// Ends the watches that `matcher` selects, and returns their number. A silent watch stays
    /// silent.
    pub(crate) fn end(&self, ending: Ending, matcher: impl Fn(&RequestInfo) -> bool) -> usize {
        let state = self.0.lock();
        let mut ended = 0;
        for (request, sender) in state.open.values() {
            if *sender.borrow() != Some(Ending::Silent) && matcher(request) {
                sender.send_replace(Some(ending));
                ended += 1;
            }
        }
        ended
    }

    /// Returns the requests of the open watches that are not silent, in the order of their begin.
    pub(crate) fn requests(&self) -> Vec<RequestInfo> {
        let state = self.0.lock();
        let heard = state.open.values().filter(|(_, sender)| *sender.borrow() != Some(Ending::Silent));
        heard.map(|(request, _)| request.clone()).collect()
    }
}
