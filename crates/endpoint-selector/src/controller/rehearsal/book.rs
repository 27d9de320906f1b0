//! The Services that rehearse, when each is looked at again, and what that found.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube_endpoint_core_model::{ObjectKey, Text};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::controller::events::listed;
use crate::controller::times::Times;

/// The finding about one Service: a condition's status, reason and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controller) struct Verdict {
    pub(in crate::controller) status: &'static str,
    pub(in crate::controller) reason: &'static str,
    pub(in crate::controller) message: String,
}

impl Verdict {
    pub(super) fn ready() -> Self {
        Self { status: "True", reason: "Rehearsed", message: String::new() }
    }

    pub(super) fn refused(reason: &'static str, message: impl Into<String>) -> Self {
        Self { status: "False", reason, message: message.into() }
    }

    pub(super) fn unknown(reason: &'static str, message: impl Into<String>) -> Self {
        Self { status: "Unknown", reason, message: message.into() }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.status == "True"
    }

    pub(super) fn is_refused(&self) -> bool {
        self.status == "False"
    }
}

/// The condition of an EndpointSelector that its Services need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controller) enum Rehearsed {
    /// No Service rehearses.
    Nothing,
    /// Some have not been looked at since this process began.
    Pending,
    /// Some have changed, or their EndpointSelector has, and have not been looked at since.
    Changed,
    Found(Verdict),
}

/// The result of one look at a Service.
pub(super) struct Look {
    pub(super) verdict: Verdict,
    /// True if the API server has agreed now.
    pub(super) agreed: bool,
    pub(super) again_after: Duration,
}

#[derive(Debug)]
struct Entry {
    selector: ObjectKey,
    /// True if the reason is a change, until the next look.
    is_changed: bool,
    verdict: Option<Verdict>,
    /// When the API server agreed last, since the last change.
    agreed_at: Option<Instant>,
    /// How often the Service was not ready since the last change.
    refusals: u32,
}

/// A Service to look at.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) service: ObjectKey,
    pub(super) selector: ObjectKey,
    pub(super) agreed_at: Option<Instant>,
    pub(super) refusals: u32,
}

#[derive(Debug, Default)]
struct Inner {
    services: BTreeMap<ObjectKey, Entry>,
    /// The Services of each EndpointSelector, which need not exist.
    selectors: BTreeMap<ObjectKey, BTreeSet<Text>>,
}

#[derive(Debug, Default)]
pub(in crate::controller) struct Rehearsals {
    inner: Mutex<Inner>,
    /// When a Service is looked at. One that has a time while it is looked at has changed.
    times: Times,
}

impl Inner {
    fn remove(&mut self, service: &ObjectKey) -> Option<Entry> {
        let entry = self.services.remove(service)?;
        if let Some(services) = self.selectors.get_mut(&entry.selector) {
            services.remove(&service.name);
            if services.is_empty() {
                self.selectors.remove(&entry.selector);
            }
        }
        Some(entry)
    }
}

impl Rehearsals {
    /// Takes a Service at the start of this process. It rehearses with this EndpointSelector.
    pub(in crate::controller) fn begin(&self, service: &ObjectKey, selector: ObjectKey, now: Instant) {
        self.put(service, Some(selector), false, now);
    }

    /// Takes a change of a Service, which rehearses with this EndpointSelector now, if with any.
    /// Returns the selectors whose status may be outdated.
    pub(in crate::controller) fn set(
        &self,
        service: &ObjectKey,
        selector: Option<ObjectKey>,
        now: Instant,
    ) -> Vec<ObjectKey> {
        let before = self.put(service, selector.clone(), true, now);
        before.into_iter().chain(selector).collect()
    }

