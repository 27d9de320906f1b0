//! Faults at single requests. A sweep injects one at each request of a history.

use super::fault::{Kind, Verb};
use crate::text::{Field, word_enum};

word_enum! {
    /// A fault at one request.
    pub enum RequestFault {
        /// The process that sends it ends as SIGKILL does, and restarts two seconds later.
        "killed" Killed
        /// The connection breaks.
        "unanswered" Unanswered
        "refused-409" Conflict
        "refused-429" TooManyRequests
        "refused-500" InternalError
        /// All watches of the process expire, and the next list of each kind shows an older state.
        "older-lists" OlderLists
        /// The connections of all watches of the process break.
        "watches-break" WatchesBreak
    }
}

impl RequestFault {
    /// Returns the status of the answer, if the server refuses the request.
    pub fn status(self) -> Option<u16> {
        match self {
            Self::Conflict => Some(409),
            Self::TooManyRequests => Some(429),
            Self::InternalError => Some(500),
            Self::Killed | Self::Unanswered | Self::OlderLists | Self::WatchesBreak => None,
        }
    }
}

/// A class of requests: those of one controller with one verb for one Service, Lease or, if they
/// name no object, kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestClass {
    pub verb: Verb,
    pub kind: Kind,
    /// The end of the user agent.
    pub controller: String,
    /// Namespace and name of the Service or the Lease. The name is empty for requests without one,
    /// and so is the namespace for those that concern all.
    pub object: String,
}

impl RequestClass {
    /// Returns true if the requests change something on the server.
    pub fn is_write(&self) -> bool {
        !matches!(self.verb, Verb::Get | Verb::List | Verb::Watch)
    }
}

/// Writes a class as `update:endpointslices:endpointslice-controller:team/s1`.
impl Field for RequestClass {
    fn write(&self) -> String {
        let Self { verb, kind, controller, object } = self;
        format!("{}:{}:{controller}:{object}", verb.word(), kind.word())
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, ':');
        Some(Self {
            verb: Verb::read(parts.next()?)?,
            kind: Kind::read(parts.next()?)?,
            controller: parts.next()?.to_owned(),
            object: parts.next()?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_read_as_it_is_written() {
        let check = |text: &str| assert_eq!(RequestClass::read(text).unwrap().write(), text);
        check("update:endpointslices:endpointslice-controller:team/s1");
        check("list:pods:informer:/");
        assert_eq!(RequestClass::read("update:endpointslices:x"), None);
        assert_eq!(RequestClass::read("fly:endpointslices:x:team/s1"), None);
    }
}
