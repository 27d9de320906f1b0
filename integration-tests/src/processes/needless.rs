//! Finds the writes of a leader that no change of a pod explains.

use std::collections::HashMap;
use std::time::Duration;

use super::cluster::service_of;
use super::witness::Line;

/// A write that arrived within this time after a change of a pod may not have it yet.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// Returns the successful writes of a user from the line `mark` on, without those of Leases and
/// events, that were not needed: an update of an output is needed if a pod of its Service has
/// changed since the update before. A cluster without new Services and pods needs no other writes.
/// `services_of` names the Services of a pod.
pub fn needless<'a>(
    lines: &'a [Line],
    mark: usize,
    user: &str,
    services_of: impl Fn(&str) -> Vec<String>,
) -> Vec<&'a Line> {
    let mut changed: HashMap<String, Duration> = HashMap::new();
    let mut written: HashMap<(&str, &str), Duration> = HashMap::new();
    let mut needless = Vec::new();
    let writes = lines.iter().enumerate().filter(|(_, line)| line.is_write() && line.succeeded());
    let mut writes: Vec<(usize, &Line)> = writes.collect();
    // A controller may answer a change before the answer to the change is ready.
    writes.sort_by_key(|(_, line)| line.arrival());
    for (number, line) in writes {
        let is_update = line.writes_output() && line.verb == "update";
        if line.resource == "pods" {
            let services = services_of(&line.name).into_iter();
            changed.extend(services.map(|service| (service, line.arrival())));
        } else if is_update {
            let service = if line.resource == "endpoints" { &*line.name } else { service_of(&line.name) };
            let before = written.insert((&line.resource, &line.name), line.arrival()).unwrap_or_default();
            let is_needed = changed.get(service).is_some_and(|changed| *changed + UNDER_WAY > before);
            if number >= mark && line.user == user && !is_needed {
                needless.push(line);
            }
        } else if number >= mark && line.user == user && !["leases", "events"].contains(&&*line.resource) {
            needless.push(line);
        }
    }
    needless
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(second: u64, user: &str, verb: &str, resource: &str, name: &str) -> Line {
        Line {
            received: second * 1_000_000,
            at: second * 1_000_000,
            user: user.to_owned(),
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            status: 200,
            ..Line::default()
        }
    }

    #[test]
    fn a_write_is_needed_once_for_a_change() {
        let lines = [
            line(1, "t", "patch", "pods", "a-0"),
            line(2, "old", "update", "endpointslices", "a-xyz"),
            // The leader before did not get to the Endpoints.
            line(10, "new", "update", "endpoints", "a"),
            line(11, "new", "update", "endpointslices", "a-xyz"),
            line(12, "t", "patch", "pods", "a-1"),
            line(13, "new", "update", "endpointslices", "a-xyz"),
            line(14, "new", "update", "endpointslices", "b-xyz"),
            line(15, "new", "create", "endpointslices", ""),
            line(16, "new", "patch", "endpointselectors", "s"),
            line(17, "new", "update", "leases", "l"),
            line(18, "new", "list", "endpointslices", ""),
            Line { status: 409, ..line(19, "new", "update", "endpointslices", "c-xyz") },
        ];
        let services = |pod: &str| vec![service_of(pod).to_owned()];
        let seconds = |mark: usize| -> Vec<u64> {
            let found = needless(&lines, mark, "new", services);
            found.iter().map(|line| line.received / 1_000_000).collect()
        };
        assert_eq!(seconds(0), [11, 14, 15, 16]);
        assert_eq!(seconds(6), [14, 15, 16]);
    }
}
