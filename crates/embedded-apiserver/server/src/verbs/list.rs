//! `list`: selects the state to return, in pages if requested, and encodes it while sending it.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kube_endpoint_apiserver_printers::represent::Encoding;
use kube_endpoint_apiserver_rules::resource::Resource;
use kube_endpoint_apiserver_rules::status::{Cause, Details, Status};
use serde_json::{Value, json};

use super::Call;
use crate::answer::{self, Answer};
use crate::body;
use crate::faults::older_by;
use crate::form::Form;
use crate::paging::Token;
use crate::query::{ListOptions, Match};
use crate::selection::Selection;
use crate::server::Inner;
use crate::store::{CowMap, Store, Stored};
use crate::watch_cache::WatchCaches;

/// The size in bytes of the chunks of an encoded list.
const CHUNK: usize = 64 * 1024;

/// How long a read waits for a version that does not exist yet, as upstream.
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

const INCONSISTENT: &str = "The provided continue parameter is too old to display a consistent list result. You can \
     start a new list without the continue parameter, or use the continue token in this response to retrieve the \
     remainder of the results. Continuing with the provided token results in an inconsistent list - objects that \
     were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// Returns 410: the version is older than the history.
pub(crate) fn expired(version: u64, oldest: u64) -> Status {
    Status::new(410, "Expired", format!("too old resource version: {version} ({oldest})"))
}

/// Returns 504: the requested version does not exist yet.
fn too_large(version: u64, current: u64) -> Status {
    let message = format!("Timeout: Too large resource version: {version}, current: {current}");
    let mut status = Status::new(504, "Timeout", message);
    status.details = Some(Box::new(Details {
        retry_after_seconds: 1,
        causes: vec![Cause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        }],
        ..Details::default()
    }));
    status
}

/// The state that a list returns.
struct Snapshot {
    objects: CowMap,
    version: u64,
    /// The key at which the page starts.
    start: String,
}

impl Inner {
    /// Waits until the watch cache of a table has reached a version, for a few seconds at most.
    pub(crate) async fn wait_for(
        &self,
        table: usize,
        caches: &WatchCaches,
        version: u64,
    ) -> Result<(), Status> {
        let deadline = tokio::time::Instant::now() + FRESHNESS_WAIT;
        loop {
            let (current, mut notifiers) = {
                let store = self.store.lock();
                let reached = caches.reached(table, store.version());
                (reached, store.tables().iter().map(|table| table.subscribe()).collect::<Vec<_>>())
            };
            if current >= version {
                return Ok(());
            }
            let any = futures::future::select_all(
                notifiers.iter_mut().map(|notifier| Box::pin(notifier.changed())),
            );
            let next = caches.next_arrival(table).map_or(deadline, |arrival| arrival.min(deadline));
            if tokio::time::timeout_at(next, any).await.is_err() && next == deadline {
                return Err(too_large(version, current));
            }
        }
    }

    async fn snapshot(
        &self,
        call: &Call<'_>,
        options: &ListOptions,
        prefix: &str,
    ) -> Result<Snapshot, Refused> {
        let table = Store::table_of(call.resource);
        if let Some(text) = &options.continue_token {
            if options.resource_version.is_some_and(|version| version > 0) {
                let message = "specifying resource version is not allowed when using continue";
                return Err(Status::bad_request(message).into());
            }
            let token = Token::decode(text)?;
            let store = self.store.lock();
            let start = format!("{prefix}{}", token.start);
            let Some(version) = token.version else {
                let objects = store.table(table).objects.clone();
                return Ok(Snapshot { objects, version: store.version(), start });
            };
            let objects = store.table(table).at(version).map_err(|_| Refused {
                status: Status::new(410, "Expired", INCONSISTENT),
                token: Some(Token { version: None, start: token.start }.encode()),
            })?;
            return Ok(Snapshot { objects, version, start });
        }
        let exact = match (options.resource_version, options.version_match) {
            (Some(version), Some(Match::Exact)) => Some(version),
            // A limit with a version but without resourceVersionMatch means exactly that version.
            (Some(version), None) if version > 0 && options.limit.is_some() => Some(version),
            _ => None,
        };
        // A list of an exact version, as one of the latest, does not come from the cache.
        let current = WatchCaches::default();
        let is_cached = exact.is_none() && options.resource_version.is_some();
        let caches = if is_cached { call.caches } else { &current };
        if let Some(version) = options.resource_version {
            self.wait_for(table, caches, version).await?;
        }
        let store = self.store.lock();
        let cached = caches.reached(table, store.version());
        let version = match (exact, older_by(&call.faults)) {
            (Some(version), _) => version,
            (None, Some(versions)) => cached.saturating_sub(versions).max(store.table(table).history.floor()),
            (None, None) => cached,
        };
        let objects = store.table(table).at(version).map_err(|too_old| expired(version, too_old.oldest))?;
        Ok(Snapshot { objects, version, start: prefix.to_owned() })
    }

