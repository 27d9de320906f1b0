//! Judges the effects on clients: a slice at each write of it by a manager, and a Service once
//! nothing has changed it for some time. The exemptions are those of the rules about slices.

mod ever;
mod inputs;
mod mirrored;
mod pod;
mod rules;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use kube_endpoint_core_model::{AddressType, EndpointSlice, IpFamily, Service};

use super::Watcher;
use super::world::{FROM_PODS, MIRRORED};
use super::writes::ManagerWrite;
pub(super) use inputs::Inputs;
use inputs::{Horizon, addresses_of, service_of};
use rules::{Answer, Broken, Claim, Client, State, answers};

/// The write of a slice, and the known state of its Service.
struct Written<'a> {
    /// Namespace and name of the slice.
    key: &'a str,
    service: &'a Service,
    family: IpFamily,
    before: Option<&'a EndpointSlice>,
    after: Option<&'a EndpointSlice>,
    known: Horizon,
}

/// Returns true if the controllers make such a slice for the present Service.
fn is_made_for(service: &Service, slice: &EndpointSlice) -> bool {
    let manager = slice.metadata.labels.get("endpointslice.kubernetes.io/managed-by");
    let wanted = if service.selector.is_some() { FROM_PODS } else { MIRRORED };
    manager.is_some_and(|manager| **manager == *wanted)
}

fn family_of(slice: &EndpointSlice) -> Option<IpFamily> {
    let families = [IpFamily::IPv4, IpFamily::IPv6];
    families.into_iter().find(|family| AddressType::from(*family) == slice.address_type)
}

impl Watcher {
    /// Judges a write of a slice, which the inputs show already. `before` is the slice before the
    /// write.
    pub(super) fn judge_write(&mut self, made: &ManagerWrite<'_>, before: Option<&EndpointSlice>) {
        let after = self.inputs.slice(made.key);
        let Some(service) = after.or(before).map(service_of) else { return };
        let answers = after.map(|slice| self.answers_of(&service, slice)).unwrap_or_default();
        let outcome =
            rules::no_strangers(&answers, |ip| self.inputs.is_known(&service, ip)).and_then(|()| match self
                .written(made, &service, before, after)
            {
                Some(written) => self.judge_slice(&service, &written, &answers),
                None => Ok(false),
            });
        match outcome {
            Ok(is_judged) => self.statistics.writes_judged += usize::from(is_judged),
            Err((rule, detail)) => self.fails(rule, &service, detail),
        }
    }

    /// Returns the answers to a client that sees only this slice of a Service.
    fn answers_of(&self, service: &str, slice: &EndpointSlice) -> Vec<Answer> {
        match (self.inputs.any_service(service), family_of(slice)) {
            (Some(service), Some(family)) => answers(service, [slice], family, &Client::default()),
            _ => Vec::new(),
        }
    }

