//! The rules for slices and Endpoints that nobody maintains: those of kube-controller-manager of
//! Services that have lost their selector, and own ones of Services without a usable selector.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_endpoint_controllers::ManagerHandle;
use kube_endpoint_core_model::well_known::SELECTOR_CONTROLLER;
use serde_json::{Value, json};

use super::super::rules::Write;
use super::super::world::{FROM_PODS, MIRRORED};
use super::super::{Manager, Watcher};
use super::objects::{Endpoint, Service, Slice, Source};
use super::{Beside, Broken};

pub(super) const CARED: &str = "the add-on only takes endpoints out of what kube-controller-manager left";
const LONG_DEAD: &str = "no ready endpoint names a pod that has been gone for seconds";
const SAID: &str = "a dead endpoint that stays because a write is refused is reported";
const GONE: &str = "a slice that nobody maintains lists no pod that is gone";
const FOLLOWS: &str = "an endpoint that nobody maintains is as ready as its pod";

/// The time of an informer, a rate limiter and some writes without trouble.
const SOON: Duration = Duration::from_secs(3);
/// The same for slices that the mirroring controller writes after that.
const SOON_MIRRORED: Duration = Duration::from_secs(6);
/// The reasons of the events that say so.
pub(super) const REPORTS: [&str; 2] = ["EndpointSlicesRefused", "EndpointsNotDeleted"];

/// Checks an update of a slice or of Endpoints of kube-controller-manager: each endpoint was there
/// before, and nothing but endpoints and their state has changed.
pub(super) fn only_takes(write: &Write<'_>) -> Result<(), String> {
    let (Some(before), Some(after)) = (write.previous, write.object) else { return Ok(()) };
    let endpoints = |object: &Value| -> BTreeSet<String> {
        let list = |object: &Value, field: &str| object[field].as_array().cloned().unwrap_or_default();
        let of_slice = list(object, "endpoints").into_iter();
        let of_slice = of_slice.map(|it| json!([it["addresses"], it["targetRef"], it["nodeName"]]));
        let of_subsets = list(object, "subsets").into_iter().flat_map(|subset| {
            let ports = list(&subset, "ports");
            let ports = if ports.is_empty() { vec![Value::Null] } else { ports };
            let addresses = list(&subset, "addresses").into_iter().chain(list(&subset, "notReadyAddresses"));
            let of_address = |it: Value| ports.iter().map(move |port| json!([it, port])).collect::<Vec<_>>();
            addresses.flat_map(of_address).collect::<Vec<_>>()
        });
        of_slice.chain(of_subsets).map(|it| it.to_string()).collect()
    };
    let (old, new) = (endpoints(before), endpoints(after));
    if let Some(added) = new.difference(&old).next() {
        return Err(format!("{added} was added"));
    }
    for field in ["labels", "annotations", "ownerReferences"] {
        let [before, after] = [before, after].map(|it| &it["metadata"][field]);
        if before != after {
            return Err(format!("{field} became {after}"));
        }
    }
    if before["ports"] == after["ports"] { Ok(()) } else { Err("the ports have changed".to_owned()) }
}

impl Beside {
    /// Returns the slices of a Service that nobody maintains, or that only the add-on does.
    fn unmaintained(&self, service: &str) -> Vec<(&String, &Slice)> {
        let Some((source, _)) = self.objects.source(service) else { return Vec::new() };
        let Some(uid) = self.objects.services.get(service).map(|service| &service.uid) else {
            return Vec::new();
        };
        let others = source.names_selector();
        let is_one = |slice: &Slice| match slice.managed_by.as_str() {
            SELECTOR_CONTROLLER => true,
            FROM_PODS => others && !slice.is_by_user && slice.owner == *uid,
            MIRRORED => others && !slice.is_by_user && self.objects.endpoints.get(service) == Some(&false),
            _ => false,
        };
        let slices = self.objects.slices.iter();
        slices.filter(|(_, slice)| slice.service == service && is_one(slice)).collect()
    }

