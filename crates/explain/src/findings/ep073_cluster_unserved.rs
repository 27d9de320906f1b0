//! No endpoint controller writes, so each changed Service waits for its slices.

use super::about;

about! {
    /// One finding stands for [EP050](#ep050-slices-behind) and [EP057](#ep057-endpoints-behind) of
    /// all Services that wait. `lint`, `top` and the status page decide it from the Services that
    /// they read: the slices of at least three Services of several namespaces, or of all Services,
    /// are late, and no controller has written any slice since these changed, nor tried to. The
    /// last writes are those in `metadata.managedFields`; where these are not known, a pod that a
    /// slice holds as ready shows that the slice was written after the pod became ready. If only
    /// one namespace or one Service waits, the cause is not the cluster's. A Lease of
    /// kube-controller-manager or kube-endpoint-manager that nobody has renewed for two minutes is
    /// enough for one Service: so `explain` finds it, too. The status page does not read Leases.
    EP073 "cluster-unserved" Error may_be_under_way
    "No endpoint controller writes, so each changed Service waits for its slices."
}
