//! `retire --convert`: prints the EndpointSlices that replace Endpoints which a user wrote.

use anyhow::{anyhow, bail};
use kube::api::ListParams;
use kube_endpoint_api_client::why_request_failed;
use kube_endpoint_core_model::maker::Provenance;
use kube_endpoint_core_model::{Endpoints, ObjectKey, ObjectMeta, Service};
use kube_endpoint_explain::retire::convert::{self, Inputs, Refusal};
use serde::Deserialize;
use serde_json::Value;

use crate::args::Global;
use crate::commands::reader;
use crate::connect::{Connection, connect};
use crate::output::{Output, print_note};
use kube_endpoint_explain_reader::{Reader, Resource};

/// Converts Endpoints. The list goes to standard output, and what to do with it to standard error.
///
/// # Errors
///
/// An error if the Endpoints are not to be converted, or if reading the cluster fails.
pub(crate) async fn run(global: &Global, output: Output, subject: &str, manager: &str) -> anyhow::Result<u8> {
    output.check_format()?;
    let Connection { client, namespace, .. } = connect(&global.config).await?;
    let reader = reader(client.kube().clone());
    let key = match subject.split_once('/') {
        Some((_, name)) if name.contains('/') => {
            bail!("{subject:?} names no Endpoints; write NAME or NAMESPACE/NAME")
        }
        Some((namespace, name)) => ObjectKey::new(namespace, name),
        None => ObjectKey::new(namespace, subject),
    };
    let endpoints = get(&reader, Resource::ENDPOINTS, &key).await?;
    let service = get(&reader, Resource::SERVICES, &key).await?;
    let params = ListParams::default();
    let listed = reader.list_metadata(
        Resource::SLICES,
        Some(&*key.namespace),
        params,
        |all: &mut Vec<_>, metadata| {
            all.push(ObjectMeta::deserialize(metadata)?);
            Ok(())
        },
    );
    let existing = listed
        .await?
        .map_err(|note| anyhow!("{note} Their names tell which ones the new slices can have."))?;
    if endpoints.is_none() && service.is_none() {
        reader.check_namespace(&key.namespace).await?;
    }
    let metadata = endpoints.as_ref().map(|endpoints| &endpoints["metadata"]);
    let provenance = metadata.map(Provenance::deserialize).transpose()?.unwrap_or_default();
    let converted = convert::convert(&Inputs {
        key: &key,
        endpoints: endpoints.as_ref().map(Endpoints::deserialize).transpose()?.as_ref(),
        provenance: &provenance,
        service: service.as_ref().map(Service::deserialize).transpose()?.as_ref(),
        existing: &existing,
        manager,
    });
    let converted = converted.map_err(|refusal: Refusal| anyhow!("nothing is converted: {refusal}"))?;
    output.print_objects(&converted.to_list()?)?;
    converted.notes.iter().for_each(|note| print_note(note));
    converted.steps().iter().for_each(|line| print_note(line));
    Ok(0)
}

/// Reads one object. Returns `None` if it does not exist.
async fn get(reader: &Reader, kind: Resource, key: &ObjectKey) -> anyhow::Result<Option<Value>> {
    let found = reader.get(kind, &key.namespace, &key.name).await;
    found.map_err(|error| anyhow!("{kind} {key} cannot be read: {}", why_request_failed(&error)))
}
