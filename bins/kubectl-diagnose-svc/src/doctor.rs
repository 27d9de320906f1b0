//! `doctor`: reads the facts about a cluster.
//!
//! Each part is read by itself, so that a missing permission costs one line of the report. A large
//! cluster costs no more than a small one: of the outputs this reads at most [`PAGES`] pages of
//! metadata, and if there are many Services or pods, it plans only some Services.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec,
};
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, Error};
use kube_endpoint_api_client::why_request_failed;
use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_explain::doctor::{
    ADDON_LEASE, Counts, FOR_PLUGIN, Facts, Instance, Lease, MANAGER_LEASE, Outputs, Permission, Read,
    Review, Unread, Webhook, for_manager, runs_beside, webhooks_of,
};
use kube_endpoint_explain::leftovers::OutputKind;
use kube_endpoint_explain::{Diff, Helper, Objects, Options, diff};

use crate::place::Place;
use crate::source::{MUTATING, SYSTEM, VALIDATING, instances, managers, version};
use kube_endpoint_explain_reader::{PAGE, Reading, Resource, is_not_in_files};

/// The most pages of metadata of a kind.
const PAGES: u32 = 4;
/// This plans all Services of a cluster that has at most this many Services and pods.
const ALL_SERVICES: u64 = 1000;
const ALL_PODS: u64 = 5000;
/// The number of Services that this plans in a larger cluster.
const SAMPLE: usize = 20;
/// The number of concurrent requests.
const AT_ONCE: usize = 8;
/// Controllers finish writes under way in this time.
const BETWEEN_READINGS: Duration = Duration::from_secs(3);

/// Reads all facts.
///
/// # Errors
///
/// An error if the server does not answer, or is no API server.
pub(crate) async fn facts(place: &Place, options: &Options) -> anyhow::Result<Facts> {
    let (client, options) = (&place.client, &place.options(options));
    let server = version(client).await?.map(|info| info.git_version);
    let managers = managers(client).await;
    // All at once, so that parts that do not answer cost the time of one.
    let (
        slices,
        endpoints,
        leases,
        leases_elsewhere,
        upstream,
        manager_reviews,
        own_reviews,
        webhooks,
        conflicts,
        helpers,
        changes,
    ) = tokio::join!(
        outputs(client, OutputKind::EndpointSlice, Resource::SLICES),
        outputs(client, OutputKind::Endpoints, Resource::ENDPOINTS),
        leases(client, Some(SYSTEM), ListParams::default()),
        leases_elsewhere(client, managers.as_deref().unwrap_or_default()),
        upstream(client),
        manager_reviews(client, managers.as_deref().unwrap_or_default()),
        reviews(client, FOR_PLUGIN, None),
        webhooks(client),
        Resource::EVENTS.page(client, None, ListParams::default().fields("reason=ForeignWriteConflict")),
        helpers(client),
        changes(place, options),
    );
    Ok(Facts {
        server,
        plugin: env!("CARGO_PKG_VERSION").to_owned(),
        slices,
        endpoints,
        leases,
        leases_elsewhere,
        upstream,
        managers,
        manager_reviews,
        own_reviews,
        webhooks,
        conflicts: conflicts.map(|events| events.len()),
        helpers,
        changes,
    })
}

fn named(name: &str) -> ListParams {
    ListParams::default().fields(&format!("metadata.name={name}"))
}

async fn leases(client: &Client, namespace: Option<&str>, params: ListParams) -> Read<Vec<Lease>> {
    let leases = Resource::LEASES.page(client, namespace, params).await?;
    Ok(leases.iter().map(Lease::read).collect())
}

/// Reads the pods of kube-controller-manager, with the labels of kubeadm and RKE2, and of kOps and
/// Talos.
async fn upstream(client: &Client) -> Read<Vec<Instance>> {
    let mut pods = Vec::new();
    for selector in ["component=kube-controller-manager", "k8s-app=kube-controller-manager,!component"] {
        pods.extend(instances(client, Some(SYSTEM), selector).await?);
    }
    Ok(pods)
}

