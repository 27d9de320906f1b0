//! Decides which events are sent as new events, which increment the count of an earlier one, and
//! which are dropped. Takes the time as an argument and keeps a bounded number of entries.
//!
//! Upstream: `events_cache.go`, with its defaults.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::num::NonZeroUsize;

use kube_endpoint_core_model::{EventType, Timestamp};
use lru::LruCache;

use super::{EventSubject, Recorded};

/// Size of each of the three caches.
const ENTRIES: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
/// From this number of different messages with one reason about one object, events are combined
/// (`defaultAggregateMaxEvents`).
const COMBINE_FROM: usize = 10;
/// Events more than this many seconds apart are not combined.
const COMBINE_WITHIN: i64 = 600;
/// Number of events about one object that may be sent at once.
const SPAM_BURST: f64 = 25.0;
/// Seconds until one more may be sent.
const SPAM_REFILL_SECONDS: f64 = 300.0;

/// Identifies a series of events. Combined events have no message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SeriesKey {
    subject: EventSubject,
    event_type: &'static str,
    reason: &'static str,
    message: Option<String>,
}

/// A series of equal events. All are counted, also those that were not sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) first: Timestamp,
    pub(super) count: u32,
}

/// The content of a request for an event.
#[derive(Debug, PartialEq)]
pub(super) struct Delivery {
    pub(super) key: SeriesKey,
    pub(super) message: String,
    /// The series, this event included. With a count of one the event is new; otherwise the stored
    /// event is updated.
    pub(super) series: Series,
}

#[derive(Debug)]
struct Similar {
    messages: BTreeSet<String>,
    last: Timestamp,
}

#[derive(Debug)]
struct SpamRecord {
    tokens: f64,
    at: Timestamp,
}

#[derive(Debug)]
pub(super) struct Correlator {
    similar: LruCache<SeriesKey, Similar>,
    series: LruCache<SeriesKey, Series>,
    buckets: LruCache<(EventSubject, &'static str), SpamRecord>,
}

/// A cache of at most `ENTRIES` entries. `LruCache::new` would allocate the table for all of them
/// at once.
fn cache<K: Hash + Eq, V>() -> LruCache<K, V> {
    let mut cache = LruCache::unbounded();
    cache.resize(ENTRIES);
    cache
}

impl Correlator {
    pub(super) fn new() -> Self {
        Self { similar: cache(), series: cache(), buckets: cache() }
    }

    /// Counts an event and returns what to send; `None` if there were too many of its type about
    /// its object. `name` is that of the stored event if it is new.
    ///
    /// Events are counted before they are filtered (upstream `EventCorrelate`), so the next one
    /// that is sent has the count of all.
    pub(super) fn decide(&mut self, event: &Recorded, name: String) -> Option<Delivery> {
        let (key, message) = self.combine(event);
        let series = match self.series.get(&key) {
            Some(known) => Series { count: known.count + 1, ..known.clone() },
            None => Series { name, first: event.at, count: 1 },
        };
        self.series.put(key.clone(), series.clone());
        self.take_token(&key, event.at).then_some(Delivery { key, message, series })
    }

    /// Records the name under which the server has stored a series.
    pub(super) fn stored(&mut self, key: SeriesKey, series: Series) {
        self.series.put(key, series);
    }

    fn combine(&mut self, event: &Recorded) -> (SeriesKey, String) {
        let kind = SeriesKey {
            subject: without_version(&event.subject),
            event_type: match event.event_type {
                EventType::Normal => "Normal",
                EventType::Warning => "Warning",
            },
            reason: event.reason,
            message: None,
        };
        let fresh = || Similar { messages: BTreeSet::new(), last: event.at };
        let similar = self.similar.get_or_insert_mut(kind.clone(), fresh);
        if event.at.as_second() - similar.last.as_second() > COMBINE_WITHIN {
            similar.messages.clear();
        }
        similar.last = event.at;
        similar.messages.insert(event.message.clone());
        if similar.messages.len() < COMBINE_FROM {
            let key = SeriesKey { message: Some(event.message.clone()), ..kind };
            return (key, event.message.clone());
        }
        similar.messages.pop_first();
        (kind, format!("(combined from similar events): {}", event.message))
    }

