//! Events: recorded without waiting, correlated so that a repeated error does not flood the server,
//! and sent by a separate task.
//!
//! Upstream: `client-go/tools/record`.

mod correlator;
mod sink;

use std::sync::Arc;

use kube_endpoint_core_model::{
    Admission, Endpoints, EventType, LogLimit, PlannedEvent, ResourceVersion, Service, Text,
};
use serde::Serialize;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::clock::Clock;
use crate::writer::ApiWriter;

/// Maximum number of events that wait to be sent. More are dropped, as in client-go: events never
/// block a sync.
const LONGEST_QUEUE: usize = 1000;

/// The object that an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventSubject {
    pub api_version: Text,
    pub kind: Text,
    pub name: Text,
    pub namespace: Text,
    /// Version of the object that the event was made from; empty for an object that was not
    /// created.
    #[serde(skip_serializing_if = "is_empty")]
    pub resource_version: Text,
    /// Uid; empty for an object that was not created.
    #[serde(skip_serializing_if = "is_empty")]
    pub uid: Text,
}

fn is_empty(text: &Text) -> bool {
    text.is_empty()
}

/// The version as text; a version of zero stands for an object that was not created.
fn version_text(version: ResourceVersion) -> Text {
    if version == ResourceVersion::default() { Text::default() } else { version.to_string().into() }
}

impl From<&Service> for EventSubject {
    fn from(service: &Service) -> Self {
        Self {
            api_version: "v1".into(),
            kind: "Service".into(),
            name: service.key.name.clone(),
            namespace: service.key.namespace.clone(),
            resource_version: version_text(service.resource_version),
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
            resource_version: version_text(metadata.resource_version),
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
    stopped: Arc<Notify>,
    clock: Clock,
    /// True if events are dropped: this is a dry run.
    dropped: bool,
    lines: Arc<LogLimit>,
}

impl EventRecorder {
    /// A recorder, and the task that sends its events. The task ends when every event is sent after
    /// [`Self::shut_down`], or after the last recorder was dropped.
    pub fn new(
        component: &str,
        writer: ApiWriter,
        clock: Clock,
        seed: u64,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (sender, receiver) = mpsc::channel(LONGEST_QUEUE);
        let component: Arc<str> = component.into();
        let dropped = writer.dry_run().is_some();
        let sink = sink::Sink::new(Arc::clone(&component), writer, clock, seed);
        let stopped = Arc::new(Notify::new());
        let task = sink.run(receiver, Arc::clone(&stopped));
        (Self { component, queue: sender, stopped, clock, dropped, lines: Arc::default() }, task)
    }

    /// Takes no more events. The task ends when those that wait are sent.
    pub fn shut_down(&self) {
        self.stopped.notify_one();
    }

    /// Records an event without waiting. If too many events wait to be sent, it is dropped with a
    /// warning in the log. In a dry run it is always dropped.
    pub fn record(&self, subject: EventSubject, event: &PlannedEvent) {
        if self.dropped {
            tracing::debug!(component = &*self.component, %event, "dry run: an event is not sent");
            return;
        }
        let recorded = Recorded {
            subject,
            event_type: event.event_type,
            reason: event.reason,
            message: event.message.clone(),
            at: self.clock.now(),
        };
        match self.queue.try_send(recorded) {
            Ok(()) => {}
            Err(TrySendError::Closed(_)) => {
                tracing::debug!(component = &*self.component, %event, "event dropped: shutting down");
            }
            Err(TrySendError::Full(_)) => {
                if let Admission::Write { left_out } = self.lines.admit(Instant::now().into_std()) {
                    tracing::warn!(
                        component = &*self.component, %event, left_out,
                        "event dropped: too many are waiting to be sent"
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_endpoint_core_model::ObjectMeta;

    #[test]
    fn an_object_that_was_not_created_has_neither_version_nor_uid() {
        let mut endpoints = Endpoints {
            metadata: ObjectMeta { name: "web".into(), namespace: "shop".into(), ..ObjectMeta::default() },
            ..Endpoints::default()
        };
        let json = |endpoints: &Endpoints| serde_json::to_value(EventSubject::from(endpoints)).unwrap();
        let not_created = serde_json::json!({
            "apiVersion": "v1", "kind": "Endpoints", "name": "web", "namespace": "shop",
        });
        assert_eq!(json(&endpoints), not_created);
        endpoints.metadata.resource_version = ResourceVersion(7);
        endpoints.metadata.uid = "u".into();
        assert_eq!(
            (&json(&endpoints)["resourceVersion"], &json(&endpoints)["uid"]),
            (&"7".into(), &"u".into())
        );
    }
}
