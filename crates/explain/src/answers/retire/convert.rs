//! Converts Endpoints that a user wrote into EndpointSlices that replace them.
//!
//! The slices hold what the EndpointSlice-mirroring controller makes of these Endpoints, with
//! another manager and with names that are the same each time. So the user can apply them, and then
//! delete the Endpoints: the mirrored slices go, and clients are sent to the same addresses before,
//! in between and afterwards. The order of the two steps is what keeps the Service up: each client
//! sees the events of slices in the order of the writes.
//!
//! The slices have no owner. The garbage collector would take them with the Endpoints if these were
//! the owner; and with the Service as the owner a manifest would be of use only as long as the
//! Service keeps its uid.

use std::collections::{BTreeMap, BTreeSet};

use kube_endpoint_core_model::label_selector::is_label_value;
use kube_endpoint_core_model::maker::{CONTROLLERS, Content, Maker, Provenance};
use kube_endpoint_core_model::service::ServiceType;
use kube_endpoint_core_model::well_known::{
    LABEL_ENDPOINTS_MANAGED_BY, LABEL_HEADLESS, LABEL_MANAGED_BY, LABEL_SERVICE_NAME, LABEL_SKIP_MIRROR,
};
use kube_endpoint_core_model::{
    AddressType, Endpoint, EndpointSlice, Endpoints, ObjectKey, ObjectMeta, Service, Text,
};
use kube_endpoint_mirroring::plan::DEFAULT_MAX_ENDPOINTS_PER_SUBSET;
use kube_endpoint_mirroring::{MirrorVerdict, NotMirrored, PlanInputs, PlanOptions, SkipReason, plan};
use serde_json::{Value, json};

use crate::answers::render::typed;
use crate::facts::remedy::Step;

/// The manager of the slices, unless the user names another one.
pub const MANAGER: &str = "kubectl-diagnose-svc";

/// The maximum number of endpoints that the API server accepts in a slice.
const LARGEST: usize = 1000;

/// The maximum number of addresses or names in a sentence.
const NAMED: usize = 10;

/// Everything on which a conversion depends.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The name of the Endpoints and of their Service.
    pub key: &'a ObjectKey,
    pub endpoints: Option<&'a Endpoints>,
    /// The metadata of the Endpoints, from which it shows who made them.
    pub provenance: &'a Provenance,
    pub service: Option<&'a Service>,
    /// The metadata of all slices of the namespace.
    pub existing: &'a [ObjectMeta],
    /// The value of the label `endpointslice.kubernetes.io/managed-by`.
    pub manager: &'a str,
}

/// The slices that replace Endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    pub key: ObjectKey,
    pub slices: Vec<EndpointSlice>,
    /// Sentences that the user should read before the first step.
    pub notes: Vec<String>,
}

