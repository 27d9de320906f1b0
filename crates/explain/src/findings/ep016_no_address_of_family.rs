//! The pod has no address of the Service's IP family.


about! {
    /// A slice has addresses of one IP family. The Service asks for a family in which the pod has
    /// no address. A Service cannot change its first family; create it again.
    EP016 "no-address-of-family" Error
    "The pod has no address of the Service's IP family."
}