    /// Returns the EndpointSelector before.
    fn put(
        &self,
        service: &ObjectKey,
        selector: Option<ObjectKey>,
        is_changed: bool,
        now: Instant,
    ) -> Option<ObjectKey> {
        let mut inner = self.inner.lock();
        let before = inner.remove(service);
        self.times.remove(service);
        if let Some(selector) = selector {
            let same = before.as_ref().filter(|before| before.selector == selector);
            let verdict = same.and_then(|before| before.verdict.clone());
            inner.selectors.entry(selector.clone()).or_default().insert(service.name.clone());
            let entry = Entry { selector, is_changed, verdict, agreed_at: None, refusals: 0 };
            inner.services.insert(service.clone(), entry);
            self.times.set(service, now);
        }
        before.map(|before| before.selector)
    }

    /// Looks again at the Services of an EndpointSelector, which has changed.
    pub(in crate::controller) fn again(&self, selector: &ObjectKey, now: Instant) {
        let names = self.inner.lock().selectors.get(selector).cloned().unwrap_or_default();
        for name in names {
            let service = ObjectKey { namespace: selector.namespace.clone(), name };
            self.put(&service, Some(selector.clone()), true, now);
        }
    }

    /// Waits for the next Service to look at.
    pub(super) async fn next(&self) -> Due {
        loop {
            let service = self.times.next().await;
            if let Some(entry) = self.inner.lock().services.get(&service) {
                let Entry { ref selector, agreed_at, refusals, .. } = *entry;
                return Due { selector: selector.clone(), agreed_at, refusals, service };
            }
        }
    }

    /// Takes what a look has found. Returns the verdict before if the status may be outdated, and
    /// nothing has changed meanwhile.
    pub(super) fn record(&self, due: &Due, look: Look, now: Instant) -> Option<Option<Verdict>> {
        let mut inner = self.inner.lock();
        let entry = inner.services.get_mut(&due.service).filter(|_| !self.times.has(&due.service))?;
        self.times.set(&due.service, now + look.again_after);
        if look.agreed {
            entry.agreed_at = Some(now);
        }
        entry.refusals = if look.verdict.is_ready() { 0 } else { entry.refusals.saturating_add(1) };
        let before = entry.verdict.replace(look.verdict);
        let was_changed = std::mem::take(&mut entry.is_changed);
        (was_changed || before != entry.verdict).then_some(before)
    }

    /// Returns what the status of an EndpointSelector says of the Services that rehearse with it.
    pub(in crate::controller) fn of(&self, selector: &ObjectKey) -> Rehearsed {
        let inner = self.inner.lock();
        let Some(names) = inner.selectors.get(selector) else { return Rehearsed::Nothing };
        let key = |name: &Text| ObjectKey { namespace: selector.namespace.clone(), name: name.clone() };
        let entry = |name: &Text| inner.services.get(&key(name));
        if names.iter().filter_map(entry).any(|entry| entry.is_changed) {
            return Rehearsed::Changed;
        }
        let verdict = |name: &Text| entry(name).and_then(|entry| entry.verdict.clone());
        summary(names.iter().map(|name| (name, verdict(name))).collect())
    }
}