/// The reason why Endpoints are not converted. Prints as a sentence without a full stop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    #[error(
        "{0:?} cannot be the manager of slices; write letters, digits, `-`, `_` and `.`, at most 63 characters, and a \
         letter or a digit at both ends"
    )]
    InvalidManager(String),
    #[error(
        "{0} is the manager of a controller, which would change or delete the slices; choose another one"
    )]
    ManagerOfController(String),
    #[error("there are no Endpoints {0}")]
    NoEndpoints(ObjectKey),
    #[error("the API server itself writes the Endpoints and the slice of {0}")]
    OfTheApiServer(ObjectKey),
    #[error("the Endpoints {0} are the lock of a leader election; their addresses are nobody's endpoints")]
    Lock(ObjectKey),
    #[error(
        "there is no Service {0}, so no client uses its Endpoints; create the Service first, or delete the Endpoints"
    )]
    NoService(ObjectKey),
    #[error("the Endpoints {0} are being deleted")]
    EndpointsDeleted(ObjectKey),
    #[error("the Service {0} is being deleted")]
    ServiceDeleted(ObjectKey),
    #[error(
        "the Service {0} is an alias of a DNS name, and no client of an alias uses Endpoints or slices; delete the Endpoints"
    )]
    Alias(ObjectKey),
    #[error(
        "the Service {0} has a selector, so the EndpointSlice controller makes its slices from pods, and its Endpoints are \
         not mirrored; remove the selector first if the addresses of the Endpoints are meant"
    )]
    Selector(ObjectKey),
    #[error(
        "a controller ({by}) made the Endpoints {key} from pods, and nobody else wrote addresses into them; they are left \
         over, and `kubectl diagnose-svc cleanup` tells if they can go"
    )]
    OfController { key: ObjectKey, by: Text },
    #[error(
        "the Endpoints {0} have the label of the endpoints controller, and their managedFields do not tell who wrote them; \
         remove the label {LABEL_ENDPOINTS_MANAGED_BY} if you did"
    )]
    MakerUnknown(ObjectKey),
    #[error(
        "the Endpoints {0} have the label {LABEL_SKIP_MIRROR}=true, so they are not mirrored, and clients that read slices \
         do not see their addresses; delete the Endpoints if slices exist already that hold these, or else remove the label \
         and convert them again"
    )]
    SkipLabel(ObjectKey),
    #[error(
        "the Endpoints {key} are not mirrored as they are: {} no IP address; correct or remove that first",
        are(.addresses)
    )]
    InvalidAddresses { key: ObjectKey, addresses: Vec<Text> },
    #[error(
        "two ports of the Endpoints {key} have the same name {name:?} for the same addresses; the API server refuses such \
         slices, also mirrored ones; give each port a name of its own, here and in the Service"
    )]
    PortName { key: ObjectKey, name: Text },
    #[error("the Endpoints {0} hold no addresses; delete them")]
    Empty(ObjectKey),
}

fn are(names: &[Text]) -> String {
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", some(names))
}

/// Returns some names, and the number of the others.
fn some(names: &[impl AsRef<str>]) -> String {
    let listed: Vec<&str> = names.iter().take(NAMED).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(NAMED) {
        0 => listed.join(", "),
        more => format!("{} and {more} more", listed.join(", ")),
    }
}

/// Converts Endpoints.
///
/// # Errors
///
/// The reason why these Endpoints are not to be converted.
pub fn convert(inputs: &Inputs<'_>) -> Result<Conversion, Refusal> {
    let (endpoints, service) = check(inputs)?;
    let options = PlanOptions::default();
    let of = |options: &PlanOptions| plan(&PlanInputs::new(service, endpoints).with_options(options));
    // Nobody limits what a user writes into slices.
    let all = of(&options.clone().with_max_endpoints_per_subset(usize::MAX));
    match all.not_mirrored {
        Some(NotMirrored::SkipLabel) => return Err(Refusal::SkipLabel(inputs.key.clone())),
        Some(NotMirrored::LeaderElection) => return Err(Refusal::Lock(inputs.key.clone())),
        _ => {}
    }
    let is_invalid = |verdict: &MirrorVerdict| *verdict == MirrorVerdict::Skipped(SkipReason::InvalidAddress);
    let invalid = all.verdicts.iter().filter(|one| is_invalid(&one.verdict)).map(|one| one.address.clone());
    let invalid: BTreeSet<Text> = invalid.collect();
    if !invalid.is_empty() {
        let addresses = invalid.into_iter().collect();
        return Err(Refusal::InvalidAddresses { key: inputs.key.clone(), addresses });
    }
    if all.writes.create.is_empty() {
        return Err(Refusal::Empty(inputs.key.clone()));
    }
    let mirrored = of(&options);
    let is_over =
        |verdict: &MirrorVerdict| matches!(verdict, MirrorVerdict::Skipped(SkipReason::OverMaximum { .. }));
    let over: Vec<Text> =
        mirrored.verdicts.iter().filter(|one| is_over(&one.verdict)).map(|one| one.address.clone()).collect();
    let mut slices: Vec<EndpointSlice> = all.writes.create.into_iter().flat_map(split).collect();
    if let Some(name) = slices.iter().find_map(repeated_name) {
        return Err(Refusal::PortName { key: inputs.key.clone(), name });
    }
    name_all(&mut slices, inputs);
    let notes = notes(inputs, endpoints, service, &slices, &over);
    Ok(Conversion { key: inputs.key.clone(), slices, notes })
}

