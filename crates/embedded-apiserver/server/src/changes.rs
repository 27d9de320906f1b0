//! Reports changes of the store to observers in the same process.

use kube_endpoint_apiserver_rules::resource::Resource;
use serde_json::Value;

use crate::store::{Event, EventKind, resource_of_table};

/// The kind of a change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

/// One change of the store, with the object before and after it.
#[derive(Debug)]
pub struct StoreChange<'a> {
    table: usize,
    event: &'a Event,
}

/// A function that the store calls with each change.
pub(crate) type ChangeObserver = Box<dyn Fn(&StoreChange<'_>) + Send + Sync>;

impl<'a> StoreChange<'a> {
    pub(crate) fn new(table: usize, event: &'a Event) -> Self {
        Self { table, event }
    }

    /// Returns the resource in whose version the object is stored.
    pub fn resource(&self) -> &'static Resource {
        resource_of_table(self.table)
    }

    /// Returns the type of the change.
    pub fn kind(&self) -> ChangeKind {
        match self.event.kind {
            EventKind::Added => ChangeKind::Added,
            EventKind::Modified => ChangeKind::Modified,
            EventKind::Deleted => ChangeKind::Deleted,
        }
    }

    /// Returns the resource version of the change.
    pub fn version(&self) -> u64 {
        self.event.version
    }

    /// Returns the object's namespace, which is empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.event.object.namespace()
    }

    /// Returns the object's name.
    pub fn name(&self) -> &str {
        self.event.object.name()
    }

    /// Returns the object after the change, or, after a deletion, its last state with the version
    /// of the deletion.
    pub fn object(&self) -> Value {
        self.event.object.value()
    }

    /// Returns the object before the change, or `None` after a create.
    pub fn previous(&self) -> Option<Value> {
        self.event.previous.as_ref().map(|object| object.value())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::json;

    use super::*;
    use crate::EmbeddedApiServer;

    #[test]
    fn an_observer_sees_each_change_in_the_order_of_versions_but_no_initial_object() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let pod = |name: &str, node: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": node}});
        let observer = {
            let seen = Arc::clone(&seen);
            move |change: &StoreChange<'_>| {
                let node = |pod: &Value| pod["spec"]["nodeName"].as_str().unwrap().to_owned();
                let line = format!(
                    "{:?} {} {}/{} {:?} -> {}",
                    change.kind(),
                    change.resource().plural,
                    change.namespace(),
                    change.name(),
                    change.previous().as_ref().map(node),
                    node(&change.object())
                );
                seen.lock().unwrap().push((change.version(), line));
            }
        };
        let server = EmbeddedApiServer::builder().load([pod("a", "n1")]).on_change(observer).build().unwrap();
        server.load([pod("a", "n2"), pod("b", "n3")]).unwrap();
        let seen = seen.lock().unwrap();
        let lines: Vec<&str> = seen.iter().map(|(_, line)| line.as_str()).collect();
        assert_eq!(
            lines,
            [r#"Modified pods default/a Some("n1") -> n2"#, r#"Added pods default/b None -> n3"#]
        );
        assert!(seen[0].0 < seen[1].0);
    }
}