    /// Returns `None` if the write is exempt, or if the process does not know the present Service.
    fn written<'a>(
        &'a self,
        made: &'a ManagerWrite<'_>,
        service: &str,
        before: Option<&'a EndpointSlice>,
        after: Option<&'a EndpointSlice>,
    ) -> Option<Written<'a>> {
        if self.trouble.is_disturbed(made.at) || self.trouble.is_undone(made.at) {
            return None;
        }
        let known = Horizon::Read(self.surely_read(made.at, made.manager)?);
        let service = self.inputs.service(service, known)?;
        let family = family_of(after.or(before).filter(|slice| is_made_for(service, slice))?)?;
        let is_of_service = service.slice_families().contains(&family);
        is_of_service.then_some(Written { key: made.key, service, family, before, after, known })
    }

    /// `of_slice` are the answers by the slice alone. Returns true if there was something to judge.
    fn judge_slice(&self, key: &str, written: &Written<'_>, of_slice: &[Answer]) -> Result<bool, Broken> {
        let Written { service, family, before, after, known, .. } = *written;
        let is_edited = |ip: IpAddr| self.edits.has_address(key, &ip.to_string());
        let claims_in = |slice: Option<&EndpointSlice>| {
            let addresses = slice.into_iter().flat_map(addresses_of).filter(|ip| !is_edited(*ip));
            self.inputs.claims(service, addresses, known)
        };
        let (mut left, claims) = (claims_in(before), claims_in(after));
        // An address in several subsets of Endpoints has some of its ports in each mirrored slice.
        if service.selector.is_some() {
            rules::claims_are_met(of_slice, &claims)?;
        }
        rules::ready_first(of_slice, |ip| claims.get(&ip).cloned())?;
        // A ready address that has left the slice is in another slice. An address that is not ready
        // here waits for the ready ones in others.
        left.retain(|ip, claim| claim.state == State::Ready && !claims.contains_key(ip));
        let is_all_ready = claims.values().all(|claim| claim.state == State::Ready);
        if left.is_empty() && is_all_ready {
            return Ok(!claims.is_empty());
        }
        let with = |slice: Option<&EndpointSlice>| {
            let others = self.inputs.slices(key).filter(|(other, _)| *other != written.key);
            let slices = others.map(|(_, it)| it).filter(|it| is_made_for(service, it)).chain(slice);
            answers(service, slices, family, &Client::default())
        };
        let (all_before, all_after) = (with(before), with(after));
        let was_reached =
            |ip: IpAddr, claim: &Claim| all_before.iter().all(|answer: &Answer| answer.reaches(ip, claim));
        left.retain(|ip, claim| was_reached(*ip, claim));
        rules::claims_are_met(&all_after, &left)?;
        // A pod that moves as it ends stays in its former slice until that is written.
        // `judge_services` sees what lasts.
        let is_left_behind = |ip: IpAddr, claim: &Claim| {
            claim.state != State::Ready && all_before.iter().any(|answer| answer.sends_to(ip))
        };
        rules::ready_first(&all_after, |ip| match claims.get(&ip) {
            Some(claim) => Some(claim.clone()).filter(|claim| !is_left_behind(ip, claim)),
            None => self.inputs.claim(service, ip, known).filter(|claim| claim.state == State::Ready),
        })?;
        Ok(true)
    }

    /// Judges the Services that have not changed since `until`, with all their slices, for all
    /// clients.
    pub(super) fn judge_services(&mut self, until: Duration) {
        let clients = self.inputs.clients();
        for service in self.inputs.take_unchanged(until) {
            match self.judge_service(&service, until, &clients) {
                Ok(is_judged) => self.statistics.services_judged += usize::from(is_judged),
                Err((rule, detail)) => self.fails(rule, &service, detail),
            }
        }
    }

    fn judge_service(&self, key: &str, until: Duration, clients: &[Client]) -> Result<bool, Broken> {
        let known = Horizon::Until(until);
        let Some(service) = self.inputs.service(key, known) else { return Ok(false) };
        let slices = || self.inputs.slices(key).map(|(_, slice)| slice);
        // Controllers do not mend entries of others about an address.
        let foreign = slices().filter(|slice| !is_made_for(service, slice));
        let foreign: BTreeSet<IpAddr> = foreign.flat_map(addresses_of).collect();
        let mut is_judged = false;
        for family in service.slice_families() {
            let addresses = self.inputs.addresses(service, family).into_iter();
            let claims = self.inputs.claims(service, addresses.filter(|ip| !foreign.contains(ip)), known);
            is_judged |= !claims.is_empty();
            let mut on_nodes = Vec::new();
            for client in clients {
                let answers = answers(service, slices(), family, client);
                let judged = rules::claims_are_met(&answers, &claims)
                    .and_then(|()| rules::ready_first(&answers, |ip| claims.get(&ip).cloned()))
                    .and_then(|()| rules::no_strangers(&answers, |ip| self.inputs.is_known(key, ip)));
                judged.map_err(|(rule, detail)| (rule, format!("for {client:?}: {detail}")))?;
                if !client.local && !client.node.is_empty() {
                    on_nodes.push(answers);
                }
            }
            rules::some_client_reaches(&on_nodes, &claims)?;
        }
        Ok(is_judged)
    }
}
