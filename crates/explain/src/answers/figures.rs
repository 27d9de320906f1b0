//! Figures of a running cluster, for `top` and the status page: how many endpoints of a Service are
//! ready, how full its slices are, how often controllers write slices, and how long they take to
//! write a change.
//!
//! [`Figures`] takes changes of slices in the order in which the caller sees them. It takes no
//! clock: each change and each question carries the time.

use std::collections::{BTreeMap, VecDeque};

use kube_endpoint_core_model::well_known::{
    ANNOTATION_TRIGGER_TIME, ENDPOINTSLICE_CONTROLLER, LABEL_MANAGED_BY, SELECTOR_CONTROLLER,
};
use kube_endpoint_core_model::{Endpoint, EndpointSlice, ObjectKey, Service, Text, Timestamp};
use serde::Serialize;

use crate::models::traffic;

/// The length of a bucket of writes, in seconds.
pub const BUCKET_SECONDS: i64 = 10;

/// The number of kept buckets: 15 minutes.
pub const BUCKETS: usize = 90;

/// The maximum number of kept delays.
const MAX_DELAYS: usize = 4096;

/// Number of classes of fill: 0 to 9 % of a slice's capacity, 10 to 19 %, and so on; full slices
/// are in the last one.
pub const FILL_CLASSES: usize = 10;

/// The API's limit of a slice's endpoints. The EndpointSlice controller's own is lower; mirrored
/// slices, and those that somebody else writes, may reach this one.
const API_MAX_ENDPOINTS: usize = 1000;

/// The figures of all Services.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    max_endpoints: usize,
    services: BTreeMap<ObjectKey, ServiceState>,
    writes: Writes,
    /// The bucket and the milliseconds of each delay, the latest last.
    delays: VecDeque<(i64, u64)>,
}

#[derive(Clone, Debug, Default)]
struct ServiceState {
    /// The Service, if it exists.
    service: Option<Service>,
    slices: BTreeMap<Text, SliceState>,
    writes: Writes,
    last_write: Option<Timestamp>,
    delay_millis: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SliceState {
    endpoints: usize,
    /// The number without those of pods that are being deleted.
    staying: usize,
    ready: usize,
    /// Number of endpoints that it can hold.
    capacity: usize,
    /// The slice without its endpoints: its labels, ports and type of addresses decide if
    /// kube-proxy uses it.
    slice: EndpointSlice,
}

impl SliceState {
    /// Returns the state of a slice. `max_endpoints` is the capacity of the EndpointSlice
    /// controller's slices.
    fn of(slice: &EndpointSlice, max_endpoints: usize) -> Self {
        let is_ready = |endpoint: &&Endpoint| endpoint.conditions.ready != Some(false);
        let endpoints = slice.endpoints.len();
        let staying = slice.endpoints.iter().filter(|endpoint| !is_deleted(endpoint)).count();
        let manager = slice.metadata.labels.get(LABEL_MANAGED_BY);
        let is_planned = manager
            .is_some_and(|manager| [ENDPOINTSLICE_CONTROLLER, SELECTOR_CONTROLLER].contains(&&**manager));
        let capacity = if is_planned { max_endpoints } else { API_MAX_ENDPOINTS };
        Self {
            endpoints,
            staying,
            ready: slice.endpoints.iter().filter(is_ready).count(),
            // The controller that wrote the slice may have a higher limit than `max_endpoints`.
            capacity: capacity.max(endpoints),
            slice: without_endpoints(slice),
        }
    }
}

impl ServiceState {
    /// Returns the number of endpoints of a slice that receive traffic. It is an estimate: an
    /// endpoint that several slices hold counts for each. Explanations use the model of kube-proxy
    /// instead, which takes too long for all Services.
    fn ready(&self, slice: &SliceState) -> usize {
        let is_used = self.service.as_ref().is_none_or(|service| traffic::uses(service, &slice.slice));
        if is_used { slice.ready } else { 0 }
    }
}

/// Numbers of writes by bucket, without empty buckets.
#[derive(Clone, Debug, Default)]
struct Writes(VecDeque<(i64, u32)>);

impl Writes {
    fn add(&mut self, at: Timestamp) {
        let bucket = bucket_of(at);
        match self.0.iter_mut().rev().find(|(of, _)| *of == bucket) {
            Some((_, count)) => *count += 1,
            // Times ascend, unless somebody sets the clock back.
            None => self.0.push_back((bucket, 1)),
        }
        while self.0.len() > BUCKETS {
            self.0.pop_front();
        }
    }

