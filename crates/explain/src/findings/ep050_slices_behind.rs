//! The slices differ from what they should be.

use super::about;

about! {
    /// The controllers would write slices now. Within 30 seconds of the newest change that is
    /// normal, and the severity is info. Later, it means that the controller does not run, has no
    /// leader, or fails to write. If a controller wrote slices of another Service less than two
    /// minutes ago, it runs, and the message says so. If no controller runs, the finding is
    /// [EP073](#ep073-cluster-unserved).
    ///
    /// If the controller's last event says that the API server refused a write, the message quotes
    /// it, the severity is error at once, and the advice is that of the reason: an admission
    /// webhook that refuses, or that cannot be asked; an admission policy; a ResourceQuota; a
    /// missing permission; credentials; an invalid field; another client that writes the same
    /// objects; an object that is too large; an overloaded API server; a full etcd; an API server
    /// that fails or does not answer. If the namespace is being deleted, the severity is info. The
    /// same holds for EP057. The manager's status page does not read events.
    EP050 "slices-behind" Error may_be_under_way
    "The slices differ from what they should be."
}
