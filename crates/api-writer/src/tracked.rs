//! Writes that are tracked: the writer tells the tracker before and after each, so that echoes are known and a cache that
//! has not caught up is noticed.

use std::fmt;

use kube_endpoint_core_model::{ObjectKey, Writes};
use kube_endpoint_tracker::{CachePosition, WriteTracker};

use crate::error::WriteError;
use crate::name_generator::NameGenerator;
use crate::writer::{ApiWriter, Writable, Written};

/// A writer and what it has written. One for each controller.
#[derive(Debug)]
pub struct TrackedWriter {
    writer: ApiWriter,
    tracker: WriteTracker,
    names: NameGenerator,
}

/// The kind of a write, as the `operation` label of metrics has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// Another state of an object.
    Update,
    /// An object less.
    Delete,
}

impl Operation {
    /// `create`, `update` or `delete`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

/// The write at which carrying out a plan ended, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedWrite {
    /// What was tried.
    pub operation: Operation,
    /// On which object; for creates, under the name that was tried.
    pub object: ObjectKey,
    /// What came of it.
    pub error: WriteError,
}

impl fmt::Display for FailedWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed to {} {}: {}", self.operation.as_str(), self.object, self.error)
    }
}

impl TrackedWriter {
    /// A writer that has written nothing yet; the seed is that of the names that it makes.
    pub fn new(writer: ApiWriter, seed: u64) -> Self {
        Self { writer, tracker: WriteTracker::default(), names: NameGenerator::new(seed) }
    }

    /// What it has written.
    pub fn tracker(&self) -> &WriteTracker {
        &self.tracker
    }

    /// The writer below, for requests that need no tracking.
    pub fn writer(&self) -> &ApiWriter {
        &self.writer
    }

    /// Carries writes out in order, up to the first that fails. `position` is where the cache stands when asked; `done` hears
    /// of each write that succeeded. Returns whether somebody else changed an object in the meantime, so that the owner
    /// must be synced again.
    ///
    /// # Errors
    ///
    /// The first write that failed.
    pub async fn carry_out<T: Writable>(
        &self,
        owner: &ObjectKey,
        writes: Writes<T>,
        position: impl Fn() -> CachePosition,
        mut done: impl FnMut(Operation),
    ) -> Result<bool, FailedWrite> {
        let mut foreign = false;
        for object in writes.create {
            foreign |= self.create_named(owner, object, &position).await?;
            done(Operation::Create);
        }
        for object in &writes.update {
            foreign |= self.update(owner, object, &position).await?.1;
            done(Operation::Update);
        }
        for object in &writes.delete {
            let metadata = object.metadata();
            self.delete::<T>(owner, &metadata.key(), &metadata.uid).await?;
            done(Operation::Delete);
        }
        Ok(foreign)
    }

    /// Creates an object; one without a name is named from its `generateName`.
    async fn create_named<T: Writable>(
        &self,
        owner: &ObjectKey,
        mut object: T,
        position: impl Fn() -> CachePosition,
    ) -> Result<bool, FailedWrite> {
        if !object.metadata().name.is_empty() {
            return self.create(owner, &object, &position).await.map(|(_, foreign)| foreign);
        }
        let lost = self.tracker.take_unresolved(owner);
        let metadata = object.metadata_mut();
        metadata.name = lost.unwrap_or_else(|| self.names.generate_name(&metadata.generate_name));
        let key = metadata.key();
        match self.create(owner, &object, &position).await {
            Ok((_, foreign)) => Ok(foreign),
            Err(FailedWrite { error: WriteError::AlreadyExists(message), .. }) => {
                // Most likely the create whose answer was lost. Only the server knows which version the cache has to
                // wait for; the sync then begins anew with what is there.
                let failed = |error| FailedWrite { operation: Operation::Create, object: key.clone(), error };
                self.tracker.begin(&key);
                match self.writer.get::<T>(&key).await {
                    Ok(found) => {
                        self.tracker.wrote(owner, &key, found.version(), position());
                        Err(failed(WriteError::AlreadyExists(message)))
                    }
                    Err(error) => {
                        self.tracker.failed(&key);
                        Err(failed(error))
                    }
                }
            }
            Err(failed) => Err(failed),
        }
    }

