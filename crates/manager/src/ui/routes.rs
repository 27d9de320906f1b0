//! Answers requests for the page, its data, its stream, and the explanation of a Service.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use http::header::LOCATION;
use http::{HeaderValue, StatusCode};
use kube_endpoint_core_model::{ObjectKey, harmless_json};
use kube_endpoint_explain::text::{Colors, Layout};
use kube_endpoint_explain::{Code, Explanation, explain};
use kube_endpoint_serving::{
    Access, Event, PageAnswer, PageHandler, PageRequest, error_page, event_stream, page,
};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use super::namespaces::{Visible, may_see, may_see_all};
use super::problems::Problems;
use super::status::{Inputs, Status, status};
use super::survey::Survey;
use super::zones::{ZoneMap, zone_map};
use super::{PREFIX, Shared, Ui, objects};

/// The period of the events of a stream.
const EVENT_PERIOD: Duration = Duration::from_secs(2);

/// The most Services that a search returns.
const SERVICES: usize = 200;

/// The time within which a write under way usually ends.
const UNDER_WAY: Duration = Duration::from_secs(2);

/// The number of keys to read under one lock.
const STEP: usize = 500;

const JSON: &str = "application/json";

/// A request below `/ui`.
#[derive(Debug, PartialEq, Eq)]
enum Route {
    Redirect,
    Document,
    Status,
    Events,
    /// The Services whose `namespace/name` contains a text.
    Services(String),
    Service(ObjectKey),
}

impl Route {
    fn of(path: &str, query: &str) -> Option<Self> {
        let below = path.strip_prefix(PREFIX)?;
        let segments: Vec<&str> = below.split('/').skip(1).collect();
        Some(match (below, &segments[..]) {
            ("", _) => Self::Redirect,
            (_, [""]) => Self::Document,
            (_, ["api", "status"]) => Self::Status,
            (_, ["api", "events"]) => Self::Events,
            (_, ["api", "services"]) => Self::Services(parameter(query, "filter")),
            (_, ["api", "services", namespace, name]) if !namespace.is_empty() && !name.is_empty() => {
                Self::Service(ObjectKey::new(*namespace, *name))
            }
            _ => return None,
        })
    }
}

/// Returns the value of a query parameter, or an empty text.
fn parameter(query: &str, name: &str) -> String {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).next().unwrap_or_default();
    percent_decode_str(&value.replace('+', " ")).decode_utf8_lossy().into_owned()
}

impl PageHandler for Ui {
    fn answer(&self, request: PageRequest) -> BoxFuture<'static, PageAnswer> {
        let shared = Arc::clone(&self.shared);
        async move {
            let PageRequest { path, query, access } = request;
            match Route::of(&path, &query) {
                None => {
                    let message = format!("there is no page {path:?}; the status page is /ui/");
                    error_page(StatusCode::NOT_FOUND, "NotFound", &message)
                }
                Some(Route::Redirect) => {
                    let mut answer = page("text/plain; charset=utf-8", "");
                    *answer.status_mut() = StatusCode::PERMANENT_REDIRECT;
                    answer.headers_mut().insert(LOCATION, HeaderValue::from_static("/ui/"));
                    answer
                }
                Some(Route::Document) => shared.document.answer(),
                Some(Route::Status) => json_page(&shared.status(&access).await),
                Some(Route::Events) => event_stream(events(shared, access)),
                Some(Route::Services(filter)) => shared.services(&access, &filter).await,
                Some(Route::Service(key)) => shared.explain(&access, key).await,
            }
        }
        .boxed()
    }
}

/// Returns a stream that has a status at once and then every two seconds, until the shutdown
/// begins. The last status tells of the shutdown.
fn events(shared: Arc<Shared>, access: Access) -> stream::BoxStream<'static, Event> {
    let mut ticks = interval(EVENT_PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let state = (shared, access, ticks, false);
    stream::unfold(state, |(shared, access, mut ticks, ended)| async move {
        if ended {
            return None;
        }
        let mut shutting_down = shared.manager.shutting_down();
        tokio::select! {
            biased;
            // This cannot fail, because `shared` holds the sender.
            _ = shutting_down.wait_for(|is| *is) => {}
            _ = ticks.tick() => {}
        }
        let ended = shared.manager.is_shutting_down();
        let status = shared.status(&access).await;
        let data = json_text(&status).unwrap_or_default();
        Some((Event { name: "status", data: data.into() }, (shared, access, ticks, ended)))
    })
    .boxed()
}