    /// Lists objects.
    pub(crate) async fn list(&self, call: &Call<'_>) -> Result<Answer, Status> {
        match self.page(call).await {
            Ok((metadata, objects)) => encode(call.resource, call.form, &metadata, objects),
            Err(refused) => refused.into_answer(call.form.encoding),
        }
    }

    /// Returns the metadata and the objects of a list, or of one page of it.
    pub(super) async fn page(&self, call: &Call<'_>) -> Result<(Value, Objects), Refused> {
        let options = ListOptions::read(&call.query, false)?;
        let selection = Selection::parse(call.resource, &call.info.namespace, &options)?;
        let snapshot = self.snapshot(call, &options, &selection.prefix).await?;
        let mut metadata = json!({"resourceVersion": snapshot.version.to_string()});
        // The real server ignores the limit for lists that it may serve from the cache.
        let limit = options.limit.filter(|_| options.resource_version != Some(0));
        let mut cursor = snapshot.objects.cursor(&snapshot.start, &selection.prefix);
        let Some(limit) = limit else {
            let objects: Objects = if selection.is_plain() {
                Box::new(cursor)
            } else {
                Box::new(cursor.filter(move |object| selection.matches(object)))
            };
            return Ok((metadata, objects));
        };
        let mut matching = cursor.by_ref().filter(|object| selection.matches(object));
        let page: Vec<_> = matching.by_ref().take(limit).collect();
        if let (Some(_), Some(last)) = (matching.next(), page.last()) {
            let start = format!("{}\0", &last.key[selection.prefix.len()..]);
            metadata["continue"] = Token { version: Some(snapshot.version), start }.encode().into();
            if selection.is_plain() {
                let end = format!("{}\u{10ffff}", selection.prefix);
                let rest = snapshot.objects.rank(&end) - snapshot.objects.rank(&snapshot.start);
                let remaining = rest - page.len();
                metadata["remainingItemCount"] = remaining.into();
            }
        }
        Ok((metadata, Box::new(page.into_iter())))
    }
}

/// The objects of a list, in the order of their keys.
type Objects = Box<dyn Iterator<Item = Arc<Stored>> + Send>;

/// The error of a list.
pub(super) struct Refused {
    status: Status,
    /// A token to continue the list from the latest state.
    token: Option<String>,
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self { status, token: None }
    }
}

impl Refused {
    pub(super) fn into_answer(self, encoding: Encoding) -> Result<Answer, Status> {
        let Some(token) = self.token else { return Err(self.status) };
        let mut body = self.status.to_json();
        body["metadata"]["continue"] = token.into();
        Ok(answer::object(encoding, http::StatusCode::GONE, &body))
    }
}

/// Returns the response of a list: one buffer if it is small, otherwise a stream of chunks that it
/// encodes while sending.
pub(crate) fn encode(
    resource: &'static Resource,
    form: Form,
    metadata: &Value,
    objects: impl Iterator<Item = Arc<Stored>> + Send + 'static,
) -> Result<Answer, Status> {
    if form.encoding == Encoding::Protobuf {
        return form.protobuf_list(resource, metadata, objects);
    }
    let mut objects = objects.peekable();
    if objects.peek().is_none()
        && let Some(list) = form.empty_list(resource, metadata)
    {
        return Ok(answer::encoded(form.encoding, http::StatusCode::OK, list));
    }
    let mut chunks = Chunks {
        head: Some(form.list_head(resource, metadata)),
        objects,
        resource,
        form,
        done: false,
        first: true,
    };
    let first = chunks.next().unwrap_or_default();
    Ok(if chunks.done {
        answer::encoded(form.encoding, http::StatusCode::OK, first)
    } else {
        let all = std::iter::once(first).chain(chunks);
        answer::stream(form.encoding.media_type(), body::stream(futures::stream::iter(all.map(Ok))))
    })
}

struct Chunks<I: Iterator> {
    head: Option<String>,
    objects: std::iter::Peekable<I>,
    resource: &'static Resource,
    form: Form,
    done: bool,
    first: bool,
}

impl<I: Iterator<Item = Arc<Stored>>> Iterator for Chunks<I> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        let mut chunk = BytesMut::with_capacity(4096);
        if let Some(head) = self.head.take() {
            chunk.extend_from_slice(head.as_bytes());
        }
        while chunk.len() < CHUNK {
            let Some(object) = self.objects.next() else { break };
            if !std::mem::take(&mut self.first) {
                chunk.extend_from_slice(b",");
            }
            self.form.write_item(self.resource, &object, &mut chunk);
        }
        if self.objects.peek().is_none() {
            chunk.extend_from_slice(b"]}");
            self.done = true;
        }
        Some(chunk.freeze())
    }
}
