//! The Service of an Endpoints object does not exist.

use super::about;

about! {
    /// The object has the label of the endpoints controller, which deletes such an object when its
    /// Service goes. Perhaps it did not run at that time. Or a user has copied the object and
    /// creates the Service later: `kubectl endpoints cleanup` tells who wrote it.
    EP058 "orphaned-endpoints" Warning
    "The Service of an Endpoints object does not exist."
}