/// Returns JSON that hides nothing from a reader, and changes no terminal.
fn json_text(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(harmless_json(&serde_json::to_string(value)?).into_owned())
}

fn json_page(value: &impl Serialize) -> PageAnswer {
    match json_text(value) {
        Ok(json) => page(JSON, json),
        Err(error) => {
            error_page(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &format!("no JSON: {error}"))
        }
    }
}

/// Runs long work on a thread for blocking work. Returns `None` if it panicked, or if the runtime
/// shuts down.
#[expect(
    clippy::disallowed_methods,
    reason = "a page is made for a client on a socket, which no run repeats"
)]
async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

impl Shared {
    async fn survey(self: &Arc<Self>) -> Option<Arc<Survey>> {
        let this = Arc::clone(self);
        let make = || {
            on_thread(move || {
                let slices = &this.options.slices;
                Survey::of(&this.manager.cluster(), &slices.manager, slices.max_endpoints_per_slice)
            })
        };
        self.survey.get(make).await
    }

    async fn problems(self: &Arc<Self>) -> Option<Arc<Problems>> {
        // Before the first lists, all outputs would seem to be missing.
        if !self.manager.has_synced() {
            return None;
        }
        let this = Arc::clone(self);
        let make = || {
            on_thread(move || {
                let (cluster, now) = (this.manager.cluster(), (this.clock)());
                let before = this.problems.last();
                Problems::of(&cluster, &this.options, objects::known(&cluster), now, before.as_deref())
            })
        };
        self.problems.get(make).await
    }

    async fn visible(&self, access: &Access, survey: Option<&Survey>) -> Option<Arc<Visible>> {
        let survey = survey?;
        self.readers.visible(access, || survey.namespaces.keys().cloned().collect()).await
    }

    async fn status(self: &Arc<Self>, access: &Access) -> Status {
        let (survey, problems) = tokio::join!(self.survey(), self.problems());
        let visible = self.visible(access, survey.as_deref()).await;
        let manager = &self.manager;
        let controllers = manager.ui_samples();
        let now = (self.clock)();
        let history = self.history.lock().view(self.sampling.now(), now);
        let leading = *manager.leading().borrow();
        status(Inputs {
            now,
            identity: &self.identity,
            synced: manager.has_synced(),
            leading,
            shutting_down: manager.is_shutting_down(),
            dry_run: manager.is_dry_run(),
            leader: manager.leader(),
            controllers: &controllers,
            history,
            survey: survey.as_deref(),
            visible: visible.as_deref(),
            problems: problems.as_deref(),
            max_endpoints_per_slice: self.options.slices.max_endpoints_per_slice,
        })
    }

