//! The Service's selector matches no pod.

use super::about;

about! {
    /// No pod of the namespace has all labels of the selector. A Service selects pods of its own
    /// namespace. `explain` lists pods that differ in one label. They may belong to another
    /// program, or have another role, as followers do while no leader is elected, so the remedy
    /// sends clients to none of them. It depends on the label: a hash or a chart's version changes
    /// with each rollout; a program sets a role on its own pods, so that the pods without it are
    /// the first place to look at; and some programs have renamed their roles, such as `master` to
    /// `primary`. The private Service of a Knative revision has no pods while nobody sends
    /// requests, which is an info.
    EP030 "no-pod-matches" Error
    "The Service's selector matches no pod."
}
