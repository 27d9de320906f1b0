//! The rules that no output loses a constantly published address, and that managers write no
//! outputs of users. Each is a function of the write, the objects before it, and the position that
//! its process had read.

use std::collections::BTreeSet;

use serde_json::Value;

use super::positions::Position;
use super::rules::Write;
use super::world::{FROM_PODS, MIRRORED, Slice, World};
use crate::cluster::text;

/// The maximum number of addresses of Endpoints. Beyond it the rules about addresses do not hold.
const MOST_ADDRESSES: usize = 1000;

/// Checks that managers do not write Endpoints of a Service without a selector, and at most delete
/// those without a Service.
pub(crate) fn endpoints_of_users_untouched(
    world: &World,
    write: &Write<'_>,
    key: &str,
    read: Position,
) -> Result<(), String> {
    if write.plural != "endpoints" {
        return Ok(());
    }
    match world.services.get(key) {
        Some((service, since)) if service.app.is_none() && since.version <= read.services => {
            Err("they belong to a Service without a selector".to_owned())
        }
        Some(_) => Ok(()),
        None => {
            let gone = world.gone_services.get(key).map_or(0, |since| since.version);
            if gone <= read.services && write.object.is_some() {
                return Err("there is no Service of that name".to_owned());
            }
            Ok(())
        }
    }
}

/// Returns each ready address with the name and uid of its pod.
fn ready_addresses(endpoints: Option<&Value>) -> BTreeSet<(&str, &str, &str)> {
    let subsets = endpoints.into_iter().flat_map(|it| it["subsets"].as_array()).flatten();
    let addresses = subsets.flat_map(|subset| subset["addresses"].as_array().into_iter().flatten());
    addresses
        .map(|it| (text(it, "/ip"), text(it, "/targetRef/name"), text(it, "/targetRef/uid")))
        .filter(|(_, name, _)| !name.is_empty())
        .collect()
}

/// Checks that a constantly ready pod does not disappear from Endpoints.
pub(crate) fn no_ready_pod_leaves_endpoints(
    world: &World,
    write: &Write<'_>,
    key: &str,
    read: Position,
) -> Result<(), String> {
    if write.plural != "endpoints" {
        return Ok(());
    }
    let (Some((service, since)), Some((ports, ports_since))) =
        (world.services.get(key), world.target_ports.get(key))
    else {
        return Ok(());
    };
    if service.is_deleting || since.version > read.services || ports_since.version > read.services {
        return Ok(());
    }
    if world.is_retired(key, service) && write.object.is_none() {
        return Ok(());
    }
    let is_truncated = |it: &&Value| {
        it["metadata"]["annotations"]["endpoints.kubernetes.io/over-capacity"].as_str().is_some()
    };
    if [write.previous, write.object].iter().flatten().any(is_truncated) {
        return Ok(());
    }
    let is_v6 = service.families[0] == "IPv6";
    let after = ready_addresses(write.object);
    let namespace = key.split('/').next().unwrap_or_default();
    for (address, name, uid) in ready_addresses(write.previous).difference(&after) {
        let Some((pod, pod_since)) = world.pods.get(&format!("{namespace}/{name}")) else { continue };
        let has_port = |target: &Option<String>| target.as_ref().is_none_or(|it| pod.ports.contains(it));
        let is_eligible = pod.uid == *uid
            && pod.is_ready
            && service.app.as_ref() == Some(&pod.app)
            && address.contains(':') == is_v6
            && pod.addresses.iter().any(|it| it == address)
            && (ports.is_empty() || ports.iter().any(has_port));
        if is_eligible && pod_since.version <= read.pods {
            return Err(format!("{namespace}/{name} ({address}) was ready all the time and is absent"));
        }
    }
    Ok(())
}

/// Checks that an address of constantly mirrored Endpoints does not disappear from the mirrored
/// slices. Addresses that others have written there are exempt.
pub(crate) fn no_address_leaves_mirrored_slices(
    world: &World,
    before: &Slice,
    after: Option<&Slice>,
    read: Position,
    is_edited: impl Fn(&str) -> bool,
) -> Result<(), String> {
    if before.managed_by != MIRRORED {
        return Ok(());
    }
    let (Some((service, since)), Some((endpoints, endpoints_since))) =
        (world.services.get(&before.service), world.endpoints.get(&before.service))
    else {
        return Ok(());
    };
    let is_mirrored = service.app.is_none()
        && !service.is_deleting
        && since.version <= read.services
        && endpoints.is_mirrorable
        && endpoints_since.version <= read.endpoints
        && endpoints.addresses.len() <= MOST_ADDRESSES;
    if !is_mirrored {
        return Ok(());
    }
    let holds = |slice: &Slice, address: &str| slice.endpoints.iter().any(|it| it.address == address);
    for endpoint in &before.endpoints {
        let address = endpoint.address.as_str();
        let stays = after.is_some_and(|after| holds(after, address))
            || world
                .slices_of(&before.service)
                .any(|it| it.managed_by == MIRRORED && it.family == before.family && holds(it, address));
        if !stays && !is_edited(address) && endpoints.addresses.iter().any(|it| it == address) {
            return Err(format!("{address} of {} was there all the time and is in no slice", before.service));
        }
    }
    Ok(())
}