    /// Answers with the Services whose `namespace/name` contains a text and that the reader may
    /// see.
    async fn services(self: &Arc<Self>, access: &Access, filter: &str) -> PageAnswer {
        let survey = self.survey().await;
        let Some(visible) = self.visible(access, survey.as_deref()).await else {
            let message = "which namespaces you may see is not known yet; try again in some seconds";
            return error_page(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message);
        };
        let cluster = self.manager.cluster();
        let filter = filter.to_lowercase();
        let (mut found, mut truncated) = (Vec::new(), false);
        let mut after = ObjectKey::default();
        'all: loop {
            let keys = cluster.services_after(&after, STEP);
            let Some(last) = keys.last() else { break };
            after = last.clone();
            for key in keys.iter().filter(|key| visible.shows(&key.namespace)) {
                if !key.to_string().contains(&filter) {
                    continue;
                }
                truncated = found.len() == SERVICES;
                if truncated {
                    break 'all;
                }
                found.push(json!({"namespace": &*key.namespace, "name": &*key.name}));
            }
        }
        json_page(&json!({"services": found, "truncated": truncated}))
    }

    /// Answers with the explanation of a Service.
    async fn explain(self: &Arc<Self>, access: &Access, key: ObjectKey) -> PageAnswer {
        // A reader may make up names of namespaces. The page asks the API server only about known
        // ones, and otherwise about all namespaces.
        let survey = self.survey().await;
        let is_known = survey.as_deref().is_none_or(|survey| survey.namespaces.contains_key(&key.namespace));
        let allowed = match is_known {
            true => may_see(access, &key.namespace).await,
            false => may_see_all(access).await,
        };
        match allowed {
            Ok(true) => {}
            Ok(false) => {
                // The answer is the same for an unknown namespace, so it does not tell whether the
                // namespace exists.
                let message = format!(
                    "you may not list EndpointSlices in the namespace {:?}, or it has no Service",
                    &*key.namespace
                );
                return error_page(StatusCode::FORBIDDEN, "Forbidden", &message);
            }
            Err(unanswered) => {
                let message = format!("cannot find out whether this is allowed: {unanswered}");
                return error_page(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &message);
            }
        }
        let not_made =
            || error_page(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "the explanation was not made");
        // The permit belongs to the work and not to the request: a client may give the request up
        // before the work has ended.
        let make = async || {
            let place = Arc::clone(&self.explaining).acquire_owned().await.ok()?;
            let (this, of) = (Arc::clone(self), key.clone());
            on_thread(move || {
                let made = this.explanation(&of);
                drop(place);
                made
            })
            .await
        };
        let mut made = make().await;
        let is_behind = made.as_ref().is_some_and(|made| made.as_ref().is_some_and(Explained::is_behind));
        if is_behind && !self.manager.is_dry_run() {
            // A write may be under way; then the caches show it soon. The permit is free meanwhile.
            tokio::time::sleep(UNDER_WAY).await;
            made = make().await;
        }
        match made {
            None => not_made(),
            Some(Some(explained)) => json_page(&explained),
            Some(None) => {
                let message = format!("there is no Service {key}, or it has not been listed yet");
                error_page(StatusCode::NOT_FOUND, "NotFound", &message)
            }
        }
    }

    fn explanation(&self, key: &ObjectKey) -> Option<Explained> {
        let cluster = self.manager.cluster();
        let known = objects::known_in(&cluster, &key.namespace);
        let (objects, nearby) = objects::of_service(&cluster, key, known)?;
        let options = self.options.clone().with_known(known);
        let topology = objects.topology(options.slices.topology_node_tolerance);
        let now = (self.clock)();
        let explanation = explain(&objects, key, &topology, now, Some(&nearby), &options)?;
        let zones = zone_map(objects.service(key)?, objects.slices_of(key), &cluster.nodes());
        let text = explanation.text(Layout::NARROW, now).render(Colors::Off);
        let notes = objects::notes(known, objects.service(key)?);
        Some(Explained { explanation, text, zones, notes })
    }
}

/// The answer about a Service.
#[derive(Serialize)]
struct Explained {
    explanation: Explanation,
    text: String,
    zones: ZoneMap,
    notes: Vec<String>,
}

impl Explained {
    fn is_behind(&self) -> bool {
        self.explanation.codes().into_iter().any(Code::may_be_under_way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_routed() {
        let check = |path: &str, query: &str, want: Option<Route>| {
            assert_eq!(Route::of(path, query), want, "{path}?{query}");
        };
        check("/ui", "", Some(Route::Redirect));
        check("/ui/", "", Some(Route::Document));
        check("/ui/api/status", "", Some(Route::Status));
        check("/ui/api/events", "x", Some(Route::Events));
        check("/ui/api/services", "", Some(Route::Services(String::new())));
        check("/ui/api/services", "a=b&filter=sh+o%2Fp&filter=x", Some(Route::Services("sh o/p".to_owned())));
        check("/ui/api/services/shop/web", "", Some(Route::Service(ObjectKey::new("shop", "web"))));
        for unknown in [
            "/ui/api",
            "/ui/api/",
            "/ui//",
            "/ui/api/status/",
            "/ui/api/services/",
            "/ui/api/services/shop",
            "/ui/api/services//web",
            "/ui/api/services/shop/",
            "/ui/api/services/shop/web/x",
            "/ui/../metrics",
        ] {
            check(unknown, "", None);
        }
    }
}