    /// Returns the writes of the latest buckets up to now.
    fn latest(&self, buckets: usize, now: Timestamp) -> u32 {
        let oldest = bucket_of(now) - i64::try_from(buckets).unwrap_or(i64::MAX);
        self.0.iter().filter(|(of, _)| *of > oldest && *of <= bucket_of(now)).map(|(_, count)| count).sum()
    }
}

fn bucket_of(time: Timestamp) -> i64 {
    time.as_second().div_euclid(BUCKET_SECONDS)
}

/// One Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Row {
    pub service: ObjectKey,
    /// Number of ready endpoints in the slices that the Service uses
    /// ([`Place::used`](crate::findings::pod::Place)), or in all slices if there is no Service. An
    /// endpoint of several slices counts for each.
    pub ready: usize,
    /// Number of endpoints, without those of pods that are being deleted.
    pub endpoints: usize,
    pub slices: usize,
    /// The fill of its slices, in percent of their capacity, or `None` without slices.
    pub fill_percent: Option<usize>,
    /// Writes of its slices in the last minute.
    pub writes_last_minute: u32,
    /// Writes of its slices in the last 15 minutes.
    pub writes: u32,
    /// Milliseconds from the newest change until this process saw its write, or `None` if it has
    /// seen no write.
    pub delay_millis: Option<u64>,
    /// Time of the last write that this process has seen.
    #[serde(
        serialize_with = "crate::facts::details::write_optional_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_write: Option<Timestamp>,
}

/// All Services together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Totals {
    pub services: usize,
    pub slices: usize,
    pub endpoints: usize,
    pub ready: usize,
    /// Writes of slices in the last minute.
    pub writes_last_minute: u32,
    /// Writes of slices in each bucket of the last 15 minutes, the oldest first.
    pub writes: Vec<u32>,
    /// The median of the milliseconds from a change to its write, over the last 15 minutes.
    pub delay_millis_50: Option<u64>,
    /// The 99th percentile of the same.
    pub delay_millis_99: Option<u64>,
    /// Number of slices by fill, in tenths of their capacity.
    pub slices_by_fill: [usize; FILL_CLASSES],
}

impl Figures {
    /// Creates figures without Services. `max_endpoints` is the capacity of a slice of the
    /// EndpointSlice controller.
    pub fn new(max_endpoints: usize) -> Self {
        Self { max_endpoints: max_endpoints.max(1), ..Self::default() }
    }

    /// Takes a created, changed or deleted Service. A Service without slices counts, too.
    pub fn service(&mut self, service: &Service, exists: bool) {
        let held = exists.then(|| service.clone());
        if let Some(state) = self.services.get_mut(&service.key) {
            state.service = held;
        } else if exists {
            let state = ServiceState { service: held, ..ServiceState::default() };
            self.services.insert(service.key.clone(), state);
        }
        self.forget(&service.key);
    }

    /// Takes a changed slice. If `is_write` is false, the slice was there before the caller looked:
    /// the slice counts, but not as a write.
    pub fn slice(
        &mut self,
        old: Option<&EndpointSlice>,
        new: Option<&EndpointSlice>,
        at: Timestamp,
        is_write: bool,
    ) {
        let of = |slice: Option<&EndpointSlice>| slice.and_then(EndpointSlice::service_key);
        let (before, after) = (of(old), of(new));
        if let (Some(key), Some(slice)) = (&before, old)
            && let Some(state) = self.services.get_mut(key)
        {
            state.slices.remove(&slice.metadata.name);
        }
        let delay = new.filter(|_| is_write).and_then(|new| delay_of(old, new, at));
        if let (Some(key), Some(slice)) = (&after, new) {
            let figures = SliceState::of(slice, self.max_endpoints);
            let state = self.services.entry(key.clone()).or_default();
            state.slices.insert(slice.metadata.name.clone(), figures);
            state.delay_millis = delay.or(state.delay_millis);
        }
        if is_write {
            self.writes.add(at);
            if let Some(state) = after.as_ref().or(before.as_ref()).and_then(|key| self.services.get_mut(key))
            {
                state.writes.add(at);
                state.last_write = Some(at);
            }
            if let Some(delay) = delay {
                self.delays.push_back((bucket_of(at), delay));
                while self.delays.len() > MAX_DELAYS {
                    self.delays.pop_front();
                }
            }
        }
        before.iter().for_each(|key| self.forget(key));
    }