/// Checks that Endpoints that have been mirrored since before `time` keep some mirrored slice,
/// unless others have written all addresses in the last one.
pub(crate) fn not_all_mirrored_slices_deleted(
    world: &World,
    before: &Slice,
    time: std::time::Duration,
    is_edited: impl Fn(&str) -> bool,
) -> Result<(), String> {
    let (Some((service, since)), Some((endpoints, endpoints_since))) =
        (world.services.get(&before.service), world.endpoints.get(&before.service))
    else {
        return Ok(());
    };
    let is_mirrored = before.managed_by == MIRRORED
        && service.app.is_none()
        && !service.is_deleting
        && since.at < time
        && endpoints.is_mirrorable
        && endpoints_since.at < time;
    let is_left =
        |address: &String| !is_edited(address) && before.endpoints.iter().any(|it| it.address == *address);
    let has_slices = world.slices_of(&before.service).any(|it| it.managed_by == MIRRORED);
    if is_mirrored && !has_slices && endpoints.addresses.iter().any(is_left) {
        return Err(format!("the Endpoints of {} have no slice any more", before.service));
    }
    Ok(())
}

/// Returns a slice that a process created before, and that has a ready endpoint of a new one with
/// the same ports.
pub(crate) fn twin<'a>(
    world: &'a World,
    key: &str,
    created: impl Fn(&str) -> bool + 'a,
) -> Option<&'a String> {
    let new = world.slices.get(key).filter(|new| !new.endpoints.is_empty())?;
    let shares = |other: &Slice| other.endpoints.iter().any(|it| it.is_ready && new.endpoints.contains(it));
    let is_twin = |other: &Slice| {
        other.service == new.service
            && other.managed_by == new.managed_by
            && other.family == new.family
            && other.ports == new.ports
            && other.owner == new.owner
            && shares(other)
    };
    let others = world.slices.iter().filter(|(other, _)| *other != key && created(other));
    others.filter(|(_, slice)| is_twin(slice)).map(|(key, _)| key).next()
}

