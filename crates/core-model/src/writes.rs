//! What a plan writes.

use std::sync::Arc;

use serde::Serialize;

/// The writes to objects of one kind that a plan asks for, in the order in which they are carried
/// out: creates, then updates, then deletes, each list front to back. The first write that fails
/// ends the list: the writes after it are not tried in that sync.
///
/// `Display` prints one line for each write, followed by the content of what is written, indented.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Writes<T> {
    /// Objects to create. An object without a name is named from its `generateName`.
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
