//! The slices of the controller that the Service has left stay, because those of the new one lack ready endpoints.

use super::about;

about! {
    /// A hand-over deletes the slices of the other controller when the new ones have a ready
    /// endpoint, and has no time limit: a mistyped label must not take a Service down. Until then
    /// endpoints whose pod is gone leave the old slices, those whose pod is not ready are unready,
    /// and none comes.
    EP093 "hand-over-held" Warning
    "The slices of the controller that the Service has left stay, because those of the new one lack ready endpoints."
}