/// Refuses what is not to be converted, whatever addresses it has.
fn check<'a>(inputs: &Inputs<'a>) -> Result<(&'a Endpoints, &'a Service), Refusal> {
    let key = inputs.key;
    if !is_label_value(inputs.manager) {
        return Err(Refusal::InvalidManager(inputs.manager.to_owned()));
    }
    if Content::Slice.managers().contains(&inputs.manager) {
        return Err(Refusal::ManagerOfController(inputs.manager.to_owned()));
    }
    let endpoints = inputs.endpoints.ok_or_else(|| Refusal::NoEndpoints(key.clone()))?;
    if endpoints.metadata.deletion_timestamp.is_some() {
        return Err(Refusal::EndpointsDeleted(key.clone()));
    }
    if kube_endpoint_mirroring::plan::mirrorable(endpoints) == Err(NotMirrored::LeaderElection) {
        return Err(Refusal::Lock(key.clone()));
    }
    let service = inputs.service.ok_or_else(|| Refusal::NoService(key.clone()))?;
    if service.is_of_the_api_server() {
        return Err(Refusal::OfTheApiServer(key.clone()));
    }
    if service.deletion_timestamp.is_some() {
        return Err(Refusal::ServiceDeleted(key.clone()));
    }
    if service.service_type == ServiceType::ExternalName {
        return Err(Refusal::Alias(key.clone()));
    }
    if service.selector.is_some() {
        return Err(Refusal::Selector(key.clone()));
    }
    match inputs.provenance.maker(Content::Endpoints, &CONTROLLERS) {
        Maker::Controller(by) => return Err(Refusal::OfController { key: key.clone(), by }),
        Maker::Uncertain(_) => return Err(Refusal::MakerUnknown(key.clone())),
        Maker::Unknown if endpoints.metadata.labels.get(LABEL_ENDPOINTS_MANAGED_BY).is_some() => {
            return Err(Refusal::MakerUnknown(key.clone()));
        }
        Maker::SomebodyElse(_) | Maker::Unknown => {}
    }
    Ok((endpoints, service))
}

/// Splits a slice that the API server would refuse because of its size. The endpoints of one
/// address stay together: of two that differ, kube-proxy takes the last one of a slice, but any of
/// two slices.
fn split(slice: EndpointSlice) -> Vec<EndpointSlice> {
    let mut parts: Vec<Vec<Endpoint>> = Vec::new();
    for of_address in slice.endpoints.chunk_by(|one, two| one.addresses == two.addresses) {
        match parts.last_mut().filter(|part| part.len() + of_address.len() <= LARGEST) {
            Some(part) => part.extend_from_slice(of_address),
            None => parts.push(of_address.to_vec()),
        }
    }
    parts.into_iter().map(|endpoints| EndpointSlice { endpoints, ..slice.clone() }).collect()
}

/// Returns a name that two ports of a slice have.
fn repeated_name(slice: &EndpointSlice) -> Option<Text> {
    let mut names = BTreeSet::new();
    let mut all = slice.ports.iter().map(|port| port.name.clone().unwrap_or_default());
    all.find(|name| !names.insert(name.clone()))
}

/// Returns true if an earlier conversion made a slice.
fn is_of_conversion(metadata: &ObjectMeta, inputs: &Inputs<'_>) -> bool {
    let has = |label: &str, value: &str| metadata.labels.get(label).is_some_and(|it| **it == *value);
    has(LABEL_SERVICE_NAME, &inputs.key.name) && has(LABEL_MANAGED_BY, inputs.manager)
}

/// Gives slices their metadata. The names are the same each time, so that a second conversion
/// changes the slices of the first one; they contain the address type, which nobody can change. A
/// name that another slice has is left out.
fn name_all(slices: &mut [EndpointSlice], inputs: &Inputs<'_>) {
    let taken: BTreeSet<&Text> = inputs
        .existing
        .iter()
        .filter(|metadata| !is_of_conversion(metadata, inputs))
        .map(|metadata| &metadata.name)
        .collect();
    let mut numbers: BTreeMap<AddressType, usize> = BTreeMap::new();
    for slice in slices {
        let number = numbers.entry(slice.address_type).or_default();
        let family = slice.address_type.as_str().to_lowercase();
        let name = loop {
            *number += 1;
            let name = Text::from(format!("{}-{family}-{number}", inputs.key.name));
            if !taken.contains(&name) {
                break name;
            }
        };
        let ObjectMeta { namespace, labels, annotations, .. } = std::mem::take(&mut slice.metadata);
        let labels = labels
            .without(LABEL_ENDPOINTS_MANAGED_BY)
            .without(LABEL_SKIP_MIRROR)
            .with(LABEL_MANAGED_BY, inputs.manager);
        slice.metadata = ObjectMeta { name, namespace, labels, annotations, ..ObjectMeta::default() };
    }
}

