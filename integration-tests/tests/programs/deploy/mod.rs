//! Compares `deploy/` and the pages about it with the program: permissions, flags, probes,
//! metrics. The harness ignores tests that render kustomizations if kubectl is missing, and those
//! that render the chart if Helm's renderer is.

mod addon;
mod alerts;
mod chart;
mod cluster_role;
mod dashboard;
mod evaluate;
mod image;
mod manifests;
mod metrics_page;
mod objects;
mod pages;
mod pods;
mod profile;
mod publish;
mod queries;
mod rbac;
mod release;
mod replicas;
mod turned_off;
mod webhook;
mod workflows;

use kube_endpoint_integration_tests::programs::Tests;
use kube_endpoint_integration_tests::{programs, tests};

pub(crate) fn tests() -> Vec<Tests> {
    vec![
        tests!(programs::nothing =>
            chart::the_metadata_is_the_workspaces,
            chart::the_objects_are_valid_with_other_values,
            chart::the_readme_has_all_values,
            chart::the_record_is_of_these_files,
            chart::the_schema_leaves_no_object_open,
            evaluate::expressions_are_evaluated,
            image::the_compiler_is_that_of_the_workspace,
            image::the_build_context_has_all_members_of_the_workspace,
            objects::a_misspelt_field_and_a_wrong_type_are_found,
            objects::every_object_of_an_example_is_valid,
            pages::every_metric_in_the_table_exists,
            queries::tests::mistakes_are_found,
            turned_off::kubeadm,
            turned_off::k3s,
            turned_off::hand_over,
            turned_off::pages,
            webhook::a_manager_that_runs_writes_the_endpoints_that_the_webhook_waits_for,
            workflows::actions_are_pinned_and_steps_are_short,
            workflows::tokens_may_only_read_unless_a_job_needs_more,
            workflows::files_and_options_exist,
        ),
        tests!(release::files =>
            release::archives_are_sorted_with_one_owner_and_the_time_of_the_commit,
            release::chart_and_kustomizations_install_the_image,
            release::every_file_has_its_sum,
            release::the_archives_have_programs_that_run_pages_and_completions,
            release::the_bill_of_materials_lists_the_crates_of_the_program,
            release::the_image_is_what_its_digests_say,
            release::the_krew_manifest_has_the_sums_of_the_archives,
        ),
        tests!(programs::bash_git_and_jq =>
            publish::the_steps_are_in_order_and_what_is_good_is_called_so,
            publish::faults_are_found,
            publish::an_index_says_which_names_are_taken,
            publish::other_options_and_changed_files_are_refused,
        ),
        tests!(programs::bash_and_awk =>
            profile::the_program_is_built_runs_and_is_built_again,
            profile::flags_are_those_of_both_builds,
            profile::what_is_wrong_is_said,
        ),
        tests!(programs::helm =>
            chart::each_value_changes_the_output,
            chart::the_example_is_what_its_test_reads,
            chart::the_output_is_as_recorded,
            chart::wrong_values_and_other_namespaces_are_refused,
        ),
        tests!(programs::kubectl_that_renders =>
            addon::every_request_is_allowed_and_every_permission_is_used,
            addon::rights_in_other_namespaces_are_not_granted,
            addon::the_arguments_are_those_of_an_add_on,
            addon::the_rule_for_endpoints_can_be_left_out,
            addon::users_of_view_and_edit_have_the_selectors,
            alerts::every_expression_names_metrics_that_exist,
            alerts::every_alert_has_a_severity_and_texts_and_nothing_unknown,
            alerts::every_alert_has_a_section_that_says_what_to_do,
            alerts::no_alert_fires_behind_a_reserved_lease,
            alerts::no_leader_fires_when_nobody_holds_the_lease_or_it_cannot_be_read,
            alerts::no_alert_but_that_of_two_leaders_fires_when_one_leads,
            alerts::those_of_endpoint_selectors_fire,
            chart::the_definition_is_no_part_of_the_add_on,
            chart::the_objects_are_those_of_the_kustomizations,
            cluster_role::every_request_is_allowed_and_every_permission_is_used,
            cluster_role::exemptions_are_permissions_that_exist,
            cluster_role::a_missing_permission_and_an_unused_one_are_found,
            dashboard::every_query_names_metrics_that_exist,
            dashboard::panels_have_their_own_ids_and_places,
            image::the_tag_in_the_manifests_is_the_version,
            image::the_image_has_the_user_and_the_port_of_the_pods,
            objects::every_object_is_valid,
            objects::every_object_has_its_namespace_and_the_name_label,
            pages::every_permission_is_listed,
            pods::the_program_accepts_the_arguments_of_each_pod,
            pods::the_first_replica_reserves_the_lease,
            pods::probes_and_ports_are_those_that_are_served,
            pods::the_service_selects_the_pods_and_their_port,
            pods::the_pods_differ_only_in_how_they_reach_the_api_server,
            pods::a_pod_is_unprivileged_and_cannot_change_its_image,
            pods::a_pod_needs_nothing_that_needs_endpoints,
            pods::a_static_pod_refers_to_no_api_object,
            pods::a_rollout_or_drain_takes_one_replica_at_a_time,
            pods::the_add_on_runs_on_any_node_and_always_has_a_standby,
        ),
    ]
}
