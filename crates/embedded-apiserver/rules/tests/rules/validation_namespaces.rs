//! Tests the validation of Namespaces.

use super::{assert_invalid, assert_invalid_status_update};

#[test]
fn namespaces() {
    assert_invalid(
        "Namespace",
        r#"{"spec": {"finalizers": ["mine"]}}"#,
        &[
            r#"Invalid spec.finalizers: Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified"#,
        ],
    );
    assert_invalid_status_update(
        "Namespace",
        "{}",
        r#"{"status": {"phase": "Terminating"}}"#,
        &[
            r#"Invalid status.Phase: Invalid value: "Terminating": may only be 'Active' if `deletionTimestamp` is empty"#,
        ],
    );
}
