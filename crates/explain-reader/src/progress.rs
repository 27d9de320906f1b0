//! Tells a person how far the reading of a long list is.

/// Shows how much of a list the reader has read. `()` shows nothing.
pub trait Progress: Send + Sync {
    /// Notes a page, after which another one follows. `read` is the number of objects so far;
    /// `remaining` is the server's estimate of the rest.
    fn page(&self, plural: &str, read: usize, remaining: Option<i64>);

    /// Notes the end of a list.
    fn end(&self);
}

impl Progress for () {
    fn page(&self, _: &str, _: usize, _: Option<i64>) {}

    fn end(&self) {}
}
