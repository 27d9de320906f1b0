//! The faults between the managers and the server, each from one time to another.

use kube_endpoint_embedded_apiserver::RequestInfo;

use crate::text::{text_enum, word_enum};

word_enum! {
    /// A verb of requests.
    pub enum Verb {
        "list" List
        "watch" Watch
        "get" Get
        "create" Create
        "update" Update
        "patch" Patch
        "delete" Delete
    }
}

word_enum! {
    /// A kind of objects.
    pub enum Kind {
        "pods" Pods
        "services" Services
        "nodes" Nodes
        "endpoints" Endpoints
        "endpointslices" EndpointSlices
        "events" Events
        "leases" Leases
        "endpointselectors" EndpointSelectors
    }
}

word_enum! {
    /// A process that runs the controllers. `a` and `b` elect a leader among them; `c` writes
    /// without a Lease. `k` is kube-controller-manager, beside which the others may run.
    pub enum Manager {
        "a" A
        "b" B
        "c" C
        "k" K
    }
}

text_enum! {
    /// Selects the requests that fail. Fields without a value select all verbs, kinds, managers or
    /// API servers, which are numbered from 1.
    pub enum Fault {
        /// Every request is lost, and the connections of all watches break. One server of several
        /// restarts: it fills its caches anew.
        "unreachable" Unreachable { by: Option<Manager>, server: Option<u8> = None }
        /// Open watches fall silent, and the server answers no request, also after the end of the
        /// fault. Connections stay open as if the server answered PINGs: a request ends at its own
        /// time limit.
        "half-open" HalfOpen { by: Option<Manager>, applied: bool, server: Option<u8> = None }
        "refused" Refused {
            verb: Option<Verb>, kind: Option<Kind>, by: Option<Manager>, status: u16, retry_after: Option<u32>,
            server: Option<u8> = None
        }
        /// The managers may do nothing in a namespace. No seed leads here.
        "forbidden" Forbidden { kind: Option<Kind>, by: Option<Manager>, namespace: u8 }
        /// The server handles requests, and their answers are lost.
        "answers-lost" AnswersLost { verb: Option<Verb>, kind: Option<Kind>, by: Option<Manager> }
        "requests-lost" RequestsLost { verb: Option<Verb>, kind: Option<Kind>, by: Option<Manager> }
        /// The server handles requests late.
        "requests-late" RequestsLate {
            verb: Option<Verb>, kind: Option<Kind>, by: Option<Manager>, milliseconds: u32
        }
        /// The server handles requests at once and answers late.
        "answers-late" AnswersLate { verb: Option<Verb>, kind: Option<Kind>, by: Option<Manager>, milliseconds: u32 }
        /// Watches send nothing for some time after they open.
        "watches-stall" WatchesStall { kind: Option<Kind>, by: Option<Manager>, seconds: u32 }
        /// The watch caches of servers get changes late, or, if they are bunched, at multiples of
        /// the time. So watches are late, and a list from a cache shows an older state.
        "watches-lag" WatchesLag {
            kind: Option<Kind>, by: Option<Manager>, milliseconds: u32, bunched: bool, server: Option<u8> = None
        }
        "watches-break" WatchesBreak { kind: Option<Kind>, by: Option<Manager>, after: u8 }
        "watches-end" WatchesEnd { kind: Option<Kind>, by: Option<Manager>, after: u8 }
        /// Watches end with 410, and the server has compacted the history from which they would
        /// resume.
        "watches-expire" WatchesExpire { kind: Option<Kind>, by: Option<Manager> }
        /// Lists return an older state.
        "older-lists" OlderLists { by: Option<Manager>, versions: u32 }
        /// The server does not support streaming lists, and refuses the second page of a list.
        "continue-refused" ContinueRefused { by: Option<Manager>, status: u16 }
        /// The server answers updates with the unchanged object: an admission webhook undoes them.
        "updates-undone" UpdatesUndone { kind: Option<Kind>, by: Option<Manager> }
        /// A server answers from another storage, which begins as a copy of that of the others and
        /// goes its own way. Users and kubelets write only to the others.
        "other-storage" OtherStorage { server: u8 }
        /// Another controller empties the slices of a Service whenever they have endpoints.
        "foreign-writer" ForeignWriter { service: u8, milliseconds: u32 }
    }
}

impl Fault {
    /// The word of a fault of one namespace, which only named histories have.
    pub const FORBIDDEN: &str = "forbidden";
    /// The words of faults that may concern one of several API servers.
    pub const OF_ONE_SERVER: &[&str] =
        &["unreachable", "half-open", "refused", "watches-lag", "other-storage"];

    /// Returns the number of the API server that it concerns, or `None` if it concerns all.
    pub fn server(&self) -> Option<u8> {
        match *self {
            Self::Unreachable { server, .. }
            | Self::HalfOpen { server, .. }
            | Self::Refused { server, .. }
            | Self::WatchesLag { server, .. } => server,
            Self::OtherStorage { server } => Some(server),
            _ => None,
        }
    }
}

/// The requests that a fault concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    pub verb: Option<Verb>,
    pub kind: Option<Kind>,
    pub by: Option<Manager>,
    /// The number of the server that gets them.
    pub server: Option<u8>,
}

/// Returns the manager that sent a request, by the first letter of its user agent, or `None` for
/// others.
pub fn sender(user_agent: &str) -> Option<Manager> {
    let mut letters = user_agent.chars();
    let manager = match letters.next()? {
        'a' => Manager::A,
        'b' => Manager::B,
        'c' => Manager::C,
        'k' => Manager::K,
        _ => return None,
    };
    letters.next()?.is_ascii_digit().then_some(manager)
}

impl Selection {
    /// Returns true if the request is one of them.
    pub fn matches(self, request: &RequestInfo) -> bool {
        let Some(manager) = sender(&request.user_agent) else { return false };
        self.by.is_none_or(|by| by == manager)
            && self.server.is_none_or(|server| usize::from(server) == request.replica)
            && self.verb.is_none_or(|verb| verb.word() == request.verb)
            && self.kind.is_none_or(|kind| kind.word() == request.plural())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_without_a_server_concerns_all() {
        let old: Fault = "half-open by=none applied=true".parse().unwrap();
        assert_eq!(old, Fault::HalfOpen { by: None, applied: true, server: None });
        assert_eq!(old.to_string().parse::<Fault>().as_ref(), Ok(&old));
    }

    #[test]
    fn a_sender_is_known_by_its_user_agent() {
        let check = |agent: &str, want: Option<Manager>| assert_eq!(sender(agent), want, "{agent}");
        check("a1 kube-endpoint-manager/0.1.0", Some(Manager::A));
        check("c12", Some(Manager::C));
        check("k1 kube-controller-manager", Some(Manager::K));
        check("kube-controller-manager", None);
        check("user", None);
        check("b", None);
        check("", None);
        check("apple", None);
    }
}
