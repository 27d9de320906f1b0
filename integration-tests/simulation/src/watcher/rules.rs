//! The rules that each write of a manager must follow, as functions of the write and the objects
//! before it.

use kube_endpoint_core_model::well_known::SELECTOR_CONTROLLER;
use serde_json::Value;

use super::positions::Position;
use super::world::{FROM_PODS, MIRRORED, Slice, World};
use crate::cluster::{FIELD_MANAGER, UPSTREAM};

/// The maximum number of endpoints of a subset, and of a mirrored slice.
const MOST_MIRRORED: usize = 1000;

/// A write of a manager that changed an object.
pub(crate) struct Write<'a> {
    pub(crate) plural: &'a str,
    pub(crate) user_agent: &'a str,
    /// The object before the write, or `None` for a create.
    pub(crate) previous: Option<&'a Value>,
    /// The object after the write, or `None` for a delete.
    pub(crate) object: Option<&'a Value>,
}

/// Checks that managers write only outputs and their own objects.
pub(crate) fn only_outputs(write: &Write<'_>) -> Result<(), String> {
    match write.plural {
        "endpoints" | "endpointslices" | "events" | "leases" => Ok(()),
        "endpointselectors" => match (write.previous, write.object) {
            (Some(before), Some(after)) if before["spec"] == after["spec"] => Ok(()),
            _ => Err("a manager wrote more of an EndpointSelector than its status".to_owned()),
        },
        other => Err(format!("a manager wrote {other}")),
    }
}

/// Returns the client other than a manager that owns what an object publishes, by its
/// managedFields, or `None` if no such client does.
pub(crate) fn writer_of_user(object: &Value) -> Option<&str> {
    let publishes =
        |fields: &Value| ["f:subsets", "f:endpoints", "f:ports"].iter().any(|it| !fields[it].is_null());
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let writers = entries.filter(|entry| publishes(&entry["fieldsV1"]));
    writers.filter_map(|entry| entry["manager"].as_str()).find(|it| ![FIELD_MANAGER, UPSTREAM].contains(it))
}

/// Checks that managers do not delete Endpoints that another client has written, whatever their
/// labels are, nor slices of a user that look like a controller's when their Service has lost its
/// selector.
pub(crate) fn nothing_of_users_deleted(write: &Write<'_>) -> Result<(), String> {
    let (Some(deleted), None) = (write.previous, write.object) else { return Ok(()) };
    let is_inherited =
        own_label(write.user_agent) != FROM_PODS && super::world::managed_by(deleted) == FROM_PODS;
    match writer_of_user(deleted).filter(|_| write.plural == "endpoints" || is_inherited) {
        Some(user) => Err(format!("{user} has written what was deleted")),
        None => Ok(()),
    }
}

/// Returns the `managed-by` label of the slices of a controller.
fn own_label(user_agent: &str) -> &'static str {
    if user_agent.contains("mirroring") {
        MIRRORED
    } else if user_agent.contains("endpoint-selector") {
        SELECTOR_CONTROLLER
    } else {
        FROM_PODS
    }
}

/// Checks that only the controller in a slice's label writes it.
pub(crate) fn own_slices_only(write: &Write<'_>) -> Result<(), String> {
    if write.plural != "endpointslices" {
        return Ok(());
    }
    let own = own_label(write.user_agent);
    for slice in [write.previous, write.object].into_iter().flatten() {
        let managed_by = super::world::managed_by(slice);
        // The mirroring and the endpoint selector controllers delete slices that a Service inherits
        // that has lost its selector.
        let is_inherited = own != FROM_PODS && managed_by == FROM_PODS && write.object.is_none();
        if managed_by != own && !is_inherited {
            return Err(format!("a slice that {managed_by:?} manages was written as {own}"));
        }
    }
    Ok(())
}

/// Checks that no slice gets more endpoints than the limit. A slice to which another client has
/// added some may keep them.
pub(crate) fn within_limit(write: &Write<'_>, slice_limit: usize) -> Result<(), String> {
    let Some(object) = write.object else { return Ok(()) };
    let count_of = |slice: &Value| slice["endpoints"].as_array().map_or(0, Vec::len);
    let count = count_of(object);
    let before = write.previous.map_or(0, count_of);
    let limit = if super::world::managed_by(object) == MIRRORED { MOST_MIRRORED } else { slice_limit };
    if write.plural != "endpointslices" || count <= limit.max(before) {
        return Ok(());
    }
    Err(format!("{count} endpoints, more than {limit}"))
}

