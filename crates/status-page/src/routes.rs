//! Answers requests for the page, its data, its stream, and the explanation of a Service.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use http::header::LOCATION;
use http::{HeaderValue, StatusCode};
use kube_endpoint_core_model::{ObjectKey, harmless_json};
use kube_endpoint_explain::Explanation;
use kube_endpoint_explain::text::{Colors, Layout};
use kube_endpoint_explain_reader::{Explained, ReadError};
use kube_endpoint_serving::{
    Access, Event, PageAnswer, PageHandler, PageRequest, error_page, event_stream, page,
};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use crate::zones::{ZoneMap, zone_map};
use crate::{Inner, Overview, PREFIX, Refusal, StatusPage};

/// The period of the events of a stream.
const EVENT_PERIOD: Duration = Duration::from_secs(2);

/// The most Services that a search returns.
const SERVICES: usize = 200;

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

impl<O: Overview> PageHandler for StatusPage<O> {
    fn answer(&self, request: PageRequest) -> BoxFuture<'static, PageAnswer> {
        let inner = Arc::clone(&self.inner);
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
                Some(Route::Document) => inner.document.answer(),
                Some(Route::Status) => json_page(&inner.overview.status(&access).await),
                Some(Route::Events) => event_stream(events(inner, access)),
                Some(Route::Services(filter)) => inner.services(&access, &filter).await,
                Some(Route::Service(key)) => inner.explain(&access, &key).await,
            }
        }
        .boxed()
    }
}

/// Returns a stream that has a status at once and then every two seconds, until the shutdown
/// begins. The last status tells of the shutdown.
fn events<O: Overview>(inner: Arc<Inner<O>>, access: Access) -> stream::BoxStream<'static, Event> {
    let mut ticks = interval(EVENT_PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let state = (inner, access, ticks, false);
    stream::unfold(state, |(inner, access, mut ticks, ended)| async move {
        if ended {
            return None;
        }
        let ended = tokio::select! {
            biased;
            () = inner.overview.shut_down() => true,
            _ = ticks.tick() => false,
        };
        let status = inner.overview.status(&access).await;
        let data = json_text(&status).unwrap_or_default();
        Some((Event { name: "status", data: data.into() }, (inner, access, ticks, ended)))
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

impl<O: Overview> Inner<O> {
    /// Answers with the Services whose `namespace/name` contains a text and that the reader may
    /// see.
    async fn services(&self, access: &Access, filter: &str) -> PageAnswer {
        match self.overview.services(access, &filter.to_lowercase(), SERVICES + 1).await {
            Err(refusal) => refusal.answer(),
            Ok(mut found) => {
                let truncated = found.len() > SERVICES;
                found.truncate(SERVICES);
                let key = |key: &ObjectKey| json!({"namespace": &*key.namespace, "name": &*key.name});
                let found: Vec<_> = found.iter().map(key).collect();
                json_page(&json!({"services": found, "truncated": truncated}))
            }
        }
    }

    /// Answers with the explanation of a Service.
    async fn explain(&self, access: &Access, key: &ObjectKey) -> PageAnswer {
        if let Err(refusal) = self.overview.may_explain(access, &key.namespace).await {
            return refusal.answer();
        }
        // Nobody closes the semaphore.
        let _place = self.explaining.acquire().await;
        match self.reader.explain_service(key, &self.options, &*self.clock).await {
            Ok(explained) => json_page(&Answer::new(explained, key, &self.overview)),
            Err(error @ ReadError::NotFound(_)) => {
                error_page(StatusCode::NOT_FOUND, "NotFound", &error.to_string())
            }
            Err(error) => {
                let message = kube_endpoint_core_model::causes(&error);
                error_page(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &message)
            }
        }
    }
}

impl Refusal {
    fn answer(self) -> PageAnswer {
        match self {
            Self::Forbidden(message) => error_page(StatusCode::FORBIDDEN, "Forbidden", &message),
            Self::NotKnownYet(message) => {
                error_page(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", &message)
            }
            Self::Failed(message) => error_page(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &message),
        }
    }
}

/// The answer about a Service.
#[derive(Serialize)]
struct Answer {
    explanation: Explanation,
    text: String,
    zones: Option<ZoneMap>,
    notes: Vec<String>,
}

impl Answer {
    fn new(explained: Explained, key: &ObjectKey, overview: &impl Overview) -> Self {
        let Explained { explanation, objects, at } = explained;
        let zones = objects.service(key).map(|service| {
            zone_map(service, objects.slices_of(key), &overview.nodes().unwrap_or_else(|| objects.nodes()))
        });
        let text = explanation.text(Layout::NARROW, at).render(Colors::Off);
        let notes = explanation.not_read.clone();
        Self { explanation, text, zones, notes }
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
