//! The rules for Services that nothing has changed for longer than any retry takes.

use std::collections::BTreeMap;
use std::time::Duration;

use kube_endpoint_core_model::well_known::SELECTOR_CONTROLLER;

use super::super::Watcher;
use super::super::world::{FROM_PODS, MIRRORED};
use super::objects::{Endpoint, KUBERNETES, Pod, Service, Slice, Source};
use super::{Beside, Broken};

const PUBLISHED: &str = "after a quiet time, an attached Service has the pods of its selector";
const LEFT: &str = "after a take-over nothing of kube-controller-manager is left";
const BACK: &str = "after a hand-back nothing of the add-on is left";
const DETACHED: &str = "without annotation, or with one of the API server, there are no own slices";
const OF_USERS: &str = "Endpoints of the API server stay";

/// For each address if it is ready, by family.
type Published = BTreeMap<(String, String), bool>;

impl Beside {
    /// Checks the Services that have not changed since `until`. Those that `is_edited` returns true
    /// for are exempt.
    pub(super) fn judge_quiet(
        &mut self,
        until: Duration,
        is_edited: impl Fn(&str) -> bool,
    ) -> Result<(), (String, Broken)> {
        let keys: Vec<String> = self.objects.services.keys().cloned().collect();
        for key in keys.into_iter().filter(|key| !is_edited(key)) {
            let Some((_, since)) = self.objects.source(&key) else { continue };
            let changed = self.pods_in(&key).map(|(_, (_, since))| since.at).max();
            if changed.max(Some(since.at)) > Some(until) {
                continue;
            }
            self.judge_service(&key).map_err(|broken| (key, broken))?;
        }
        Ok(())
    }

    pub(super) fn pods_in(&self, service: &str) -> impl Iterator<Item = (&String, &(Pod, super::Since))> {
        let namespace = service.split_once('/').map_or("", |(namespace, _)| namespace);
        let prefix = format!("{namespace}/");
        let pods = self.objects.pods.range(prefix.clone()..);
        pods.take_while(move |(key, _)| key.starts_with(&prefix))
    }

    fn judge_service(&mut self, key: &str) -> Result<(), Broken> {
        let Some((source, _)) = self.objects.source(key) else { return Ok(()) };
        let Some(service) = self.objects.services.get(key) else { return Ok(()) };
        let own: Vec<&Slice> = self.objects.slices_of(key, SELECTOR_CONTROLLER).collect();
        let mut is_held = false;
        match source {
            Source::Attached(_) => is_held = self.judge_attached(key, service, source, &own)?,
            Source::Unknown => {}
            Source::Own(labels) => {
                let is_covered = own.iter().all(|slice| {
                    slice.ready().filter(|it| self.is_alive(it, false)).all(|it| {
                        let is_selected =
                            self.objects.pods.get(&it.pod).is_some_and(|(pod, _)| pod.has(labels));
                        let mut theirs = self.objects.slices_of(key, FROM_PODS);
                        !is_selected
                            || theirs
                                .any(|other| other.family == slice.family && other.has_ready(&it.address))
                    })
                });
                if !own.is_empty() && is_covered {
                    return Err((BACK, format!("{own:?}")));
                }
            }
            Source::Nothing => {
                if !own.is_empty() {
                    return Err((DETACHED, format!("{own:?}")));
                }
                if key == KUBERNETES && self.objects.endpoints.get(key) != Some(&true) {
                    return Err((OF_USERS, key.to_owned()));
                }
            }
        }
        self.judge_unmaintained(key, service)?;
        let (attached, unknown, own) = match source {
            Source::Attached(_) => (1, 0, 0),
            Source::Unknown => (0, 1, 0),
            Source::Own(_) => (0, 0, 1),
            Source::Nothing => (0, 0, 0),
        };
        self.tested.attached += attached;
        self.tested.held += usize::from(is_held);
        self.tested.unknown += unknown;
        self.tested.own += own;
        Ok(())
    }

    fn is_alive(&self, endpoint: &Endpoint, tolerates_unready: bool) -> bool {
        let pod = self.objects.pods.get(&endpoint.pod);
        pod.is_some_and(|(pod, _)| {
            pod.is_behind(endpoint) && !pod.has_ended && (pod.is_ready || tolerates_unready)
        })
    }

    /// Returns true if the take-over is held.
    fn judge_attached(
        &self,
        key: &str,
        service: &Service,
        source: &Source,
        own: &[&Slice],
    ) -> Result<bool, Broken> {
        let mut want = Published::new();
        let Source::Attached(selected) = source else { return Ok(false) };
        let chosen = self.chosen(key, selected, self.leases.now);
        for (name, pod) in self.listed(key, selected) {
            for address in &pod.addresses {
                let family = if address.contains(':') { "IPv6" } else { "IPv4" };
                if service.families.iter().any(|it| it == family) {
                    let is_ready = pod.is_ready && chosen.has(name) || service.publishes_unready;
                    want.insert((family.to_owned(), address.clone()), is_ready);
                }
            }
        }
        let entry = |slice: &Slice, it: &Endpoint| ((slice.family.clone(), it.address.clone()), it.is_ready);
        let got = own.iter().flat_map(|slice| slice.endpoints.iter().map(|it| entry(slice, it)));
        let got: Published = got.collect();
        if chosen.is_known() && want != got {
            return Err((PUBLISHED, format!("{got:?} and not {want:?}")));
        }
        let theirs = |manager| self.objects.slices_of(key, manager).filter(|it| !it.is_by_user);
        let is_of_service = |slice: &&Slice| slice.owner == service.uid;
        let of_pods: Vec<&Slice> = theirs(FROM_PODS).filter(is_of_service).collect();
        if !got.values().any(|is_ready| *is_ready) {
            return Ok(!of_pods.is_empty());
        }
        if let Some(left) = of_pods.first() {
            return Err((LEFT, format!("{left:?}")));
        }
        match self.objects.endpoints.get(key) {
            Some(true) => Ok(false),
            Some(false) => Err((LEFT, format!("the Endpoints {key}"))),
            None => match theirs(MIRRORED).next() {
                Some(left) => Err((LEFT, format!("{left:?}"))),
                None => Ok(false),
            },
        }
    }
}

impl Watcher {
    /// Checks the rules for times without trouble.
    pub(in super::super) fn check_quiet_beside(&mut self, until: Duration) {
        let at = self.now();
        let edits = &self.edits;
        let Some(beside) = &mut self.beside else { return };
        beside.leases.now = at;
        let judged = beside.judge_quiet(until, |service| edits.is_after(service, until));
        if let Err((service, (rule, detail))) = judged {
            self.fails(rule, &service, detail);
        }
    }
}
