//! The Service's selector matches no pod, and one of its labels is likely mistyped.

use super::about;

about! {
    /// One label of the selector has almost the same value in these pods: two letters are swapped,
    /// or one is wrong, missing or additional. Values that differ in a number, a word or a final
    /// `s`, such as `web` and `web-worker`, name different things; then the code is
    /// [EP030](#ep030-no-pod-matches). The pods that are meant may also be missing, so the remedy
    /// begins with them.
    EP031 "pods-nearly-match" Error
    "The Service's selector matches no pod, and one of its labels is likely mistyped."
}