    /// Creates an object under the name that it carries. Returns what the server has made of it, and whether somebody
    /// else changed it in the meantime.
    ///
    /// # Errors
    ///
    /// The write, if it failed. When its outcome is not known the tracker remembers the name.
    pub async fn create<T: Writable>(
        &self,
        owner: &ObjectKey,
        object: &T,
        position: impl Fn() -> CachePosition,
    ) -> Result<(Written, bool), FailedWrite> {
        let key = object.metadata().key();
        self.tracker.begin(&key);
        match self.writer.create(object).await {
            Ok(written) => {
                let foreign = self.tracker.created(owner, &key, written.version(), position());
                Ok((written, foreign))
            }
            Err(error) => {
                if error.is_refusal() {
                    self.tracker.failed(&key);
                } else {
                    self.tracker.create_unresolved(owner, &key);
                }
                Err(FailedWrite { operation: Operation::Create, object: key, error })
            }
        }
    }

    /// Replaces an object. Returns what the server has made of it, and whether somebody else changed it in the meantime.
    ///
    /// # Errors
    ///
    /// The write, if it failed. One whose outcome is not known needs no care: if it was carried out, the next one is
    /// refused as a conflict until the cache has caught up.
    pub async fn update<T: Writable>(
        &self,
        owner: &ObjectKey,
        object: &T,
        position: impl Fn() -> CachePosition,
    ) -> Result<(Written, bool), FailedWrite> {
        let key = object.metadata().key();
        self.tracker.begin(&key);
        match self.writer.update(object).await {
            Ok(written) => {
                let foreign = self.tracker.wrote(owner, &key, written.version(), position());
                Ok((written, foreign))
            }
            Err(error) => {
                self.tracker.failed(&key);
                Err(FailedWrite { operation: Operation::Update, object: key, error })
            }
        }
    }

    /// Deletes an object; one that is gone already is as good.
    ///
    /// # Errors
    ///
    /// The write, if it failed.
    pub async fn delete<T: Writable>(
        &self,
        owner: &ObjectKey,
        key: &ObjectKey,
        uid: &kube_endpoint_core_model::Text,
    ) -> Result<(), FailedWrite> {
        self.tracker.begin(key);
        let mut deleted = self.writer.delete::<T>(key, Some(uid)).await;
        if let Err(WriteError::Conflict(_)) = deleted {
            // Most likely the name now belongs to an object of another uid, and ours is gone. But a webhook may say so too.
            match self.writer.get::<T>(key).await {
                Ok(found) if found.metadata.uid == *uid => {}
                Ok(_) => deleted = Ok(()),
                Err(error) => deleted = Err(error),
            }
        }
        match deleted {
            Ok(()) | Err(WriteError::NotFound(_)) => {
                self.tracker.deleted(owner, key, uid);
                Ok(())
            }
            Err(error) => {
                self.tracker.failed(key);
                Err(FailedWrite { operation: Operation::Delete, object: key.clone(), error })
            }
        }
    }
}