    /// Returns a ready endpoint of each Service whose pod has been gone for `longest`, or for
    /// `longest_mirrored` if it is mirrored.
    fn long_dead(
        &self,
        at: Duration,
        longest: Duration,
        longest_mirrored: Duration,
    ) -> Vec<(String, String)> {
        let mut dead = Vec::new();
        for service in self.objects.services.keys() {
            let Some((_, since)) = self.objects.source(service) else { continue };
            let is_long_dead = |slice: &Slice, endpoint: &Endpoint| {
                let longest = if slice.managed_by == MIRRORED { longest_mirrored } else { longest };
                let gone = self.objects.gone.get(&endpoint.uid);
                gone.is_some_and(|gone| at >= since.at.max(*gone) + longest)
            };
            let slices = self.unmaintained(service).into_iter();
            let found = slices.flat_map(|(key, slice)| {
                slice.ready().filter(|it| is_long_dead(slice, it)).map(move |it| (key, it))
            });
            let found: Vec<_> = found.collect();
            if let Some((slice, endpoint)) = found.first() {
                let gone = self.objects.gone[&endpoint.uid];
                dead.push((service.clone(), format!("{} in {slice}, gone since {gone:?}", endpoint.pod)));
            }
        }
        dead
    }

    /// Checks the slices of a Service that nothing has changed for long, and that no plan of the
    /// add-on covers.
    pub(super) fn judge_unmaintained(&self, key: &str, service: &Service) -> Result<(), Broken> {
        let source = self.objects.source(key).map(|(source, _)| source);
        let is_planned = matches!(source, Some(Source::Attached(_)));
        let is_one = |slice: &Slice| !(is_planned && slice.managed_by == SELECTOR_CONTROLLER);
        for (name, slice) in self.unmaintained(key).into_iter().filter(|(_, slice)| is_one(slice)) {
            for endpoint in &slice.endpoints {
                let pod = self.objects.pods.get(&endpoint.pod).map(|(pod, _)| pod);
                let pod = pod.filter(|pod| pod.is_behind(endpoint) && !pod.has_ended);
                let Some(pod) = pod else {
                    return Err((GONE, format!("{} is in {name}", endpoint.pod)));
                };
                let is_ready = service.publishes_unready || pod.is_ready && endpoint.is_chosen;
                if endpoint.is_ready != is_ready {
                    return Err((
                        FOLLOWS,
                        format!("{} in {name} is ready: {}", endpoint.pod, endpoint.is_ready),
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Watcher {
    /// Checks that no ready endpoint names a pod that is gone, if both sides write and nothing is
    /// wrong, and that an event tells about each that stays because writes are refused.
    pub(crate) fn check_long_dead(&mut self, handles: &[(Manager, ManagerHandle)]) {
        self.settle_pending(None);
        let at = self.now();
        let (calm, recovery) = (self.calm(at), self.recovery);
        let is_refused = self.trouble.only_refuses_since(at.saturating_sub(recovery));
        let writes = |is_other: bool| {
            handles.iter().any(|(manager, handle)| {
                (*manager == Manager::K) == is_other && *handle.leading().borrow() && handle.has_synced()
            })
        };
        let Some(beside) = &mut self.beside else { return };
        if !writes(false) || !writes(true) {
            return;
        }
        let found = if calm.without_trouble {
            beside.tested.dead += 1;
            let dead = beside.long_dead(at, SOON, SOON_MIRRORED).pop();
            dead.map(|(service, dead)| (LONG_DEAD, service, dead))
        } else if is_refused && at > recovery {
            let mut dead = beside.long_dead(at, recovery, recovery).into_iter();
            dead.find(|(service, _)| !beside.reported.contains(service))
                .map(|(service, dead)| (SAID, service, dead))
        } else {
            None
        };
        if let Some((rule, service, dead)) = found {
            self.fails(rule, &service, dead);
        }
    }
}