/// Returns what a status says: the worst finding, with the first Service by name that has it, and
/// the Services that are ready.
fn summary(services: Vec<(&Text, Option<Verdict>)>) -> Rehearsed {
    let known = || services.iter().filter_map(|(name, verdict)| Some((*name, verdict.as_ref()?)));
    let with = |status: &'static str| known().filter(move |(_, verdict)| verdict.status == status);
    let worst = |status: &'static str, others: &str| {
        let (name, first) = with(status).next()?;
        let more = match with(status).count() {
            0 | 1 => String::new(),
            count => format!("; {} more {others}", count - 1),
        };
        let ready: Vec<&str> = with("True").map(|(name, _)| &**name).collect();
        let ready = match &ready[..] {
            [] => String::new(),
            ready => format!("; ready to attach: {}", listed(ready)),
        };
        let message = format!("Service {name}: {}{more}{ready}", first.message);
        Some(Rehearsed::Found(Verdict { status: first.status, reason: first.reason, message }))
    };
    if known().count() < services.len() {
        return Rehearsed::Pending;
    }
    let refused = worst("False", "are not ready either");
    refused.or_else(|| worst("Unknown", "are not known to be ready either")).unwrap_or_else(|| {
        let names: Vec<&str> = services.iter().map(|(name, _)| &***name).collect();
        let message = format!("take spec.selector out of Service {}", listed(&names));
        Rehearsed::Found(Verdict { message, ..Verdict::ready() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("shop", name)
    }

    fn look(verdict: Verdict) -> Look {
        Look { agreed: verdict.is_ready(), verdict, again_after: Duration::from_secs(60) }
    }

    #[test]
    fn a_status_has_the_worst_finding_and_few_names() {
        let names: Vec<Text> = ('a'..='h').map(|name| name.to_string().into()).collect();
        let said = |verdicts: &[Option<Verdict>]| {
            let services =
                names.iter().zip(verdicts).map(|(name, verdict)| (name, verdict.clone())).collect();
            match summary(services) {
                Rehearsed::Found(Verdict { status, reason, message }) => {
                    format!("{status} {reason}: {message}")
                }
                other => format!("{other:?}"),
            }
        };
        let ready = || Some(Verdict::ready());
        let refused = || Some(Verdict::refused("NoReadyPod", "no pod is ready"));
        let unknown = || Some(Verdict::unknown("DryRunUnsupported", "a webhook has no dry run"));
        let said = [
            said(&[ready()]),
            said(&[const { None::<()> }; 8].map(|_| ready())),
            said(&[ready(), None]),
            said(&[ready(), None, refused()]),
            said(&[unknown(), refused(), refused(), refused()]),
            said(&[ready(), unknown(), unknown()]),
        ];
        insta::assert_snapshot!(said.join("\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_is_looked_at_when_something_changes_and_later_again() {
        let book = Rehearsals::default();
        let start = Instant::now();
        assert_eq!(book.of(&key("stable")), Rehearsed::Nothing);
        book.begin(&key("web"), key("stable"), start);
        assert_eq!(book.of(&key("stable")), Rehearsed::Pending);
        let due = book.next().await;
        assert_eq!((&due.service, &due.selector), (&key("web"), &key("stable")));
        let refused = || Verdict::refused("NoReadyPod", "no pod is ready");
        assert_eq!(book.record(&due, look(refused()), start), Some(None));
        // Nothing has changed: a minute later.
        let due = book.next().await;
        assert_eq!((start.elapsed(), due.refusals), (Duration::from_secs(60), 1));
        assert_eq!(book.record(&due, look(refused()), Instant::now()), None, "it is as before");
        // The selector changes while the Service is looked at.
        assert!(matches!(book.of(&key("stable")), Rehearsed::Found(_)));
        book.again(&key("stable"), Instant::now());
        assert_eq!(book.of(&key("stable")), Rehearsed::Changed);
        let due = book.next().await;
        assert_eq!((start.elapsed(), due.refusals), (Duration::from_secs(60), 0));
        book.again(&key("stable"), Instant::now());
        assert_eq!(
            book.record(&due, look(Verdict::ready()), Instant::now()),
            None,
            "it was another selector"
        );
        let due = book.next().await;
        assert_eq!(book.record(&due, look(Verdict::ready()), Instant::now()), Some(Some(refused())));
        assert!(matches!(book.of(&key("stable")), Rehearsed::Found(found) if found.is_ready()));
        // It names another one, and none.
        assert_eq!(book.set(&key("web"), Some(key("canary")), Instant::now()), ["stable", "canary"].map(key));
        assert_eq!(book.of(&key("stable")), Rehearsed::Nothing);
        assert_eq!(book.set(&key("web"), None, Instant::now()), [key("canary")]);
        let inner = book.inner.lock();
        assert!(inner.services.is_empty() && inner.selectors.is_empty() && !book.times.has(&key("web")));
    }
}
