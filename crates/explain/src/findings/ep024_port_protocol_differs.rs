//! The pod has a container port of that name, but with another protocol.


about! {
    /// A container port has the name that the Service asks for. The controllers look a port up by
    /// name and protocol, so it does not count.
    EP024 "port-protocol-differs" Error
    "The pod has a container port of that name, but with another protocol."
}
