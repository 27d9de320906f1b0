//! Asks the API server which resources it serves.
//!
//! A controller whose resources the server does not serve is not started: the kinds that only such controllers read are not
//! listed, and a controller waits for its kinds. It starts when the resources appear. Only the answer 404 means that a
//! resource is not served. After any other error, and without an answer, everything is started as usual, and the informers
//! report what does not work. A resource that was not served is waited for until the server says that it serves it.

use std::time::Duration;

use futures::future::join_all;
use http::{Request, StatusCode};
use kube::client::Body;
use kube_endpoint_api_client::ApiClient;
use kube_endpoint_informer::{Cluster, Kind, Kinds};
use kube_endpoint_watch_channel as watch;
use tokio::time::{sleep, timeout};

use crate::controller_name::ControllerName;

/// How long an answer is waited for.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How often the server is asked again for what it did not serve.
const PERIOD: Duration = Duration::from_secs(60);

/// A group and version of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupVersion {
    /// `v1`
    Core,
    /// `discovery.k8s.io/v1`
    Discovery,
}

impl GroupVersion {
    const ALL: [Self; 2] = [Self::Core, Self::Discovery];

    fn of(kind: Kind) -> Self {
        if kind.api_group().is_empty() { Self::Core } else { Self::Discovery }
    }

    /// Path of the list of its resources.
    fn path(self) -> &'static str {
        match self {
            Self::Core => "/api/v1",
            Self::Discovery => "/apis/discovery.k8s.io/v1",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Core => "v1",
            Self::Discovery => "discovery.k8s.io/v1",
        }
    }
}

/// The kinds that a controller reads.
fn kinds_of(controller: ControllerName) -> &'static [Kind] {
    match controller {
        ControllerName::Endpoints => &[Kind::Pods, Kind::Services, Kind::Endpoints],
        ControllerName::EndpointSlice => &[Kind::Pods, Kind::Services, Kind::Nodes, Kind::EndpointSlices],
        ControllerName::EndpointSliceMirroring => &[Kind::Services, Kind::EndpointSlices, Kind::Endpoints],
    }
}

/// The group versions that a controller needs and that are missing.
fn missing_for(controller: ControllerName, missing: &[GroupVersion]) -> Option<GroupVersion> {
    kinds_of(controller).iter().map(|kind| GroupVersion::of(*kind)).find(|needed| missing.contains(needed))
}

/// The kinds of the controllers that can run.
fn kinds_to_list(controllers: &[ControllerName], missing: &[GroupVersion]) -> Kinds {
    let running = controllers.iter().filter(|controller| missing_for(**controller, missing).is_none());
    running.flat_map(|controller| kinds_of(*controller)).copied().collect()
}

/// Finds out which of the controllers' kinds to list, and sends them to `listed`. It asks again while something is missing.
/// The cluster counts as synced when these kinds are.
pub(crate) async fn run(
    client: ApiClient,
    cluster: Cluster,
    controllers: Vec<ControllerName>,
    listed: watch::Sender<Kinds>,
) {
    let is_needed =
        |it: &GroupVersion| controllers.iter().any(|controller| missing_for(*controller, &[*it]).is_some());
    let mut missing: Vec<GroupVersion> = GroupVersion::ALL.into_iter().filter(is_needed).collect();
    let mut waiting: Vec<ControllerName> = Vec::new();
    let mut is_first = true;
    loop {
        missing = still_missing(&client, missing, is_first).await;
        for controller in &controllers {
            let lacks = missing_for(*controller, &missing);
            let was_waiting = waiting.contains(controller);
            match lacks {
                Some(lacks) if is_first => {
                    tracing::warn!(
                        %controller, api = lacks.name(),
                        "the API server does not serve what this controller needs; it is started when the server does"
                    );
                    waiting.push(*controller);
                }
                None if was_waiting => {
                    tracing::info!(%controller, "the API server serves what this controller needs; it is started");
                    waiting.retain(|waiting| waiting != controller);
                }
                _ => {}
            }
        }
        is_first = false;
        let kinds = kinds_to_list(&controllers, &missing);
        cluster.await_kinds(kinds);
        listed.send_replace(kinds);
        if missing.is_empty() {
            return std::future::pending().await;
        }
        sleep(PERIOD).await;
    }
}

/// Those group versions that the server does not serve. In the first round these are those that it answers 404 for. In later
/// rounds, those that it does not answer with a success for.
async fn still_missing(client: &ApiClient, asked: Vec<GroupVersion>, is_first: bool) -> Vec<GroupVersion> {
    let is_missing = async |it: GroupVersion| match status(client, it).await {
        Some(status) if is_first => status == StatusCode::NOT_FOUND,
        Some(status) => !status.is_success(),
        None => !is_first,
    };
    let answers = join_all(asked.iter().map(|it| is_missing(*it))).await;
    asked.into_iter().zip(answers).filter_map(|(it, is_missing)| is_missing.then_some(it)).collect()
}

/// The status of the answer; none without an answer.
async fn status(client: &ApiClient, group_version: GroupVersion) -> Option<StatusCode> {
    let request = Request::get(group_version.path()).body(Body::empty()).ok()?;
    match timeout(TIMEOUT, client.send(request)).await {
        Ok(Ok(answer)) => Some(answer.status()),
        Ok(Err(error)) => {
            tracing::debug!(%error, api = group_version.name(), "discovery was not answered");
            None
        }
        Err(_) => {
            tracing::debug!(timeout = ?TIMEOUT, api = group_version.name(), "discovery was not answered in time");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_of_controllers_that_can_run_are_listed() {
        use ControllerName::{EndpointSlice, EndpointSliceMirroring, Endpoints};
        let check = |controllers: &[ControllerName], missing: &[GroupVersion], want: &[Kind]| {
            let want: Kinds = want.iter().copied().collect();
            assert_eq!(kinds_to_list(controllers, missing), want, "{controllers:?} {missing:?}");
        };
        let all = [Endpoints, EndpointSlice, EndpointSliceMirroring];
        check(&all, &[], &Kind::ALL);
        check(&all, &[GroupVersion::Discovery], &[Kind::Pods, Kind::Services, Kind::Endpoints]);
        check(&all, &[GroupVersion::Core], &[]);
        check(&[EndpointSlice, EndpointSliceMirroring], &[GroupVersion::Discovery], &[]);
        check(&[Endpoints], &[], &[Kind::Pods, Kind::Services, Kind::Endpoints]);
        check(&[], &[], &[]);
    }
}
