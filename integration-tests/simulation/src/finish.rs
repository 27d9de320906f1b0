//! Checks the rules for the end, when nothing changes any more: controllers write nothing, the
//! outputs equal those of new controllers, nothing waits, and controllers remember nothing about
//! deleted objects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube_endpoint_controllers::ManagerHandle;
use kube_endpoint_core_model::well_known::SELECTOR_CONTROLLER;
use kube_endpoint_integration_tests::conformance::{Compare, Snapshot, normal::normal_form, unified_diff};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::checks;
use crate::cluster::{Cluster, path_of, text};
use crate::history::{Manager, Setup};
use crate::objects;
use crate::watcher::{Endpoints, FROM_PODS, MIRRORED, SharedWatcher, managed_by, service_of, writer_of_user};

/// The quiet time without a write: longer than the time between two slow retries of a key.
const QUIET: Duration = Duration::from_secs(400);
/// The maximum number of requests of each manager in the quiet time at the end: it opens each of
/// five watches anew once, for each of three namespaces at most, and checks silent ones. Or it
/// lists the five kinds once more some minutes after a restore, in up to two pages, and watches
/// them.
const MOST_REQUESTS_WHEN_QUIET: usize = 20;
/// A little more than the longest time for which controllers remember changes of other clients.
const FORGETTING: Duration = Duration::from_secs(12 * 60);
/// A little more than a manager takes to stop.
const STOPPING: Duration = Duration::from_secs(60);
/// The maximum number of nodes that pods name.
const MOST_NODES: u8 = 6;
/// The label of Endpoints that names their manager.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const NAMESPACES: [&str; 2] = ["default", "team"];

