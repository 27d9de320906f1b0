//! The kube-endpoint-manager binary.
fn main() {}
