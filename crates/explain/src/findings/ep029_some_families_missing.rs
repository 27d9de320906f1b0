//! The pod has an address of one of the Service's IP families only.


about! {
    /// A dual-stack Service has slices of both families. This pod is in those of one family, so
    /// clients that use the other family do not reach it.
    EP029 "some-families-missing" Warning
    "The pod has an address of one of the Service's IP families only."
}