    /// Takes a token of the object's events of one type (upstream `getSpamKey`).
    fn take_token(&mut self, key: &SeriesKey, now: Timestamp) -> bool {
        let fresh = || SpamRecord { tokens: SPAM_BURST, at: now };
        let bucket = self.buckets.get_or_insert_mut((key.subject.clone(), key.event_type), fresh);
        let elapsed = (now.as_millisecond() - bucket.at.as_millisecond()).max(0) as f64 / 1000.0;
        bucket.tokens = (bucket.tokens + elapsed / SPAM_REFILL_SECONDS).min(SPAM_BURST);
        bucket.at = now;
        let granted = bucket.tokens >= 1.0;
        if granted {
            bucket.tokens -= 1.0;
        }
        granted
    }
}

/// Events about different versions of an object belong to the same series.
fn without_version(subject: &EventSubject) -> EventSubject {
    EventSubject { resource_version: "".into(), ..subject.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, message: &str, second: i64) -> Recorded {
        Recorded {
            subject: EventSubject { name: name.into(), ..EventSubject::default() },
            event_type: EventType::Warning,
            reason: "Failed",
            message: message.into(),
            at: Timestamp::from_second(second).unwrap(),
        }
    }

    /// Decides about an event. Returns the message and the count of the series.
    fn play(correlator: &mut Correlator, event: &Recorded) -> Option<(String, u32)> {
        let Delivery { message, series, .. } = correlator.decide(event, "x".into())?;
        Some((message, series.count))
    }

    #[test]
    fn a_repeated_event_increments_the_count() {
        let mut correlator = Correlator::new();
        assert_eq!(play(&mut correlator, &event("a", "m", 0)), Some(("m".into(), 1)));
        assert_eq!(play(&mut correlator, &event("a", "m", 1)), Some(("m".into(), 2)));
        assert_eq!(play(&mut correlator, &event("b", "m", 1)), Some(("m".into(), 1)));
        assert_eq!(play(&mut correlator, &event("a", "other", 1)), Some(("other".into(), 1)));
    }

    #[test]
    fn many_different_messages_are_combined() {
        let mut correlator = Correlator::new();
        for number in 0..9 {
            assert_eq!(play(&mut correlator, &event("a", &number.to_string(), 0)).unwrap().1, 1);
        }
        let combined =
            |message: &str, count| Some((format!("(combined from similar events): {message}"), count));
        assert_eq!(play(&mut correlator, &event("a", "9", 1)), combined("9", 1));
        assert_eq!(play(&mut correlator, &event("a", "10", 2)), combined("10", 2));
        assert_eq!(play(&mut correlator, &event("a", "11", 700)), Some(("11".into(), 1)), "after a pause");
    }

    #[test]
    fn what_was_used_least_recently_is_forgotten() {
        let entries = ENTRIES.get();
        // Sends an event about "oldest", one about "a", one about each of `others` other objects,
        // and one about "oldest" halfway. Then sends another about "a", whose count is to be
        // `want`, and another about "oldest".
        let check = |others: usize, want: u32| {
            let mut correlator = Correlator::new();
            play(&mut correlator, &event("oldest", "m", 0));
            play(&mut correlator, &event("a", "m", 0));
            for other in 0..others {
                if other == others / 2 {
                    play(&mut correlator, &event("oldest", "m", 0));
                }
                play(&mut correlator, &event(&format!("other-{other}"), "m", 0));
            }
            assert_eq!(play(&mut correlator, &event("a", "m", 1)), Some(("m".into(), want)), "{others}");
            assert_eq!(play(&mut correlator, &event("oldest", "m", 1)), Some(("m".into(), 3)), "{others}");
            let kept = (others + 2).min(entries);
            let Correlator { similar, series, buckets } = &correlator;
            assert_eq!([similar.len(), series.len(), buckets.len()], [kept; 3], "{others}");
        };
        check(10, 2);
        check(entries - 2, 2);
        check(entries - 1, 1);
        check(entries + 10, 1);
    }

    #[test]
    fn events_about_one_object_are_rate_limited() {
        let mut correlator = Correlator::new();
        for _ in 0..25 {
            assert!(play(&mut correlator, &event("a", "m", 0)).is_some());
        }
        assert_eq!(play(&mut correlator, &event("a", "m", 1)), None);
        assert!(play(&mut correlator, &event("b", "m", 1)).is_some(), "other objects are not affected");
        assert!(play(&mut correlator, &event("a", "m", 302)).is_some(), "one more after five minutes");
        assert_eq!(play(&mut correlator, &event("a", "m", 303)), None);
    }

    #[test]
    fn events_that_are_not_sent_are_counted() {
        let mut correlator = Correlator::new();
        for count in 1..=25 {
            assert_eq!(play(&mut correlator, &event("a", "m", 0)), Some(("m".into(), count)));
        }
        for _ in 0..3 {
            assert_eq!(play(&mut correlator, &event("a", "m", 1)), None);
        }
        let next = correlator.decide(&event("a", "m", 302), "y".into()).unwrap();
        let first = Timestamp::from_second(0).unwrap();
        assert_eq!(next.series, Series { name: "x".into(), first, count: 29 });
    }

    #[test]
    fn the_types_of_events_are_rate_limited_apart() {
        let mut correlator = Correlator::new();
        while play(&mut correlator, &event("a", "m", 0)).is_some() {}
        let normal = Recorded { event_type: EventType::Normal, ..event("a", "m", 0) };
        assert_eq!(play(&mut correlator, &normal), Some(("m".into(), 1)));
    }
}
