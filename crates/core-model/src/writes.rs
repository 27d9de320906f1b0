//! The writes of a plan.

use std::sync::Arc;

use serde::Serialize;

/// The writes to objects of one kind that a plan asks for. A sync carries them out in this order:
/// creates, then updates, then deletes, each list front to back. It stops at the first write that
/// fails.
///
/// `Display` prints one line for each write, and below it, indented, the content of the object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Writes<T> {
    /// Objects to create. The API server names an object without a name from its `generateName`.
    pub create: Vec<T>,
    /// Objects to replace, with the name, uid and resource version of the existing object.
    pub update: Vec<T>,
    /// Objects to delete, as the cache shows them.
    pub delete: Vec<Arc<T>>,
}

impl<T> Default for Writes<T> {
    fn default() -> Self {
        Self { create: Vec::new(), update: Vec::new(), delete: Vec::new() }
    }
}

impl<T> Writes<T> {
    /// Returns true if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of writes.
    pub fn len(&self) -> usize {
        self.create.len() + self.update.len() + self.delete.len()
    }
}