/// Reads the pods of kube-proxy and of the DNS servers.
async fn helpers(client: &Client) -> Read<Objects> {
    let names = [Helper::KubeProxy, Helper::Dns].map(Helper::label).join(",");
    let params = ListParams::default().labels(&format!("k8s-app in ({names})"));
    let pods = Resource::PODS.page(client, Some(SYSTEM), params).await?;
    let with_kind = pods.into_iter().map(|mut pod| {
        pod["kind"] = Resource::PODS.kind.into();
        pod
    });
    Objects::read(with_kind).map_err(|error| Unread::Failed(error.to_string()))
}

/// Reads the Leases with the names that are usual, and with those of the pods' flags.
async fn leases_elsewhere(client: &Client, managers: &[Instance]) -> Read<Vec<Lease>> {
    let of_pods = managers.iter().map(|pod| pod.lease().name.to_string());
    let usual = [MANAGER_LEASE, ADDON_LEASE].map(str::to_owned);
    let names: BTreeSet<String> = of_pods.chain(usual).collect();
    let read = names.iter().map(|name| leases(client, None, named(name)));
    let leases: Vec<Vec<Lease>> = stream::iter(read).buffered(AT_ONCE).try_collect().await?;
    Ok(leases.into_iter().flatten().collect())
}

/// Asks about the permissions of the users of the pods: those that run the loops, and those of the
/// add-on.
async fn manager_reviews(client: &Client, managers: &[Instance]) -> Option<Read<Vec<Review>>> {
    let (addons, managers): (Vec<Instance>, Vec<Instance>) =
        managers.iter().cloned().partition(|pod| runs_beside([pod]));
    let mut all: Option<Vec<Review>> = None;
    for (user, permissions) in [managers, addons].iter().filter_map(|pods| for_manager(pods)) {
        match reviews(client, &permissions, Some(&user)).await {
            Ok(reviews) => all.get_or_insert_default().extend(reviews),
            unread => return Some(unread),
        }
    }
    all.map(Ok)
}

/// Reads the metadata of slices or Endpoints.
async fn outputs(client: &Client, kind: OutputKind, source: Resource) -> Read<Outputs> {
    let read = source.metadata(
        client,
        None,
        Some(PAGES),
        || Outputs::new(kind),
        |outputs, page| {
            outputs.left = page.left;
            page.items.iter().try_for_each(|metadata| outputs.add(metadata))
        },
    );
    read.await
}

/// Asks the server about permissions, of a user or of the user who asks.
async fn reviews(client: &Client, permissions: &[Permission], user: Option<&str>) -> Read<Vec<Review>> {
    let asked = permissions.iter().map(async |permission| {
        let is_allowed = is_allowed(client, permission, user).await?;
        Ok(Review { permission: *permission, is_allowed })
    });
    // This asks no further after an error.
    let answers: Result<Vec<Review>, Error> = stream::iter(asked).buffered(AT_ONCE).try_collect().await;
    answers.map_err(|error| match error {
        error if is_not_in_files(&error) => Unread::Failed(why_request_failed(&error)),
        Error::Api(status) if status.code == 403 => {
            let resource = if user.is_some() { "subjectaccessreviews" } else { "selfsubjectaccessreviews" };
            Unread::Forbidden(format!("create {resource}.authorization.k8s.io"))
        }
        error => Unread::Failed(why_request_failed(&error)),
    })
}

