//! The Endpoints object has no room for the pod.


about! {
    /// An Endpoints object holds at most 1000 addresses. The controller leaves out the others,
    /// those that are not ready first. Slices hold all.
    EP025 "over-capacity" Info
    "The Endpoints object has no room for the pod."
}
