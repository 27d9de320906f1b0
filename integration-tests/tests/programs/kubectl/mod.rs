//! Tests kubectl with the embedded server, and with the manager's `--embedded`. The tests need a
//! kubectl of version 1.20 or later: the one in `KUBECTL` or in `PATH`, for example from Debian's
//! package `kubernetes-client`. The harness ignores them if it is missing.

mod common;
mod described;
mod embedded;
mod everyday;
mod examples;
#[path = "../../../../crates/explain/tests/fault_manifests.rs"]
mod fault_manifests;
mod faults;
mod forms;
#[path = "../../../../crates/explain/tests/generated.rs"]
mod generated;
mod mistakes;
mod rendered;

use kube_endpoint_integration_tests::programs::Tests;
use kube_endpoint_integration_tests::{programs, tests};

pub(crate) fn tests() -> Vec<Tests> {
    let embedded = tests!(embedded::needs =>
        embedded::the_commands_of_the_documentation_work_as_written,
        embedded::a_range_of_the_user_is_that_of_services,
        embedded::the_plugin_finds_the_page,
    );
    vec![
        embedded,
        tests!(programs::kubectl =>
            described::the_comparison_with_describe_is_current,
            everyday::discovery_commands,
            everyday::objects_are_created_and_shown,
            everyday::objects_are_applied_and_changed,
            everyday::objects_are_deleted,
            everyday::changes_are_watched,
            examples::the_examples_of_leaders_are_accepted,
            faults::the_examples_of_faults_are_accepted,
            forms::every_kind_in_every_output_format,
            forms::every_kind_is_described,
            forms::objects_are_edited,
            forms::manifests_are_applied_compared_and_deleted,
            forms::nodes_are_cordoned_and_tainted,
            mistakes::common_mistakes,
            mistakes::invalid_manifests,
            mistakes::unsupported_operations,
            rendered::a_server_takes_what_is_rendered,
        ),
    ]
}