/// Returns true if a slice has an owner for the garbage collector. A user may remove the reference
/// from a slice that no controller writes any more, because its Service has lost its selector, and
/// from a placeholder, which the controller keeps whoever owns it. Both stay, as upstream.
fn has_owner(slice: &Value) -> bool {
    slice["metadata"]["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty())
}

/// Returns true if a slice made from pods is empty.
fn is_placeholder(slice: &Value) -> bool {
    let is_empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    managed_by(slice) == FROM_PODS && is_empty(&slice["endpoints"]) && is_empty(&slice["ports"])
}

/// Replaces hints by a mark: the zones in an endpoint's hint depend on its hints before.
fn blur_hints(slice: &mut Value) {
    for endpoint in slice["endpoints"].as_array_mut().into_iter().flatten() {
        if !endpoint["hints"]["forZones"].is_null() {
            endpoint["hints"] = json!({"forZones": [{"name": "some"}]});
        }
    }
}

type Checked = Result<(), (&'static str, String)>;

/// Returns true if Endpoints are a controller's and no user's. Nobody knows the maker of those
/// without managedFields: a kube-apiserver begins none for an object that was made without any
/// content, whoever writes it later.
fn is_of_controller(endpoints: &Value) -> bool {
    endpoints["metadata"]["labels"][MANAGED_BY] == "endpoint-controller"
        && !endpoints["metadata"]["managedFields"].is_null()
        && writer_of_user(endpoints).is_none()
}

fn name_of(object: &Value) -> String {
    format!("{}/{}", text(object, "/metadata/namespace"), text(object, "/metadata/name"))
}

impl Cluster {
    /// Adds the nodes that pods name, without which syncs keep failing, and lets deleted namespaces
    /// end.
    pub(crate) async fn complete(&self) {
        Self::end_terminating_pods(&self.server).await;
        let nodes = self.server.list("nodes");
        let is_missing =
            |name: &u8| !nodes.iter().any(|node| text(node, "/metadata/name") == format!("n{name}"));
        let missing = (0..MOST_NODES).filter(is_missing).map(|name| objects::node(name, 1));
        if let Err(error) = self.server.load(missing) {
            panic!("the server cannot hold a node: {error}");
        }
    }

    /// Returns the Services, each with true if it has a selector.
    fn selecting(&self) -> BTreeMap<String, bool> {
        let services = self.server.list("services");
        services.iter().map(|it| (name_of(it), it["spec"]["selector"].is_object())).collect()
    }

    /// Returns the Services that select pods and are to have no Endpoints. Rehearsals have ended.
    fn retired(&self) -> BTreeSet<String> {
        let is_retired = |service: &&Value| {
            let setting = &service["metadata"]["annotations"][objects::RETIREMENT];
            let by_namespace = self.setup.retired && text(service, "/metadata/namespace") == "team";
            service["spec"]["selector"].is_object()
                && (setting == "retired" || by_namespace && setting != "published")
        };
        self.server.list("services").iter().filter(is_retired).map(name_of).collect()
    }

    /// Checks that retired Services have no Endpoints, apart from those of users. The others that
    /// select pods have some.
    fn has_no_retired_endpoints(&self) -> Checked {
        let retired = self.retired();
        for (name, selects) in self.selecting() {
            let (namespace, service) = name.split_once('/').unwrap_or_default();
            let is_published = selects && !retired.contains(&name);
            if is_published && self.server.get("endpoints", namespace, service).is_none() {
                return Err(("Services that are not retired have Endpoints", name));
            }
        }
        for name in self.retired() {
            let (namespace, service) = name.split_once('/').unwrap_or_default();
            let found = self.server.get("endpoints", namespace, service);
            let is_users = found.as_ref().is_some_and(|found| !is_of_controller(found));
            self.watcher.lock().statistics.retired[usize::from(is_users)] += 1;
            if let Some(found) = found.filter(|_| !is_users) {
                return Err(("retired Services have no Endpoints of a controller", format!("{found:#}")));
            }
        }
        Ok(())
    }

    /// Returns the outputs in normal form, without those that depend on history: Endpoints without
    /// a Service, slices made from pods for a Service that has lost its selector, and slices that
    /// no controller of ours manages.
    fn outputs(&self) -> Value {
        let selecting = self.selecting();
        let list = |plural: &str| self.server.list(plural);
        let mut snapshot = Snapshot {
            services: list("services"),
            pods: list("pods"),
            endpoints: list("endpoints"),
            slices: list("endpointslices"),
            events: Vec::new(),
        };
        let retired = self.retired();
        snapshot
            .endpoints
            .retain(|it| selecting.contains_key(&name_of(it)) && !retired.contains(&name_of(it)));
        snapshot.slices.retain(|it| match managed_by(it) {
            FROM_PODS => match selecting.get(&service_of(it)) {
                Some(has_selector) => *has_selector,
                None => has_owner(it),
            },
            manager => manager == MIRRORED,
        });
        // Beside other slices, a placeholder depends on history: as upstream, it stays if a plan
        // adds exactly full slices to it.
        let place = |it: &Value| (managed_by(it).to_owned(), service_of(it), it["addressType"].to_string());
        let filled = snapshot.slices.iter().filter(|it| !is_placeholder(it)).map(place);
        let filled: BTreeSet<_> = filled.collect();
        snapshot.slices.retain(|it| !is_placeholder(it) || !filled.contains(&place(it)));
        // As upstream, the controller keeps a placeholder whoever owns it, and with empty or
        // missing labels.
        for placeholder in snapshot.slices.iter_mut().filter(|it| is_placeholder(it)) {
            let metadata = &mut placeholder["metadata"];
            metadata["ownerReferences"] = json!([]);
            if let Some(labels) = metadata["labels"].as_object_mut() {
                labels.retain(|_, value| value != "");
            }
        }
        let asks_for_hints = |slice: &Value| {
            let service = snapshot.services.iter().find(|it| name_of(it) == service_of(slice));
            service.is_some_and(|it| {
                it["metadata"]["annotations"]["service.kubernetes.io/topology-mode"] == "Auto"
            })
        };
        for slice in snapshot.slices.iter_mut().filter(|slice| asks_for_hints(slice)) {
            blur_hints(slice);
        }
        let compare = json!({"trigger": "ignore", "sizes": "ignore"});
        let compare: Compare = match serde_json::from_value(compare) {
            Ok(compare) => compare,
            Err(error) => panic!("{error}"),
        };
        let forms = NAMESPACES.map(|namespace| {
            let within = |objects: &[Value]| -> Vec<Value> {
                let is_within = |it: &&Value| text(it, "/metadata/namespace") == namespace;
                objects.iter().filter(is_within).cloned().collect()
            };
            let snapshot = Snapshot {
                services: within(&snapshot.services),
                pods: within(&snapshot.pods),
                endpoints: within(&snapshot.endpoints),
                slices: within(&snapshot.slices),
                events: Vec::new(),
            };
            (namespace.to_owned(), normal_form(&snapshot, namespace, &compare))
        });
        forms.into_iter().collect::<serde_json::Map<_, _>>().into()
    }

    /// Returns the objects that no controller of ours writes.
    fn inputs(&self) -> Vec<Value> {
        let selecting = self.selecting();
        let kinds = [("nodes", "Node"), ("pods", "Pod"), ("services", "Service"), ("endpoints", "Endpoints")];
        let objects = kinds.into_iter().flat_map(|(plural, kind)| {
            self.server.list(plural).into_iter().map(move |mut object| {
                (object["apiVersion"], object["kind"]) = ("v1".into(), kind.into());
                // New controllers begin at the first hour, where no rehearsal has ended.
                let annotations = object["metadata"]["annotations"].as_object_mut();
                if let Some(annotations) = annotations {
                    let is_rehearsal =
                        |it: &Value| it.as_str().is_some_and(|it| it.starts_with("retired-until="));
                    annotations.retain(|key, value| key != objects::RETIREMENT || !is_rehearsal(value));
                }
                object
            })
        });
        let is_input =
            |object: &Value| object["kind"] != "Endpoints" || selecting.get(&name_of(object)) == Some(&false);
        objects.filter(is_input).collect()
    }

    /// Checks that the outputs equal those of controllers that see the inputs for the first time.
    async fn equals_output_of_new_controllers(&self, setup: &Setup) -> Checked {
        // The seed differs, so that no uid of a new object equals that of an input.
        let setup = Setup { seed: setup.seed ^ 1, lease: None, latency: 0, servers: 1, ..setup.clone() };
        let new = Self::new(&setup, SharedWatcher::new(&setup, false), self.inputs());
        new.managers.start(Manager::C);
        sleep(QUIET).await;
        let (want, got) = (new.outputs(), self.outputs());
        let slices = self.server.list("endpointslices");
        let endpoints = slices.iter().map(|slice| slice["endpoints"].as_array().map_or(0, Vec::len));
        self.watcher.lock().statistics.compared += endpoints.sum::<usize>();
        if want == got {
            return Ok(());
        }
        Err(("outputs equal those of new controllers", unified_diff(&want, &got)))
    }

    /// Checks that Endpoints that the controller has written belong to a Service.
    fn has_no_endpoints_without_service(&self) -> Checked {
        let services = self.selecting();
        let left = self.server.list("endpoints");
        match left.iter().find(|it| is_of_controller(it) && !services.contains_key(&name_of(it))) {
            Some(left) => Err(("no Endpoints are left of deleted Services", format!("{left:#}"))),
            None => Ok(()),
        }
    }

    /// Checks that mirrored slices have the addresses of the Endpoints of Services without a
    /// selector, if these are to be mirrored. It does not use the code of a controller.
    fn mirrors_what_is_to_be_mirrored(&self) -> Checked {
        let mut want = BTreeSet::new();
        let services = self.selecting();
        for object in self.server.list("endpoints") {
            let endpoints = Endpoints::of(&object);
            if services.get(&name_of(&object)) == Some(&false) && endpoints.is_mirrorable {
                want.extend(endpoints.addresses.into_iter().map(|address| (name_of(&object), address)));
            }
        }
        let mut got = BTreeSet::new();
        for slice in self.server.list("endpointslices").iter().filter(|it| managed_by(it) == MIRRORED) {
            for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
                got.insert((service_of(slice), text(endpoint, "/addresses/0").to_owned()));
            }
        }
        if want == got {
            return Ok(());
        }
        let differ: Vec<_> = want.symmetric_difference(&got).take(5).collect();
        Err(("Endpoints that are to be mirrored are mirrored", format!("{differ:?}")))
    }

    /// Checks that a Service with both mirrored slices and slices made from pods of one address
    /// type has an event that says why the controller keeps the latter.
    fn has_no_slices_from_pods_beside_mirrored_ones(&self) -> Checked {
        let slices = self.server.list("endpointslices");
        let by = |manager: &'static str| slices.iter().filter(move |it| managed_by(it) == manager);
        let place = |it: &Value| (service_of(it), it["addressType"].clone());
        for mirrored in by(MIRRORED) {
            let beside = by(FROM_PODS).find(|it| has_owner(it) && place(it) == place(mirrored));
            if let Some(beside) = beside.filter(|_| !self.watcher.lock().was_reported(&service_of(mirrored)))
            {
                let rule = "slices made from pods exist beside mirrored ones for a reported reason only";
                return Err((rule, format!("{beside:#} exists beside {mirrored:#}")));
            }
        }
        Ok(())
    }

    /// Fails if a manager has sent a write since the last call, other than of an event.
    fn nothing_written(&self) -> Checked {
        let mut writes = self.watcher.lock().take_writes();
        // An event about what is wrong comes again while it is. It is a new object if the first one
        // was combined with others.
        writes.retain(|write| !write.contains("/events"));
        let rule = "nothing is written once nothing changes";
        if writes.is_empty() { Ok(()) } else { Err((rule, format!("{writes:#?}"))) }
    }

    /// Starts a manager beside the others, and checks that it writes no output, except that it
    /// deletes leftover Endpoints of its own at its start. It may record events.
    async fn starts_cold_without_writes(&self) -> Checked {
        let services = self.selecting();
        let endpoints = self.server.list("endpoints");
        let leftover = endpoints
            .iter()
            .filter(|it| writer_of_user(it).is_none() && !services.contains_key(&name_of(it)));
        let paths: Vec<String> = leftover.map(|it| Self::core_path("endpoints", it)).collect();
        self.watcher.lock().take_writes();
        self.managers.start(Manager::C);
        sleep(QUIET).await;
        let writes = self.watcher.lock().take_writes();
        let is_cleanup = |write: &str| {
            paths.iter().any(|path| write.contains(&format!(" endpoints-controller delete {path} -> ")))
        };
        let writes: Vec<&String> =
            writes.iter().filter(|write| !write.contains("/events") && !is_cleanup(write)).collect();
        self.managers.stop(Manager::C, None);
        // Without a Lease it would write beside the others when Services go.
        sleep(STOPPING).await;
        let rule = "a manager that is started cold beside the others writes nothing";
        if writes.is_empty() { Ok(()) } else { Err((rule, format!("{writes:#?}"))) }
    }

    /// Returns the path of an object of the core group.
    fn core_path(plural: &str, object: &Value) -> String {
        let (namespace, name) = (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
        format!("/api/v1/namespaces/{namespace}/{plural}/{name}")
    }

    fn on_all_managers(
        &self,
        rule: &'static str,
        check: impl Fn(&ManagerHandle) -> Result<(), String>,
    ) -> Checked {
        // As upstream's, the controllers in kube-controller-manager's place give a key up.
        let is_ours = |(manager, _): &(Manager, ManagerHandle)| *manager != Manager::K;
        let checked = |(manager, handle): (Manager, ManagerHandle)| {
            check(&handle).map_err(|why| (rule, format!("manager {}: {why}", manager.word())))
        };
        self.managers.running().into_iter().filter(is_ours).try_for_each(checked)
    }

    /// Checks all rules for the end, after the recovery from the last fault.
    pub(crate) async fn check_end(&self, setup: &Setup) -> Checked {
        let services = self.server.list("services");
        let version = self.server.resource_version();
        self.watcher.lock().take_writes();
        self.watcher.lock().take_span();
        sleep(QUIET).await;
        self.nothing_written()?;
        let managers = self.managers.running().len();
        self.watcher.lock().check_quiet_span(managers, MOST_REQUESTS_WHEN_QUIET);
        self.on_all_managers("nothing waits once nothing changes", checks::waits_for_nothing)?;
        let leads = |(manager, handle): &(Manager, ManagerHandle)| {
            *manager != Manager::K && *handle.leading().borrow()
        };
        if !self.managers.running().iter().any(leads) {
            return Err(("somebody leads once nothing fails", String::new()));
        }
        // Beside kube-controller-manager the watcher has judged all Services.
        if !setup.beside {
            self.equals_output_of_new_controllers(setup).await?;
            self.has_no_slices_from_pods_beside_mirrored_ones()?;
            self.has_no_endpoints_without_service()?;
            self.has_no_retired_endpoints()?;
            self.mirrors_what_is_to_be_mirrored()?;
        }
        self.starts_cold_without_writes().await?;
        if self.server.list("services") != services {
            return Err(("no Service is changed", String::new()));
        }
        self.delete_all(&["services", "pods"]).await;
        for selector in self.server.list("endpointselectors") {
            Self::delete(&self.server, &path_of("endpointselectors", &selector)).await;
        }
        sleep(QUIET).await;
        if !setup.beside {
            self.has_no_endpoints_without_service()?;
        }
        self.delete_all(&["endpoints"]).await;
        sleep(FORGETTING).await;
        self.on_all_managers("caches keep up", |handle| checks::has_read(handle, version))?;
        self.on_all_managers("nothing is kept of deleted objects", checks::keeps_nothing)?;
        let slices = self.server.count("endpointslices");
        if slices > 0 {
            let left: Vec<Value> = self.server.list("endpointslices");
            let left: Vec<&Value> = left
                .iter()
                .filter(|it| {
                    matches!(managed_by(it), FROM_PODS | MIRRORED | SELECTOR_CONTROLLER) && has_owner(it)
                })
                .collect();
            if !left.is_empty() {
                return Err(("no slice is left of deleted Services", format!("{left:#?}")));
            }
        }
        Ok(())
    }

    async fn delete_all(&self, plurals: &[&str]) {
        for plural in plurals {
            for object in self.server.list(plural) {
                Self::delete(&self.server, &Self::core_path(plural, &object)).await;
            }
        }
    }
}
