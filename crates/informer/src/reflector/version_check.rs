//! Compares the server's version with the position of a watch.
//!
//! A server whose storage was restored from a backup accepts a watch from a version that it has not
//! reached, and sends nothing, not even bookmarks (kubernetes#107457). Only a list shows that its
//! versions went back.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube_endpoint_core_model::{
    EndpointSelector, EndpointSlice, Endpoints, Lease, Node, Pod, ResourceVersion, Service,
};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::error::ListWatchError;
use crate::wire::list_parts::ListParts;
use crate::wire::request::{Target, get, list_path, read_all};
use crate::{ApiClient, Cluster, Kind, Object, ReflectorOptions, Scope, WatchedNamespaces};

/// The shortest time between two checks on an open watch.
const MIN_INTERVAL: Duration = Duration::from_secs(10);
/// The reflector reads a lower version a second time after this time before it counts as evidence:
/// connections may have moved between servers that disagree, or a cache may have answered one read.
/// If the second read is not lower, the reflector lists the kind: the server may have passed the
/// position within this time, with other objects than before.
const CONFIRMATION: Duration = Duration::from_secs(1);
/// After a second requested check within this time, the reflector lists the kind even if the
/// server's version is not lower, at most once in this time.
const UNEXPLAINED: Duration = Duration::from_secs(600);

/// The version checks of one reflector.
#[derive(Default)]
pub(crate) struct VersionChecks {
    /// When the last check was sent.
    last: Option<Instant>,
    /// True if somebody requested a check that the server has not answered.
    requested: bool,
    /// When a requested check last found that the server's version is not lower.
    unexplained: Option<Instant>,
    /// When the reflector last had to list the kind because requested checks explained nothing.
    relisted: Option<Instant>,
    running: Option<Running>,
}

struct Running {
    /// The position when the check was sent.
    from: ResourceVersion,
    answer: BoxFuture<'static, Result<Compared, ListWatchError>>,
}

impl VersionChecks {
    /// Waits until a check is due, sends it and evaluates the answer. `from` is the position of the
    /// watch, which has been silent since `silent_since`. Returns an error if the reflector must
    /// list the kind.
    ///
    /// Cancel safe: the next call continues a requested check, sent or not.
    pub(crate) async fn next<T: Object>(
        &mut self,
        client: &ApiClient,
        (cluster, scope): (&Cluster, &Scope),
        options: &ReflectorOptions,
        silent_since: Instant,
        from: ResourceVersion,
    ) -> Result<(), ListWatchError> {
        let progress = &cluster.inner.progress;
        if self.running.is_none() {
            if !self.requested {
                let since = self.last.map_or(silent_since, |last| last.max(silent_since));
                tokio::select! {
                    biased;
                    () = progress.version_check_requested(T::KIND, scope) => {
                        self.requested = true;
                    }
                    () = sleep_until(since + options.silence) => {}
                }
            }
            if let Some(last) = self.last {
                sleep_until(last + MIN_INTERVAL).await;
            }
            self.last = Some(Instant::now());
            let target = Target::new(&T::RESOURCE, scope);
            let answer = compare::<T>(client.clone(), target, options.idle_timeout, from).boxed();
            self.running = Some(Running { from, answer });
        }
        let Some(Running { from, answer }) = &mut self.running else { return Ok(()) };
        let (from, answer) = (*from, answer.await);
        self.running = None;
        let now = Instant::now();
        match answer {
            Err(error @ ListWatchError::VersionWentBack { .. }) => {
                self.requested = false;
                Err(error)
            }
            Ok(compared) => {
                tracing::debug!(resource = T::KIND.name(), position = %from, ?compared, "compared versions");
                if compared == Compared::LowerOnce {
                    progress.version_was_lower(T::KIND, scope);
                }
                if std::mem::take(&mut self.requested) && self.is_unexplained_again(now) {
                    progress.suspect(T::KIND, scope);
                }
                Ok(())
            }
            Err(error) => {
                tracing::debug!(resource = T::KIND.name(), %error, "the server's version cannot be read");
                Ok(())
            }
        }
    }

    /// Drops a check that was sent during an earlier watch.
    pub(crate) fn begin_watch(&mut self) {
        self.running = None;
    }