impl TrackedWriter {
    /// Deletes an object on condition that it is as it was seen; one that is gone already is as good.
    ///
    /// # Errors
    ///
    /// The write, if it failed; `Conflict` if the object has changed.
    pub async fn delete_unchanged<T: Writable>(
        &self,
        owner: &ObjectKey,
        object: &T,
    ) -> Result<(), FailedWrite> {
        let key = object.metadata().key();
        self.tracker.begin(&key);
        match self.writer.delete_unchanged(object).await {
            Ok(()) | Err(WriteError::NotFound(_)) => {
                self.tracker.deleted(owner, &key, &object.metadata().uid);
                Ok(())
            }
            Err(error) => {
                self.tracker.failed(&key);
                Err(FailedWrite { operation: Operation::Delete, object: key, error })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::RequestLimiter;
    use http::{Request, Response};
    use kube::client::Body;
    use kube_endpoint_core_model::{EndpointSlice, ObjectMeta, ResourceVersion};
    use std::sync::{Arc, Mutex};

    type Asked = Arc<Mutex<Vec<String>>>;

    /// A writer whose server gives these answers in turn.
    fn answering(answers: &[(u16, &str)]) -> (TrackedWriter, Asked) {
        let asked = Asked::default();
        let log = Arc::clone(&asked);
        let mut answers: Vec<(u16, String)> =
            answers.iter().map(|(code, body)| (*code, body.to_string())).collect();
        answers.reverse();
        let answers = Arc::new(Mutex::new(answers));
        let service = tower::service_fn(move |request: Request<Body>| {
            let line = format!("{} {}", request.method(), request.uri().path().rsplit('/').next().unwrap());
            log.lock().unwrap().push(line);
            let answer = answers.lock().unwrap().pop();
            async move {
                let (code, body) = answer.ok_or_else(|| std::io::Error::other("the connection broke"))?;
                Response::builder()
                    .status(code)
                    .body(Body::from(body.into_bytes()))
                    .map_err(std::io::Error::other)
            }
        });
        let writer = ApiWriter::new(
            kube_endpoint_api_client::ApiClient::for_tests(service),
            RequestLimiter::unlimited(),
            "test",
        );
        (TrackedWriter::new(writer, 1), asked)
    }

    fn owner() -> ObjectKey {
        ObjectKey::new("n", "web")
    }

    fn position(version: u64) -> CachePosition {
        CachePosition { epoch: 0, version: ResourceVersion(version) }
    }

    fn slice(name: &str) -> EndpointSlice {
        let metadata = ObjectMeta {
            name: name.into(),
            namespace: "n".into(),
            uid: format!("uid-{name}").into(),
            generate_name: "web-".into(),
            ..ObjectMeta::default()
        };
        EndpointSlice { metadata, ..EndpointSlice::default() }
    }

    async fn create_one(writer: &TrackedWriter) -> Result<bool, FailedWrite> {
        let writes = Writes { create: vec![slice("")], ..Writes::default() };
        writer.carry_out(&owner(), writes, || position(1), |_| ()).await
    }

    #[tokio::test]
    async fn creates_then_updates_then_deletes() {
        let (writer, asked) = answering(&[
            (201, r#"{"metadata":{"resourceVersion":"10"}}"#),
            (200, r#"{"metadata":{"resourceVersion":"11"}}"#),
            (200, "{}"),
        ]);
        let (update, delete) = (slice("b"), Arc::new(slice("c")));
        let writes = Writes { create: vec![slice("")], update: vec![update], delete: vec![delete] };
        let mut done = Vec::new();
        writer.carry_out(&owner(), writes, || position(1), |what| done.push(what.as_str())).await.unwrap();
        assert_eq!(done, ["create", "update", "delete"]);
        assert_eq!(*asked.lock().unwrap(), ["POST endpointslices", "PUT b", "DELETE c"]);
        assert!(writer.tracker().is_stale(&owner(), position(10), [&"uid-c".into()]));
        assert!(writer.tracker().is_stale(&owner(), position(11), [&"uid-c".into()]));
        assert!(!writer.tracker().is_stale(&owner(), position(11), []));
    }

    #[tokio::test]
    async fn the_first_failure_ends_it() {
        let (writer, asked) = answering(&[(409, r#"{"message":"changed"}"#)]);
        let (update, delete) = (slice("b"), Arc::new(slice("c")));
        let writes = Writes { create: vec![], update: vec![update], delete: vec![delete] };
        let failed = writer.carry_out(&owner(), writes, || position(1), |_| ()).await.unwrap_err();
        assert_eq!(failed.to_string(), "failed to update n/b: changed");
        assert_eq!(asked.lock().unwrap().len(), 1);
        assert!(writer.tracker().is_empty());
    }

    #[tokio::test]
    async fn a_create_whose_answer_was_lost_is_found_and_not_made_twice() {
        let (writer, asked) = answering(&[
            (500, r#"{"message":"lost"}"#),
            (409, r#"{"message":"there","reason":"AlreadyExists"}"#),
            (200, r#"{"metadata":{"resourceVersion":"10"}}"#),
        ]);
        assert!(!create_one(&writer).await.unwrap_err().error.is_refusal());
        let failed = create_one(&writer).await.unwrap_err();
        assert_eq!(failed.error, WriteError::AlreadyExists("there".into()));
        let found = format!("GET {}", failed.object.name);
        assert_eq!(*asked.lock().unwrap(), ["POST endpointslices", "POST endpointslices", &*found]);
        assert!(writer.tracker().is_stale(&owner(), position(9), []), "until the cache shows it");
        assert!(!writer.tracker().is_stale(&owner(), position(10), []));
    }

    #[tokio::test]
    async fn a_delete_of_what_is_gone_is_as_good() {
        let key = slice("c").key();
        const OURS: (u16, &str) = (200, r#"{"metadata":{"uid":"u"}}"#);
        const THEIRS: (u16, &str) = (200, r#"{"metadata":{"uid":"v"}}"#);
        let check = |answers: &'static [(u16, &'static str)], gone: bool| {
            let key = key.clone();
            async move {
                let (writer, _) = answering(answers);
                let deleted = writer.delete::<EndpointSlice>(&owner(), &key, &"u".into()).await;
                assert_eq!(deleted.is_ok(), gone, "{answers:?}");
                let waits = writer.tracker().is_stale(&owner(), position(9), [&"u".into()]);
                assert_eq!(waits, gone, "for the cache: {answers:?}");
            }
        };
        check(&[(404, "{}")], true).await;
        check(&[(409, "{}"), (404, "{}")], true).await;
        check(&[(403, "{}")], false).await;
        check(&[(409, "{}"), (500, "{}")], false).await;
        check(&[(409, "{}"), THEIRS], true).await;
        check(&[(409, "{}"), OURS], false).await;
    }
}
