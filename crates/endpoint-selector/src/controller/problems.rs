//! The situation of each Service, as its last sync found it. The statuses of EndpointSelectors say
//! what is wrong, and events repeat it: the API server forgets an event after an hour, unless it is
//! told otherwise.

use std::collections::BTreeMap;
use std::time::Duration;

use kube_endpoint_controller_runtime::Runtime;
use kube_endpoint_core_model::{ObjectKey, PlannedEvent, Service};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::events::Situations;
use super::{SelectorReconciler, selector_of};

/// The time between two events about the same.
const PERIOD: Duration = Duration::from_secs(1800);

/// The situations of the Services that this process has synced.
#[derive(Debug, Default)]
pub(super) struct Problems {
    found: Mutex<BTreeMap<ObjectKey, Found>>,
    added: Notify,
}

#[derive(Debug, PartialEq)]
struct Found {
    /// The EndpointSelector that the Service names.
    selector: Option<ObjectKey>,
    situations: Situations,
}

impl Problems {
    /// Takes the situation of a Service. Returns true if it is new.
    pub(super) fn set(&self, service: &Service, situations: &Situations) -> bool {
        let found = Found { selector: selector_of(service), situations: situations.clone() };
        let mut all = self.found.lock();
        if all.get(&service.key) == Some(&found) {
            return false;
        }
        all.insert(service.key.clone(), found);
        self.added.notify_one();
        true
    }

    /// Forgets a Service. Returns the EndpointSelector that it named.
    pub(super) fn remove(&self, service: &ObjectKey) -> Option<ObjectKey> {
        self.found.lock().remove(service)?.selector
    }

    /// Returns what is wrong with these Services, which name an EndpointSelector, or `None` if no
    /// sync has looked at one of them since the EndpointSelector exists.
    pub(super) fn of(
        &self,
        selector: &ObjectKey,
        services: &[ObjectKey],
    ) -> Option<Vec<(ObjectKey, PlannedEvent)>> {
        let all = self.found.lock();
        let is_about =
            |found: &&Found| found.selector.as_ref() == Some(selector) && !found.situations.has_no_selector();
        let mut problems = Vec::new();
        for service in services {
            let found = all.get(service).filter(is_about)?;
            problems.extend(found.situations.event().map(|event| (service.clone(), event)));
        }
        Some(problems)
    }

    fn events(&self) -> Vec<(ObjectKey, PlannedEvent)> {
        let all = self.found.lock();
        all.iter().filter_map(|(service, found)| Some((service.clone(), found.situations.event()?))).collect()
    }

    /// Repeats the events.
    pub(super) async fn repeat(&self, runtime: &Runtime<SelectorReconciler>) {
        loop {
            if self.events().is_empty() {
                self.added.notified().await;
                continue;
            }
            sleep(PERIOD).await;
            for (service, event) in self.events() {
                if let Some(service) = runtime.cluster().service(&service) {
                    runtime.record_event(&*service, &event);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::controller::events::Situation;

    #[test]
    fn a_problem_lasts_until_it_is_solved() {
        let service = |name: &str| -> Service {
            let annotations = json!({"kube-endpoint-manager.github.io/endpoint-selector": "stable"});
            let metadata = json!({"name": name, "namespace": "shop", "annotations": annotations});
            serde_json::from_value(json!({"metadata": metadata, "spec": {}})).unwrap()
        };
        let (problems, selector) = (Problems::default(), ObjectKey::new("shop", "stable"));
        let services = ["api", "web"].map(|name| ObjectKey::new("shop", name));
        let reasons = || {
            let found = problems.of(&selector, &services)?;
            let told = found.iter().map(|(service, event)| format!("{} {}", service.name, event.reason));
            Some(told.collect::<Vec<_>>())
        };
        let mut held = Situations::default();
        held.add(Situation::Held { selector: "stable".into(), slices: 1 });
        for name in ["web", "api"] {
            assert_eq!(reasons(), None);
            assert!(problems.set(&service(name), &held));
            assert!(!problems.set(&service(name), &held));
        }
        assert_eq!(reasons().unwrap(), ["api TakeOverHeld", "web TakeOverHeld"]);
        assert_eq!(problems.remove(&services[0]), Some(selector.clone()));
        assert_eq!(reasons(), None, "no sync has looked at one");
        for name in ["web", "api"] {
            assert!(problems.set(&service(name), &Situations::default()));
        }
        assert!(reasons().unwrap().is_empty());
        // The selector was made just now, and no sync has seen it.
        let mut missing = Situations::default();
        missing.add(Situation::NotFound { selector: "stable".into(), others_stay: false });
        assert!(problems.set(&service("web"), &missing));
        assert_eq!(reasons(), None);
    }
}