    /// Counts a requested check that found no lower version. Returns true if the reflector must
    /// list the kind nevertheless.
    fn is_unexplained_again(&mut self, now: Instant) -> bool {
        let is_recent = |at: Option<Instant>| at.is_some_and(|at| now - at < UNEXPLAINED);
        if is_recent(self.relisted) {
            return false;
        }
        if is_recent(self.unexplained) {
            (self.unexplained, self.relisted) = (None, Some(now));
            return true;
        }
        self.unexplained = Some(now);
        false
    }
}

/// The server's version of a kind, compared with one that this process read before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    NotLower,
    /// The first read had a lower version, and the second one had not.
    LowerOnce,
}

/// Compares the server's version of a kind with one that this process read before.
///
/// # Errors
///
/// [`ListWatchError::VersionWentBack`] if the server's version is lower in two reads. Others if a
/// read fails.
pub(crate) async fn compare<T: Object>(
    client: ApiClient,
    target: Target,
    idle_timeout: Duration,
    position: ResourceVersion,
) -> Result<Compared, ListWatchError> {
    let read = async || server_version::<T>(client.clone(), target.clone(), idle_timeout).await;
    if read().await? >= position {
        return Ok(Compared::NotLower);
    }
    sleep(CONFIRMATION).await;
    match read().await? {
        server if server < position => Err(ListWatchError::VersionWentBack { server, position }),
        _ => Ok(Compared::LowerOnce),
    }
}

/// The server's version of a kind is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct VersionUnknown {
    /// True if the server forbids to list the kind, in each of the watched namespaces.
    pub is_forbidden: bool,
    message: String,
}

/// Returns the server's current version of a kind, from a consistent list of at most one object:
/// everything that clients wrote before the call has this version or a lower one. Returns `None` if
/// the server does not serve the kind, which can only be EndpointSlices or EndpointSelectors: each
/// API server serves the others.
///
/// # Errors
///
/// If the server answers with anything else, or not within the time limit.
pub async fn server_version_of(
    client: &ApiClient,
    watched: &WatchedNamespaces,
    kind: Kind,
    limit: Duration,
) -> Result<Option<ResourceVersion>, VersionUnknown> {
    let asked = async {
        match kind {
            Kind::Pods => readable_version::<Pod>(client, watched, limit).await,
            Kind::Services => readable_version::<Service>(client, watched, limit).await,
            Kind::Nodes => readable_version::<Node>(client, watched, limit).await,
            Kind::EndpointSlices => readable_version::<EndpointSlice>(client, watched, limit).await,
            Kind::Endpoints => readable_version::<Endpoints>(client, watched, limit).await,
            Kind::EndpointSelectors => readable_version::<EndpointSelector>(client, watched, limit).await,
            Kind::Leases => readable_version::<Lease>(client, watched, limit).await,
        }
    };
    match timeout(limit, asked).await {
        Ok(Ok(version)) => Ok(Some(version)),
        Ok(Err(error)) if !kind.is_always_served() && error.is_not_served() => Ok(None),
        Ok(Err(error)) => {
            Err(VersionUnknown { is_forbidden: error.code() == Some(403), message: error.to_string() })
        }
        Err(_) => Err(VersionUnknown { is_forbidden: false, message: format!("no answer within {limit:?}") }),
    }
}

/// Asks in one namespace after the other until one may be read: a list of any of them has the
/// version of the whole server.
async fn readable_version<T: Object>(
    client: &ApiClient,
    watched: &WatchedNamespaces,
    idle_timeout: Duration,
) -> Result<ResourceVersion, ListWatchError> {
    let ask = |scope| server_version::<T>(client.clone(), Target::new(&T::RESOURCE, &scope), idle_timeout);
    let mut scopes = watched.scopes(T::KIND).into_iter();
    let mut answer = ask(scopes.next().unwrap_or(Scope::All)).await;
    for scope in scopes {
        if answer.as_ref().is_err_and(|error| error.code() == Some(403)) {
            answer = ask(scope).await;
        }
    }
    answer
}

/// Returns the server's current version of a kind, from a list of at most one object.
pub(crate) async fn server_version<T: Object>(
    client: ApiClient,
    target: Target,
    idle_timeout: Duration,
) -> Result<ResourceVersion, ListWatchError> {
    let path = list_path(&target, 1, None);
    let (mut body, content_type) = get(&client, &path, idle_timeout).await?;
    let answer = read_all(&mut body, idle_timeout).await?;
    let mut list = ListParts::new(content_type, T::RESOURCE.list_kind);
    list.push(answer.into(), |_| ())?;
    Ok(list.finish::<T>(|_| ())?.resource_version)
}
