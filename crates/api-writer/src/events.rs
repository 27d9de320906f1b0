//! Events: recorded without waiting, correlated so that a repeated error does not flood the server, and sent by a separate
//! task.
//!
//! Upstream: `client-go/tools/record`.

mod correlator;
mod sink;

use std::sync::Arc;

use kube_endpoint_core_model::{Endpoints, EventType, PlannedEvent, Service, Text};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::writer::ApiWriter;

/// Maximum number of events that wait to be sent. More are dropped, as in client-go: events never block a sync.
const LONGEST_QUEUE: usize = 1000;

/// The object that an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventSubject {
    /// API version.
    pub api_version: Text,
    /// Kind.
    pub kind: Text,
    /// Name.
    pub name: Text,
    /// Namespace.
    pub namespace: Text,
    /// Version of the object that the event was made from.
    pub resource_version: Text,
    /// Uid.
    pub uid: Text,
}

impl From<&Service> for EventSubject {
    fn from(service: &Service) -> Self {
        Self {
            api_version: "v1".into(),
            kind: "Service".into(),
            name: service.key.name.clone(),
            namespace: service.key.namespace.clone(),
            resource_version: service.resource_version.to_string().into(),
            uid: service.uid.clone(),
        }
    }
}

impl From<&Endpoints> for EventSubject {
    fn from(endpoints: &Endpoints) -> Self {
        let metadata = &endpoints.metadata;
        Self {
            api_version: "v1".into(),
            kind: "Endpoints".into(),
            name: metadata.name.clone(),
            namespace: metadata.namespace.clone(),
            resource_version: metadata.resource_version.to_string().into(),
            uid: metadata.uid.clone(),
        }
    }
}

/// An event that waits to be sent.
#[derive(Clone, Debug, PartialEq)]
struct Recorded {
    subject: EventSubject,
    event_type: EventType,
    reason: &'static str,
    message: String,
    at: kube_endpoint_core_model::Timestamp,
}

/// Records events of one component. Cloning shares the queue.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    component: Arc<str>,
    queue: mpsc::Sender<Recorded>,
    clock: Clock,
}

impl EventRecorder {
    /// A recorder, and the task that sends its events. The task ends when the last recorder is dropped and every event is
    /// sent.
    pub fn new(
        component: &str,
        writer: ApiWriter,
        clock: Clock,
        seed: u64,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (sender, receiver) = mpsc::channel(LONGEST_QUEUE);
        let component: Arc<str> = component.into();
        let sink = sink::Sink::new(Arc::clone(&component), writer, clock, seed);
        (Self { component, queue: sender, clock }, sink.run(receiver))
    }

    /// Records an event without waiting. If too many events wait to be sent, it is dropped with a warning in the log.
    pub fn record(&self, subject: EventSubject, event: &PlannedEvent) {
        let recorded = Recorded {
            subject,
            event_type: event.event_type,
            reason: event.reason,
            message: event.message.clone(),
            at: self.clock.now(),
        };
        if self.queue.try_send(recorded).is_err() {
            tracing::warn!(component = &*self.component, %event, "event dropped: too many are waiting to be sent");
        }
    }
}
