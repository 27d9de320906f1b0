//! Finds out which loops write endpoints in a cluster, by a Service for each.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{ConformanceError, Unfit};
use crate::conformance::play::create_namespace;
use crate::conformance::{Api, Kind, Pace};

/// How long a cluster whose loops run may take to write the first outputs.
pub(super) const PATIENCE: Duration = Duration::from_secs(8);

/// The loops by their names in kube-controller-manager.
const LOOPS: [&str; 3] =
    ["endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller"];

/// The loops that write.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Loops {
    writes: [bool; 3],
    /// The programs that wrote, by their names in the managed fields.
    writers: BTreeSet<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    On,
    Off,
}

impl Loops {
    /// Returns [`State::On`] or [`State::Off`] for all three.
    pub(super) fn state(&self) -> Result<State, Unfit> {
        let named = |writes: bool| {
            let of = LOOPS.into_iter().zip(self.writes).filter(|(_, it)| *it == writes).map(|(name, _)| name);
            of.collect::<Vec<_>>().join(" and ")
        };
        match self.writes {
            [true, true, true] => Ok(State::On),
            [false, false, false] => Ok(State::Off),
            _ => Err(Unfit::SomeLoops { on: named(true), off: named(false) }),
        }
    }

    /// Returns the names of the programs that wrote.
    pub(super) fn writers(&self) -> String {
        self.writers.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

/// Creates a Service with a selector and one with Endpoints of a user, and waits until somebody has
/// written all outputs of theirs, or `patience` is over.
pub(super) async fn probe(api: &Api, patience: Duration) -> Result<Loops, ConformanceError> {
    create_namespace(api).await?;
    for object in objects() {
        api.create(object).await?;
    }
    let start = Instant::now();
    loop {
        let loops = Loops::of(&api.list(Kind::Endpoints).await?, &api.list(Kind::EndpointSlice).await?);
        if loops.writes == [true; 3] || start.elapsed() >= patience {
            return Ok(loops);
        }
        sleep(Pace::REAL.poll).await;
    }
}

fn objects() -> [Value; 3] {
    let service = |name: &str, selector: Value| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"clusterIP": "None", "selector": selector, "ports": [{"name": "p", "port": 80}]},
        })
    };
    let subset = json!({"addresses": [{"ip": "192.0.2.1"}], "ports": [{"name": "p", "port": 80}]});
    [
        service("selects", json!({"app": "nobody"})),
        service("mirrored", Value::Null),
        json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "mirrored"}, "subsets": [subset]}),
    ]
}

impl Loops {
    fn of(endpoints: &[Value], slices: &[Value]) -> Self {
        let of_service = |slice: &&Value, service: &str| {
            slice["metadata"]["labels"]["kubernetes.io/service-name"] == service
        };
        let found = [
            endpoints.iter().find(|it| it["metadata"]["name"] == "selects"),
            slices.iter().find(|it| of_service(it, "selects")),
            slices.iter().find(|it| of_service(it, "mirrored")),
        ];
        let fields = found.iter().flatten().filter_map(|it| it["metadata"]["managedFields"].as_array());
        let writers = fields.flatten().filter_map(|it| it["manager"].as_str()).map(str::to_owned).collect();
        Self { writes: found.map(|it| it.is_some()), writers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_loops_run_or_no_loop() {
        let state = |writes| Loops { writes, ..Loops::default() }.state();
        assert_eq!(state([true; 3]).unwrap(), State::On);
        assert_eq!(state([false; 3]).unwrap(), State::Off);
        insta::assert_snapshot!(state([true, false, true]).unwrap_err(), @"only some of the loops run in this cluster: endpoints-controller and endpointslice-mirroring-controller write, endpointslice-controller do not. Turn all three on, or all three off");
    }

    #[test]
    fn each_loop_is_known_by_its_output_and_its_writer() {
        let written = |name: &str, service: &str, by: &str| {
            json!({"metadata": {"name": name, "labels": {"kubernetes.io/service-name": service},
                "managedFields": [{"manager": by}]}})
        };
        let user = written("mirrored", "", "kubectl");
        let loops = Loops::of(&[user.clone(), written("selects", "", "a")], &[written("x", "mirrored", "b")]);
        assert_eq!((loops.writes, &*loops.writers()), ([true, false, true], "a, b"));
        assert_eq!(Loops::of(&[user], &[]), Loops::default());
    }
}
