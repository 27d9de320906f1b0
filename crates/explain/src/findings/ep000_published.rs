//! Nothing is wrong: each pod that should be published is.

about! {
    /// Each selected pod that is ready is in a slice as ready, under all of the Service's ports.
    /// Findings of severity info do not change this verdict.
    EP000 "published" Info
    "Nothing is wrong: each pod that should be published is."
}
