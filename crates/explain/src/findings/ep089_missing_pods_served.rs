//! Slices that are behind, or that nobody maintains, send clients to pods that do not exist any more.

use super::about;

about! {
    /// The slices are late (EP050), and hold ready endpoints of pods that are none of the
    /// Service's. Their addresses may belong to other pods by now. It is an error if no pod of the
    /// Service receives traffic, and if nobody maintains the slices: kube-controller-manager left
    /// them when the Service lost its selector, or the add-on when it got one.
    EP089 "missing-pods-served" Warning may_be_under_way
    "Slices that are behind, or that nobody maintains, send clients to pods that do not exist any more."
}
