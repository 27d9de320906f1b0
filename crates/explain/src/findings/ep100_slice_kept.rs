//! A slice stays beside those of the EndpointSelector, because it is not certain that a controller made it.

use super::about;

about! {
    /// The Service names an EndpointSelector, and a slice has the label of kube-controller-manager,
    /// or is mirrored from Endpoints of this name. The add-on deletes what kube-controller-manager
    /// left, and this it keeps: another client wrote it for certain, or one whose name it does not
    /// know wrote it in the form of a controller. Nobody updates such a slice ([other
    /// distributions](compatibility.md#names-of-kube-controller-manager)).
    EP100 "slice-kept" Warning
    "A slice stays beside those of the EndpointSelector, because it is not certain that a controller made it."
}
