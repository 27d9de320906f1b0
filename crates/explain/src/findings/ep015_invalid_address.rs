//! The pod's address is not an IP address.


about! {
    /// An entry of the pod's `status.podIPs` is not an IP address. The API server would refuse a
    /// slice that contains it.
    EP015 "invalid-address" Error
    "The pod's address is not an IP address."
}