/// Returns the ready endpoints of pods that have been gone since before `time`: the Service, and
/// what is wrong.
pub(crate) fn long_dead(world: &World, time: std::time::Duration) -> Vec<(String, String)> {
    let mut dead = Vec::new();
    for (key, slice) in world.slices.iter().filter(|(_, slice)| slice.managed_by == FROM_PODS) {
        // Slices that a Service without a selector inherits may stay.
        let has_service = world.services.get(&slice.service).is_some_and(|(it, _)| it.app.is_some());
        for endpoint in slice.endpoints.iter().filter(|it| has_service && it.is_ready) {
            let Some(pod) = &endpoint.pod else { continue };
            if world.gone_pods.get(pod).is_some_and(|since| since.at < time) {
                let detail = format!("{pod} does not exist any more and is ready in {key}");
                dead.push((slice.service.clone(), detail));
            }
        }
    }
    dead
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::super::world::Since;
    use super::*;

    /// The process has read everything up to this version.
    const READ: u64 = 9;

    fn service(app: Option<&str>) -> Value {
        let selector = app.map(|app| json!({"app": app}));
        let ports = json!([{"port": 80, "targetPort": "web"}]);
        json!({"spec": {"selector": selector, "ipFamilies": ["IPv4"], "ports": ports}})
    }

    fn pod(ready: &str, port: &str) -> Value {
        json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"app": "a"}},
            "spec": {"containers": [{"ports": [{"name": port, "containerPort": 8080}]}]},
            "status": {"podIPs": [{"ip": "10.0.0.1"}], "conditions": [{"type": "Ready", "status": ready}]},
        })
    }

    fn endpoints(addresses: &[&str]) -> Value {
        let address = |ip: &&str| json!({"ip": ip, "targetRef": {"name": "p", "uid": "u"}});
        let addresses: Vec<Value> = addresses.iter().map(address).collect();
        json!({"metadata": {}, "subsets": [{"addresses": addresses}]})
    }

    fn slice(name: &str, manager: &str, addresses: &[&str]) -> Value {
        let endpoint =
            |ip: &&str| json!({"addresses": [ip], "targetRef": {"namespace": "n", "name": "p", "uid": "u"}});
        let endpoints: Vec<Value> = addresses.iter().map(endpoint).collect();
        json!({
            "metadata": {"name": name, "namespace": "n", "labels": {
                "kubernetes.io/service-name": "s", "endpointslice.kubernetes.io/managed-by": manager,
            }},
            "addressType": "IPv4", "endpoints": endpoints,
        })
    }

    fn world(objects: &[(&str, &str, &Value)]) -> World {
        let mut world = World::default();
        for (plural, key, object) in objects {
            world.apply(plural, key, Some(object), Since { version: 5, at: Duration::ZERO });
        }
        world
    }

    fn read(version: u64) -> Position {
        Position { pods: version, services: version, nodes: version, endpoints: version, selectors: version }
    }

    #[test]
    fn endpoints_of_users_are_not_written() {
        let object = endpoints(&["10.0.0.1"]);
        let check = |service: Option<&Value>, version: u64, deletes: bool, allowed: bool| {
            let services: Vec<_> = service.iter().map(|it| ("services", "n/s", *it)).collect();
            let write = Write {
                plural: "endpoints",
                user_agent: "",
                previous: Some(&object),
                object: (!deletes).then_some(&object),
            };
            let outcome = endpoints_of_users_untouched(&world(&services), &write, "n/s", read(version));
            assert_eq!(outcome.is_ok(), allowed, "{service:?} {version} {deletes}");
        };
        let (with, without) = (service(Some("a")), service(None));
        check(Some(&with), READ, false, true);
        check(Some(&without), READ, false, false);
        check(Some(&without), READ, true, false);
        check(Some(&without), 4, false, true);
        check(None, READ, false, false);
        check(None, READ, true, true);
    }

    #[test]
    fn a_ready_pod_stays_in_endpoints() {
        let check = |pod: &Value, after: &[&str], version: u64, allowed: bool| {
            let service = service(Some("a"));
            let world = world(&[("services", "n/s", &service), ("pods", "n/p", pod)]);
            let (previous, object) = (endpoints(&["10.0.0.1"]), endpoints(after));
            for object in [Some(&object), None].into_iter().take(2 - usize::from(!after.is_empty())) {
                let write = Write { plural: "endpoints", user_agent: "", previous: Some(&previous), object };
                let outcome = no_ready_pod_leaves_endpoints(&world, &write, "n/s", read(version));
                assert_eq!(outcome.is_ok(), allowed, "{pod} {after:?} {version}");
            }
        };
        check(&pod("True", "web"), &["10.0.0.1"], READ, true);
        check(&pod("True", "web"), &[], READ, false);
        check(&pod("True", "web"), &[], 4, true);
        check(&pod("True", "other"), &[], READ, true);
        check(&pod("False", "web"), &[], READ, true);
    }

    #[test]
    fn an_address_stays_mirrored() {
        let check = |addresses: &[&str], elsewhere: bool, version: u64, allowed: bool| {
            let (service, endpoints) = (service(None), endpoints(addresses));
            let other = slice("other", MIRRORED, if elsewhere { &["10.0.0.1"] } else { &[] });
            let world = world(&[
                ("services", "n/s", &service),
                ("endpoints", "n/s", &endpoints),
                ("endpointslices", "n/other", &other),
            ]);
            let before = Slice::of(&slice("one", MIRRORED, &["10.0.0.1"]));
            let outcome = no_address_leaves_mirrored_slices(&world, &before, None, read(version), |_| false);
            assert_eq!(outcome.is_ok(), allowed, "{addresses:?} {elsewhere} {version}");
        };
        check(&["10.0.0.1"], false, READ, false);
        check(&["10.0.0.1"], true, READ, true);
        check(&["10.0.0.1"], false, 4, true);
        check(&["10.0.0.2"], false, READ, true);
    }

    #[test]
    fn a_slice_with_an_endpoint_of_another_one_of_the_same_process_is_its_twin() {
        let check = |other: &[&str], own: bool, want: Option<&str>| {
            let (new, other) = (slice("new", FROM_PODS, &["10.0.0.1"]), slice("other", FROM_PODS, other));
            let world = world(&[("endpointslices", "n/new", &new), ("endpointslices", "n/other", &other)]);
            assert_eq!(twin(&world, "n/new", |_| own).map(String::as_str), want);
        };
        check(&["10.0.0.1"], true, Some("n/other"));
        check(&["10.0.0.1"], false, None);
        check(&["10.0.0.1", "10.0.0.2"], true, Some("n/other"));
        check(&["10.0.0.2"], true, None);
        check(&[], true, None);
    }

    #[test]
    fn an_endpoint_of_a_pod_that_is_gone_is_dead() {
        let (service, slice, pod) =
            (service(Some("a")), slice("one", FROM_PODS, &["10.0.0.1"]), pod("True", "web"));
        let objects =
            [("services", "n/s", &service), ("endpointslices", "n/one", &slice), ("pods", "n/p", &pod)];
        let mut world = world(&objects);
        assert_eq!(long_dead(&world, Duration::from_secs(99)), []);
        world.apply("pods", "n/p", None, Since { version: 6, at: Duration::from_secs(7) });
        assert_eq!(long_dead(&world, Duration::from_secs(7)), []);
        let dead = long_dead(&world, Duration::from_secs(8));
        let [(service, dead)] = &dead[..] else { panic!("{dead:?}") };
        assert!(service == "n/s" && dead.starts_with("n/p "), "{service}: {dead}");
    }
}
