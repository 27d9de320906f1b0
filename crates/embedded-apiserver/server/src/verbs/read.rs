//! `get`.

use http::StatusCode;
use kube_endpoint_apiserver_rules::status::Status;

use super::Call;
use crate::answer::Answer;
use crate::faults::older_by;
use crate::query::parse_version;
use crate::server::Inner;
use crate::store::Store;

impl Inner {
    /// Reads one object, at least as new as the requested version.
    pub(crate) async fn read(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let asked =
            call.query.get("resourceVersion").map(|version| parse_version(version, false)).transpose()?;
        let table = Store::table_of(call.resource);
        if let Some(version) = asked {
            self.wait_for(table, call.caches, version).await?;
        }
        let key = call.key();
        let found = if let (None, None) = (asked, older_by(&call.faults)) {
            self.current(call.resource, &key)
        } else {
            let store = self.store.lock();
            let cached = asked.map_or(store.version(), |_| call.caches.reached(table, store.version()));
            let version = cached.saturating_sub(older_by(&call.faults).unwrap_or_default());
            let table = store.table(table);
            let objects = table.at(version.max(table.history.floor()));
            objects.ok().and_then(|objects| objects.get(&key).cloned())
        };
        match found {
            Some(stored) => Ok(call.object(StatusCode::OK, &stored)),
            None => Err(Status::not_found(call.resource, &call.info.name)),
        }
    }
}
