//! The pod should receive traffic, and no slice that the Service uses holds it as ready.


about! {
    /// The plan publishes the pod as ready, and no slice that the Service uses holds its address as
    /// ready. EP050 or EP034 gives the reason.
    EP028 "not-written" Info may_be_under_way
    "The pod should receive traffic, and no slice that the Service uses holds it as ready."
}