/// Checks that a constantly ready pod does not disappear. `world` is the state after the write, and
/// `read` are the versions of pods, Services and nodes that its process had read when it made the
/// plan. Addresses that others have written are exempt.
pub(crate) fn no_ready_pod_disappears(
    world: &World,
    before: &Slice,
    after: Option<&Slice>,
    read: Position,
    is_edited: impl Fn(&str) -> bool,
) -> Result<(), String> {
    if before.managed_by != FROM_PODS {
        return Ok(());
    }
    let Some((service, service_since)) = world.services.get(&before.service) else { return Ok(()) };
    if service.is_deleting || service_since.version > read.services {
        return Ok(());
    }
    let serves =
        service.families.as_array().is_some_and(|it| it.iter().any(|it| it == before.family.as_str()));
    if !serves {
        return Ok(());
    }
    let holds = |slice: &Slice, address: &str| {
        slice.endpoints.iter().any(|endpoint| endpoint.address == address && endpoint.is_ready)
    };
    for endpoint in before.endpoints.iter().filter(|endpoint| endpoint.is_ready) {
        if is_edited(&endpoint.address) || after.is_some_and(|after| holds(after, &endpoint.address)) {
            continue;
        }
        let Some((pod, pod_since)) = endpoint.pod.as_ref().and_then(|key| world.pods.get(key)) else {
            continue;
        };
        let is_eligible = pod.uid == endpoint.uid
            && pod.is_ready
            && service.app.as_ref() == Some(&pod.app)
            && pod.addresses.contains(&endpoint.address);
        let node = world.nodes.get(&pod.node);
        let is_known = pod_since.version <= read.pods && node.is_some_and(|node| node.version <= read.nodes);
        if !is_eligible || !is_known {
            continue;
        }
        let elsewhere = world
            .slices_of(&before.service)
            .any(|slice| slice.family == before.family && holds(slice, &endpoint.address));
        if !elsewhere {
            let pod = endpoint.pod.as_deref().unwrap_or_default();
            return Err(format!("{pod} ({}) was ready all the time and is in no slice", endpoint.address));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::super::world::Since;
    use super::*;

    fn slice(manager: &str, endpoints: &[(&str, bool)]) -> Value {
        let endpoints: Vec<Value> = endpoints
            .iter()
            .map(|(pod, ready)| {
                json!({
                    "addresses": [format!("10.0.0.{pod}")], "conditions": {"ready": ready},
                    "targetRef": {"namespace": "default", "name": pod, "uid": format!("uid-{pod}")},
                })
            })
            .collect();
        json!({
            "metadata": {
                "name": "s0-x", "namespace": "default",
                "labels": {"kubernetes.io/service-name": "s0", "endpointslice.kubernetes.io/managed-by": manager},
            },
            "addressType": "IPv4", "ports": [], "endpoints": endpoints,
        })
    }

    fn pod(name: &str, ready: bool, app: &str) -> Value {
        json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "labels": {"app": app}},
            "spec": {"nodeName": "n0"},
            "status": {
                "phase": "Running", "podIPs": [{"ip": format!("10.0.0.{name}")}],
                "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
            },
        })
    }

    #[test]
    fn what_a_user_has_written_is_not_deleted() {
        let check = |plural, agent, manager: &str, field: &str, is_allowed: bool| {
            let entry = json!({"manager": manager, "fieldsV1": {field: {}}});
            let mut object = slice(FROM_PODS, &[]);
            object["metadata"]["managedFields"] =
                json!([{"manager": FIELD_MANAGER, "fieldsV1": {"f:ports": {}}}, entry]);
            let deleted = Write { plural, user_agent: agent, previous: Some(&object), object: None };
            assert_eq!(
                nothing_of_users_deleted(&deleted).is_ok(),
                is_allowed,
                "{plural} {agent} {manager} {field}"
            );
            let updated = Write { object: Some(&object), ..deleted };
            assert_eq!(nothing_of_users_deleted(&updated), Ok(()));
        };
        check("endpoints", "a1", "user", "f:subsets", false);
        check("endpoints", "a1", "user", "f:metadata", true);
        check("endpoints", "a1", FIELD_MANAGER, "f:subsets", true);
        check("endpointslices", MIRRORING, "user", "f:endpoints", false);
        check("endpointslices", "a1", "user", "f:endpoints", true);
    }

    const MIRRORING: &str = "endpointslice-mirroring-controller";

    #[track_caller]
    fn check_author(agent: &str, previous: Option<&Value>, object: Option<&Value>, allowed: bool) {
        let write = Write { plural: "endpointslices", user_agent: agent, previous, object };
        assert_eq!(own_slices_only(&write).is_ok(), allowed, "{agent}");
    }

    #[test]
    fn a_controller_writes_slices_with_its_label() {
        let [own, mirrored, other] = [FROM_PODS, MIRRORED, "another"].map(|manager| slice(manager, &[]));
        check_author("endpointslice-controller", None, Some(&own), true);
        check_author("endpointslice-controller", Some(&own), Some(&own), true);
        check_author("endpointslice-controller", Some(&mirrored), None, false);
        check_author("endpointslice-controller", Some(&other), Some(&own), false);
        check_author("endpointslice-controller", Some(&other), None, false);
        check_author(MIRRORING, None, Some(&mirrored), true);
        check_author(MIRRORING, Some(&own), None, true);
        check_author(MIRRORING, Some(&own), Some(&own), false);
        check_author(MIRRORING, Some(&other), None, false);
        let attached = slice(SELECTOR_CONTROLLER, &[]);
        let agent = "a1 kube-endpoint-manager/0.1.0 endpoint-selector-controller";
        check_author(agent, None, Some(&attached), true);
        check_author(agent, Some(&own), None, true);
        check_author(agent, Some(&own), Some(&attached), false);
        check_author(agent, Some(&mirrored), None, false);
        check_author(agent, Some(&other), None, false);
        check_author("endpointslice-controller", Some(&attached), None, false);
    }

    #[test]
    fn managers_write_no_inputs() {
        let write = |plural| Write { plural, user_agent: "", previous: None, object: None };
        assert!(only_outputs(&write("endpointslices")).is_ok());
        assert_eq!(only_outputs(&write("pods")).unwrap_err(), "a manager wrote pods");
    }

    #[test]
    fn a_slice_may_have_as_many_endpoints_as_the_limit() {
        let check = |manager: &str, limit: usize, allowed: bool| {
            let object = slice(manager, &[("1", true), ("2", true)]);
            let write =
                Write { plural: "endpointslices", user_agent: "", previous: None, object: Some(&object) };
            assert_eq!(within_limit(&write, limit).is_ok(), allowed, "{manager} {limit}");
        };
        check(FROM_PODS, 2, true);
        check(FROM_PODS, 1, false);
        check(MIRRORED, 1, true);
    }

    /// A world with a Service, a node and one pod, whose endpoint a write removes from the only
    /// slice or makes unready.
    struct Removal {
        pod: Value,
        families: Value,
        elsewhere: bool,
        read: u64,
        edited: &'static str,
    }

    impl Default for Removal {
        fn default() -> Self {
            Self {
                pod: pod("1", true, "a0"),
                families: json!(["IPv4"]),
                elsewhere: false,
                read: 9,
                edited: "10.0.0.2",
            }
        }
    }

    impl Removal {
        #[track_caller]
        fn check(self, allowed: bool) {
            let since = Since { version: 5, at: Duration::ZERO };
            let mut world = World::default();
            let service = json!({"spec": {"selector": {"app": "a0"}, "ipFamilies": self.families}});
            world.apply("services", "default/s0", Some(&service), since);
            world.apply("nodes", "n0", Some(&Value::Null), since);
            world.apply("pods", "default/1", Some(&self.pod), since);
            if self.elsewhere {
                world.apply(
                    "endpointslices",
                    "default/other",
                    Some(&slice(FROM_PODS, &[("1", true)])),
                    since,
                );
            }
            let before = Slice::of(&slice(FROM_PODS, &[("1", true)]));
            let all = self.read;
            let read = Position { pods: all, services: all, nodes: all, endpoints: all, selectors: all };
            for after in [None, Some(slice(FROM_PODS, &[])), Some(slice(FROM_PODS, &[("1", false)]))] {
                let after = after.as_ref().map(Slice::of);
                let outcome = no_ready_pod_disappears(&world, &before, after.as_ref(), read, |address| {
                    address == self.edited
                });
                assert_eq!(outcome.is_ok(), allowed, "{outcome:?} {after:?}");
            }
        }
    }

    #[test]
    fn a_ready_pod_that_is_in_no_slice_any_more_is_a_violation() {
        Removal::default().check(false);
        Removal { read: 5, ..Removal::default() }.check(false);
    }

    #[test]
    fn a_pod_may_be_removed_for_a_reason() {
        Removal { edited: "10.0.0.1", ..Removal::default() }.check(true);
        Removal { elsewhere: true, ..Removal::default() }.check(true);
        Removal { pod: pod("1", false, "a0"), ..Removal::default() }.check(true);
        Removal { pod: pod("1", true, "a1"), ..Removal::default() }.check(true);
        Removal { families: json!(["IPv6"]), ..Removal::default() }.check(true);
    }

    #[test]
    fn a_process_that_has_not_read_that_the_pod_is_ready_may_remove_it() {
        Removal { read: 4, ..Removal::default() }.check(true);
    }
}
