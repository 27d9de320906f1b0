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
        if let Some(version) = call.query.get("resourceVersion") {
            self.wait_for(parse_version(version, false)?).await?;
        }
        let key = call.key();
        let found = match older_by(&call.faults) {
            None => self.current(call.resource, &key),
            Some(versions) => {
                let store = self.store.lock();
                let table = store.table(Store::table_of(call.resource));
                let version = store.version().saturating_sub(versions).max(table.history.floor());
                table.at(version).ok().and_then(|objects| objects.get(&key).cloned())
            }
        };
        match found {
            Some(stored) => Ok(call.object(StatusCode::OK, &stored)),
            None => Err(Status::not_found(call.resource, &call.info.name)),
        }
    }
}
