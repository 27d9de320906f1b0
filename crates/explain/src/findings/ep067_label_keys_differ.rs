//! The Service's selector matches no pod, and pods have its values under other labels.

use super::about;

about! {
    /// The pods have each value of the selector, some of them under another label that means the
    /// same: `app`, `k8s-app`, `name`, `run` and `app.kubernetes.io/name` name a program, `release`
    /// and `app.kubernetes.io/instance` an installation of it; two labels that differ in their
    /// prefix only mean the same, and so does a mistyped one. It is no finding if the pods have the
    /// label of the selector with another value, or if they are several parts of one program
    /// (`component`, `role`, `tier`). If a value is likely mistyped, the code is
    /// [EP031](#ep031-pods-nearly-match).
    EP067 "label-keys-differ" Error
    "The Service's selector matches no pod, and pods have its values under other labels."
}