async fn is_allowed(client: &Client, permission: &Permission, user: Option<&str>) -> Result<bool, Error> {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let resource_attributes = Some(ResourceAttributes {
        group: text(permission.group),
        name: text(permission.name),
        namespace: text(permission.namespace),
        resource: text(permission.resource),
        verb: text(permission.verb),
        ..ResourceAttributes::default()
    });
    let params = PostParams::default();
    let Some(user) = user else {
        let spec =
            SelfSubjectAccessReviewSpec { resource_attributes, ..SelfSubjectAccessReviewSpec::default() };
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let answer = Api::<SelfSubjectAccessReview>::all(client.clone()).create(&params, &review).await?;
        return allowed(answer.status.map(|status| status.allowed));
    };
    let namespace = user.split(':').nth(2).unwrap_or_default();
    let groups =
        ["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}"), "system:authenticated"];
    let spec = SubjectAccessReviewSpec {
        resource_attributes,
        user: Some(user.to_owned()),
        groups: Some(groups.map(str::to_owned).to_vec()),
        ..SubjectAccessReviewSpec::default()
    };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let answer = Api::<SubjectAccessReview>::all(client.clone()).create(&params, &review).await?;
    allowed(answer.status.map(|status| status.allowed))
}

fn allowed(allowed: Option<bool>) -> Result<bool, Error> {
    allowed.ok_or_else(|| Error::Service("the answer to a review has no status".into()))
}

async fn webhooks(client: &Client) -> Read<Vec<Webhook>> {
    let mut found = Vec::new();
    for (source, mutates) in [(VALIDATING, false), (MUTATING, true)] {
        let configurations = source.page_if_served(client).await?;
        found.extend(configurations.iter().flat_map(|configuration| webhooks_of(configuration, mutates)));
    }
    Ok(found)
}

/// Counts the writes that the controllers would make: for all Services, or for some of a large
/// cluster.
async fn changes(place: &Place, options: &Options) -> Read<Counts> {
    let (client, reader) = (&place.client, &place.reader);
    let services = Resource::SERVICES.first(client, PAGE).await?;
    let pods = Resource::PODS.first(client, 1).await;
    let all_pods = pods.map_or(0, |pods| pods.items.len() as u64 + pods.left);
    let all_services = services.items.len() as u64 + services.left;
    let failed = |error: anyhow::Error| Unread::Failed(format!("{error:#}"));
    let mut counts = Counts::default();
    if all_services <= ALL_SERVICES && all_pods <= ALL_PODS {
        let found = settled(place, async || diff_of(reader.all(None).await?, place, options))
            .await
            .map_err(failed)?;
        counts.services = usize::try_from(all_services).unwrap_or(usize::MAX);
        add(&mut counts, &found);
        return Ok(counts);
    }
    counts.of = Some(all_services);
    let step = (services.items.len() / SAMPLE).max(1);
    for service in services.items.iter().step_by(step).take(SAMPLE) {
        let text = |field: &str| service[field].as_str().unwrap_or_default();
        let key = ObjectKey::new(text("namespace"), text("name"));
        // A Service may have been deleted since the list.
        let read = async || diff_of(reader.service(&key).await?, place, options);
        let Ok(found) = settled(place, read).await else {
            continue;
        };
        counts.services += 1;
        add(&mut counts, &found);
    }
    Ok(counts)
}

fn add(counts: &mut Counts, found: &Diff) {
    counts.add(&found.changes);
    counts.not_read.extend(found.not_read.iter().cloned());
    counts.not_read.sort();
    counts.not_read.dedup();
}

fn diff_of(reading: Reading, place: &Place, options: &Options) -> anyhow::Result<Diff> {
    let Reading { objects, notes, known, .. } = reading;
    Ok(diff(&objects, place.now(), &options.clone().with_known(known))?.with_not_read(notes))
}

/// Reads again if something would change: controllers finish writes under way by then.
async fn settled(place: &Place, read: impl AsyncFn() -> anyhow::Result<Diff>) -> anyhow::Result<Diff> {
    let first = read().await?;
    if first.is_empty() || !place.may_change() {
        return Ok(first);
    }
    tokio::time::sleep(BETWEEN_READINGS).await;
    let second = read().await?;
    Ok(Diff::persisting(&[first, second]))
}