fn notes(
    inputs: &Inputs<'_>,
    endpoints: &Endpoints,
    service: &Service,
    slices: &[EndpointSlice],
    over: &[Text],
) -> Vec<String> {
    let mut notes = Vec::new();
    if !over.is_empty() {
        notes.push(format!(
            "kube-controller-manager mirrors at most {DEFAULT_MAX_ENDPOINTS_PER_SUBSET} addresses of a subset and leaves {} out, \
             which the slices hold: clients are sent there, too, once they are applied ({}).",
            over.len(),
            some(over)
        ));
    }
    if endpoints.metadata.labels.get(LABEL_HEADLESS).is_some() && !service.is_headless() {
        notes.push(format!(
            "The Endpoints have the label {LABEL_HEADLESS}, which kube-controller-manager copies to the slices that it mirrors, \
             so that kube-proxy ignores them. The slices below do not have it: clients are sent to their addresses once they are \
             applied."
        ));
    }
    let made: BTreeSet<&Text> = slices.iter().map(|slice| &slice.metadata.name).collect();
    let earlier = inputs.existing.iter().filter(|metadata| is_of_conversion(metadata, inputs));
    let old: Vec<&str> =
        earlier.map(|it| &*it.name).filter(|name| !made.iter().any(|made| ***made == **name)).collect();
    if !old.is_empty() {
        notes.push(format!(
            "These EndpointSlices of {} are not among those below, and clients use them, too; delete them if nobody needs them: {}.",
            inputs.manager,
            some(&old)
        ));
    }
    let by = match inputs.provenance.last_writer(Content::Endpoints, &CONTROLLERS) {
        Maker::SomebodyElse(by) | Maker::Controller(by) | Maker::Uncertain(by) => by.to_string(),
        Maker::Unknown => "An unknown client".to_owned(),
    };
    notes.push(format!(
        "{by} wrote these Endpoints last. If it is a program that goes on writing, let it write EndpointSlices first: Endpoints \
         that come back are mirrored again, and nobody but you updates the slices below."
    ));
    notes
}

impl Conversion {
    /// Returns the slices as a v1 List, which kubectl applies.
    ///
    /// # Errors
    ///
    /// If a slice does not serialise to JSON, which does not happen.
    pub fn to_list(&self) -> Result<Value, serde_json::Error> {
        let items: Result<Vec<Value>, _> =
            self.slices.iter().map(|slice| typed(slice, "discovery.k8s.io/v1", "EndpointSlice")).collect();
        Ok(json!({"apiVersion": "v1", "kind": "List", "items": items?}))
    }

    /// Returns the lines that say what to do with the list.
    pub fn steps(&self) -> Vec<String> {
        let ObjectKey { namespace, name } = &self.key;
        // A client-side apply puts the whole slice into an annotation, whose size is limited.
        let apply = Step::kubectl(["apply", "--server-side", "-f", "FILE"]);
        let delete = Step::kubectl_in(namespace, ["delete", "endpoints", name]);
        let endpoints: usize = self.slices.iter().map(|slice| slice.endpoints.len()).sum();
        let count =
            |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
        vec![
            format!(
                "{} with {} to replace the Endpoints {}, in two steps and in this order:",
                count(self.slices.len(), "EndpointSlice"),
                count(endpoints, "endpoint"),
                self.key
            ),
            format!("  1. Save this output as FILE, and apply it: {apply}"),
            format!("  2. Delete the Endpoints: {delete}"),
            "Then the slices that were mirrored from the Endpoints go, too. Delete the new slices when you delete the Service: they \
             have no owner."
                .to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests;
