//! Repeats the events about what is wrong with Services for as long as it is wrong: the API server
//! forgets an event after an hour, unless it is told otherwise.

use std::collections::BTreeMap;
use std::time::Duration;

use kube_endpoint_controller_runtime::Runtime;
use kube_endpoint_core_model::{ObjectKey, PlannedEvent};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::SelectorReconciler;

/// The time between two events about the same.
const PERIOD: Duration = Duration::from_secs(1800);

/// The events about what is wrong now.
#[derive(Debug, Default)]
pub(super) struct Reminders {
    events: Mutex<BTreeMap<ObjectKey, PlannedEvent>>,
    added: Notify,
}

impl Reminders {
    /// Takes what is wrong with a Service, if something is.
    pub(super) fn set(&self, service: &ObjectKey, event: Option<PlannedEvent>) {
        let mut events = self.events.lock();
        match event {
            None => drop(events.remove(service)),
            Some(event) => {
                events.insert(service.clone(), event);
                self.added.notify_one();
            }
        }
    }

    /// Repeats the events.
    pub(super) async fn repeat(&self, runtime: &Runtime<SelectorReconciler>) {
        loop {
            if self.events.lock().is_empty() {
                self.added.notified().await;
                continue;
            }
            sleep(PERIOD).await;
            let events = self.events.lock().clone();
            for (service, event) in events {
                if let Some(service) = runtime.cluster().service(&service) {
                    runtime.record_event(&*service, &event);
                }
            }
        }
    }
}