    /// Removes a Service that neither exists nor has slices.
    fn forget(&mut self, key: &ObjectKey) {
        if self.services.get(key).is_some_and(|state| state.service.is_none() && state.slices.is_empty()) {
            self.services.remove(key);
        }
    }

    /// Returns all Services, by key.
    pub fn rows(&self, now: Timestamp) -> Vec<Row> {
        let row = |(key, state): (&ObjectKey, &ServiceState)| {
            let endpoints: usize = state.slices.values().map(|slice| slice.endpoints).sum();
            let capacity = state.slices.values().map(|slice| slice.capacity).sum();
            Row {
                service: key.clone(),
                ready: state.slices.values().map(|slice| state.ready(slice)).sum(),
                endpoints: state.slices.values().map(|slice| slice.staying).sum(),
                slices: state.slices.len(),
                fill_percent: (endpoints * 100).checked_div(capacity),
                writes_last_minute: state.writes.latest(6, now),
                writes: state.writes.latest(BUCKETS, now),
                delay_millis: state.delay_millis,
                last_write: state.last_write,
            }
        };
        self.services.iter().map(row).collect()
    }

    /// Returns the sums of all Services.
    pub fn totals(&self, now: Timestamp) -> Totals {
        let slices = || self.services.values().flat_map(|state| state.slices.values());
        let ready =
            |state: &ServiceState| state.slices.values().map(|slice| state.ready(slice)).sum::<usize>();
        let mut slices_by_fill = [0; FILL_CLASSES];
        for slice in slices() {
            let class = (slice.endpoints * FILL_CLASSES / slice.capacity).min(FILL_CLASSES - 1);
            if let Some(count) = slices_by_fill.get_mut(class) {
                *count += 1;
            }
        }
        let last = bucket_of(now);
        let first = last - i64::try_from(BUCKETS).unwrap_or_default() + 1;
        let by_bucket: BTreeMap<i64, u32> = self.writes.0.iter().copied().collect();
        let mut delays: Vec<u64> = self
            .delays
            .iter()
            .filter(|(bucket, _)| (first..=last).contains(bucket))
            .map(|(_, millis)| *millis)
            .collect();
        delays.sort_unstable();
        let quantile = |percent: usize| {
            let at = (delays.len() * percent).div_ceil(100).checked_sub(1)?;
            delays.get(at).copied()
        };
        Totals {
            services: self.services.len(),
            slices: slices().count(),
            endpoints: slices().map(|slice| slice.staying).sum(),
            ready: self.services.values().map(ready).sum(),
            writes_last_minute: self.writes.latest(6, now),
            writes: (first..=last)
                .map(|bucket| by_bucket.get(&bucket).copied().unwrap_or_default())
                .collect(),
            delay_millis_50: quantile(50),
            delay_millis_99: quantile(99),
            slices_by_fill,
        }
    }
}

/// Returns true if the pod of an endpoint is being deleted, so that the endpoint does not count
/// among those that should be ready.
pub fn is_deleted(endpoint: &Endpoint) -> bool {
    traffic::is_deleted(endpoint.conditions)
}

fn without_endpoints(slice: &EndpointSlice) -> EndpointSlice {
    let metadata = kube_endpoint_core_model::ObjectMeta {
        name: slice.metadata.name.clone(),
        labels: slice.metadata.labels.clone(),
        ..Default::default()
    };
    let (address_type, ports) = (slice.address_type, slice.ports.clone());
    EndpointSlice { metadata, address_type, ports, ..EndpointSlice::default() }
}

/// Returns the milliseconds from the change that caused a write to `at`. Returns `None` if the
/// write names no new change. A negative delay, from a clock that is behind, counts as zero.
fn delay_of(old: Option<&EndpointSlice>, new: &EndpointSlice, at: Timestamp) -> Option<u64> {
    let trigger = |slice: &EndpointSlice| slice.metadata.annotations.get(ANNOTATION_TRIGGER_TIME).cloned();
    let text = trigger(new).filter(|text| old.and_then(trigger).as_ref() != Some(text))?;
    let time: Timestamp = text.parse().ok()?;
    let millis = at.as_millisecond().saturating_sub(time.as_millisecond());
    Some(u64::try_from(millis).unwrap_or_default())
}

#[cfg(test)]
mod tests;
