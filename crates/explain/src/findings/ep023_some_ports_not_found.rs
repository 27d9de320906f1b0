//! The pod lacks some of the container ports that the Service asks for.


about! {
    /// The Service has several ports, and the pod has only some of them. It receives traffic at
    /// these, and the controller lists it in a slice for this set of ports. It is an error if no
    /// pod has a port: clients of this port get no answer.
    EP023 "some-ports-not-found" Warning
    "The pod lacks some of the container ports that the Service asks for."
}
