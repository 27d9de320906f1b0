//! Tasks with names, so that an error names the task that ended.

use std::collections::HashMap;
use std::future::Future;

use tokio::task::{Id, JoinError, JoinSet};

use super::ManagerError;

/// Tasks that run until somebody tells them to end. Dropping it aborts them.
#[derive(Default)]
pub(super) struct NamedTasks {
    tasks: JoinSet<()>,
    names: HashMap<Id, String>,
}

/// A task that has ended.
pub(super) struct EndedTask {
    name: String,
    result: Result<(), JoinError>,
}

impl NamedTasks {
    /// Spawns a task.
    pub(super) fn spawn(&mut self, name: impl Into<String>, task: impl Future<Output = ()> + Send + 'static) {
        let id = self.tasks.spawn(task).id();
        self.names.insert(id, name.into());
    }

    /// Waits for the next task that ends. Returns `None` if there is no task left.
    ///
    /// Cancel safe.
    pub(super) async fn next_ended(&mut self) -> Option<EndedTask> {
        let ended = self.tasks.join_next_with_id().await?;
        let id = match &ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        let name = self.names.remove(&id).unwrap_or_default();
        Some(EndedTask { name, result: ended.map(|_| ()) })
    }

    /// Returns true if no task runs.
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Waits until all tasks have ended. Somebody must have told them to.
    ///
    /// # Errors
    ///
    /// If one panicked.
    pub(super) async fn all_ended(&mut self) -> Result<(), ManagerError> {
        while let Some(EndedTask { name, result }) = self.next_ended().await {
            if let Err(error) = result {
                return Err(failed(name, error));
            }
        }
        Ok(())
    }

    /// Aborts all tasks, and waits until they are gone.
    pub(super) async fn abort(&mut self) {
        self.tasks.shutdown().await;
        self.names.clear();
    }

    /// Returns the names of the tasks that have not ended, sorted.
    #[expect(clippy::disallowed_methods, reason = "the names are sorted")]
    pub(super) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.names.values().map(String::as_str).collect();
        names.sort_unstable();
        names
    }
}

impl EndedTask {
    /// Returns the error about a task that ended although nobody told it to.
    pub(super) fn unexpected(self) -> ManagerError {
        match self.result {
            Ok(()) => {
                tracing::error!(task = self.name, "a task ended unexpectedly; the process ends");
                ManagerError::TaskEnded { name: self.name }
            }
            Err(error) => failed(self.name, error),
        }
    }
}

fn failed(name: String, error: JoinError) -> ManagerError {
    tracing::error!(task = name, %error, "a task failed; the process ends");
    ManagerError::TaskFailed { name, error }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn an_error_names_the_task_that_ended_or_panicked() {
        let mut tasks = NamedTasks::default();
        tasks.spawn("informer of pods", pending());
        tasks.spawn("events", async {});
        let ended = tasks.next_ended().await.unwrap().unexpected();
        assert_eq!(ended.to_string(), "events ended unexpectedly");
        tasks.spawn("endpointslice controller", async { panic!("index out of bounds") });
        let failed = tasks.next_ended().await.unwrap().unexpected().to_string();
        assert!(failed.starts_with("endpointslice controller failed: "), "{failed}");
        assert!(failed.contains("index out of bounds"), "{failed}");
        assert_eq!(tasks.names(), ["informer of pods"]);
    }

    #[tokio::test]
    async fn tasks_that_were_told_to_end_may_end_but_not_panic() {
        let mut tasks = NamedTasks::default();
        tasks.spawn("first", async {});
        tasks.spawn("second", async {});
        tasks.all_ended().await.unwrap();
        assert!(tasks.next_ended().await.is_none());
        tasks.spawn("third", async { panic!("no") });
        assert!(
            matches!(tasks.all_ended().await, Err(ManagerError::TaskFailed { name, .. }) if name == "third")
        );
    }
}
