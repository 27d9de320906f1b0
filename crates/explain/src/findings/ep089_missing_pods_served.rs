//! Slices send clients to pods that do not exist any more, have ended, are not ready or have other
//! addresses.

use std::collections::{BTreeMap, BTreeSet};

use kube_endpoint_core_model::maker::Keep;
use kube_endpoint_core_model::well_known::{
    ENDPOINTSLICE_CONTROLLER, LABEL_MANAGED_BY, MIRRORING_CONTROLLER, SELECTOR_CONTROLLER,
};
use kube_endpoint_core_model::{EndpointSlice, Service};
use serde_json::Value;

use super::words::start_selector_controller;
use crate::facts::objects::Objects;
use crate::findings::evidence::OBJECTS;
use crate::findings::inputs::is_mirrored;
use crate::findings::prelude::*;
use crate::models::dead::{DeadEndpoint, WhyDead};
use crate::models::hand_over::made_by_controller;
use crate::models::selection::Selection;

about! {
    /// The slices are late (EP050), and hold ready endpoints of pods that are none of the
    /// Service's: it is an error if such a pod does not exist any more, or if no pod of the Service
    /// receives traffic.
    ///
    /// Or somebody else wrote the endpoints, as an operator or a person, in slices or in Endpoints
    /// that are mirrored; or nobody maintains the slices: they stay when a Service loses its
    /// selector, or begins or ceases to name an EndpointSelector. Their endpoints are compared with
    /// the pods that they name, or that have their addresses, in the namespace of the Service. A
    /// pod that is gone, that was replaced, that has ended or that has other addresses is an error:
    /// the address may belong to another pod by now. A pod that has not been ready for 30 seconds
    /// is a warning, unless the Service publishes such pods; so is a node that does not exist any
    /// more. Endpoints with an error do not count as receiving traffic. Mirrored slices follow
    /// their Endpoints, so the advice names these.
    EP089 "missing-pods-served" Warning may_be_under_way
    "Slices send clients to pods that do not exist any more, have ended, are not ready or have other addresses."
}

/// The maximum number of endpoints in a sentence.
const ENDPOINTS_IN_A_SENTENCE: usize = 3;

/// Pods that slices name and that do not answer, or are none of the Service's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingPodsServed {
    /// The pods that the slices name.
    pub pods: Vec<Text>,
    /// True if no endpoint of the Service receives traffic.
    pub none_is_left: bool,
    /// True if the Service names an EndpointSelector.
    pub is_attached: bool,
    pub writer: Writer,
    /// The endpoints that somebody else than a controller keeps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<DeadEndpoint>,
    /// True if one of the pods cannot come back.
    #[serde(skip)]
    pub(crate) are_gone: bool,
    /// True if the Service has a selector.
    #[serde(skip)]
    pub(crate) has_selector: bool,
    /// The slices that are mirrored from the Endpoints of the Service.
    #[serde(skip)]
    pub(crate) mirrored: BTreeSet<Text>,
}

/// The writer of endpoints.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Writer {
    /// The controller that makes the slices from pods; it is late.
    Controller,
    /// Nobody: another controller left the slices.
    Nobody,
    /// The field manager of the Endpoints, from which the slices are mirrored, if it is known.
    Endpoints(Option<Text>),
    /// The manager that the label of the slices names.
    Manager(Option<Text>),
}

impl Finding for MissingPodsServed {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let known = inputs.options.known;
        if !known.slices || !known.pods {
            return Vec::new();
        }
        Self::of_late_slices(inputs).into_iter().chain(Self::of_written(inputs)).collect()
    }

    fn severity(&self) -> Option<Severity> {
        (self.none_is_left || self.are_gone || self.writer == Writer::Nobody).then_some(Severity::Error)
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        let gone =
            self.pods.iter().take(OBJECTS).map(|pod| read.of("Pod", pod, ".metadata.name", Value::Null));
        let gone = gone.filter(|_| self.are_gone);
        gone.chain(read.slices()).collect()
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let why = "clients reach nobody there, or another pod";
        let (writes, sentence) = match &self.writer {
            Writer::Controller if self.is_attached => return start_selector_controller(),
            Writer::Controller => {
                return Remedy::ask(
                    ClusterAdministrator,
                    "Bring the EndpointSlice controller back, which takes these endpoints out of the slices",
                );
            }
            Writer::Nobody => (None, self.care()),
            Writer::Endpoints(by) => (by.as_ref(), "the Endpoints".to_owned()),
            Writer::Manager(by) => (by.as_ref(), self.slices_named()),
        };
        let sentence = match (&self.writer, writes) {
            (Writer::Nobody, _) => sentence,
            (_, Some(by)) => format!("Correct {sentence}, or look at why {by} does not: {why}"),
            (_, None) => format!("Correct {sentence}, or find out who should: {why}"),
        };
        let shown = |kind: &str, names: &[&str]| {
            let words = [&["get", kind], names, &["-o", "yaml", "--show-managed-fields"]].concat();
            Step::kubectl_in(&service.namespace, words)
        };
        let slices = self.slices();
        let slices: Vec<&str> = slices.iter().map(|slice| &***slice).collect();
        let show = match self.writer {
            Writer::Endpoints(_) => Vec::new(),
            _ => vec![shown("endpointslice", &slices)],
        };
        let is_mirrored = !self.mirrored.is_empty();
        let endpoints = is_mirrored.then(|| shown("endpoints", &[&service.name]));
        Remedy::ask(EndpointsWriter, sentence).shown_by(show.into_iter().chain(endpoints))
    }

    fn traffic_lost(&self) -> TrafficLost {
        TrafficLost::Some
    }
}

impl fmt::Display for MissingPodsServed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let many = self.slices().len() > 1 || matches!(self.writer, Writer::Endpoints(_));
        let send = if many { "send" } else { "sends" };
        match &self.writer {
            Writer::Controller => {
                let (count, pods) = (self.pods.len(), names(&self.pods));
                let (pod, does) = if count == 1 { ("pod", "does") } else { ("pods", "do") };
                return write!(
                    f,
                    "slices send clients to {count} {pod} that the Service does not select or that {does} not exist any more: {pods}"
                );
            }
            Writer::Nobody => write!(f, "{}, which nobody maintains,", self.slices_named())?,
            Writer::Endpoints(_) => f.write_str("the Endpoints")?,
            Writer::Manager(_) => f.write_str(&self.slices_named())?,
        }
        write!(f, " {send} clients to ")?;
        // Several slices may hold one endpoint.
        let mut seen = BTreeSet::new();
        let all = self.endpoints.iter().map(ToString::to_string);
        let all: Vec<String> = all.filter(|it| seen.insert(it.clone())).collect();
        let listed: Vec<&str> = all.iter().take(ENDPOINTS_IN_A_SENTENCE).map(|it| &**it).collect();
        f.write_str(&listed.join("; to "))?;
        match all.len().saturating_sub(ENDPOINTS_IN_A_SENTENCE) {
            0 => Ok(()),
            more => write!(f, "; and to {more} more"),
        }
    }
}

impl MissingPodsServed {
    /// Looks at slices made from pods that are late, for pods that the Service does not select, or
    /// that do not exist.
    fn of_late_slices(inputs: &FaultInputs<'_>) -> Option<Self> {
        let is_late = || inputs.slices_behind_without_cause().is_some_and(|behind| behind.is_late);
        if !inputs.selection.selects_pods() || !is_late() {
            return None;
        }
        let own: BTreeSet<(&Text, &Text)> = inputs.pods.iter().map(|pod| (&pod.key.name, &pod.uid)).collect();
        let manager = &inputs.selection.plan_options(inputs.options).manager;
        let (mut missing, mut are_gone) = (BTreeSet::new(), false);
        for slice in inputs.slices().iter().filter(|slice| slice.is_managed_by(manager)) {
            let addresses_sent = inputs.served.endpoints_of(slice);
            let ready = slice.endpoints.iter().filter(|endpoint| endpoint.conditions.ready != Some(false));
            for endpoint in ready.filter(|endpoint| addresses_sent(endpoint) > 0) {
                let target = endpoint.target_ref.as_ref().filter(|target| *target.kind == *"Pod");
                let is_own = |name, uid: &Text| match uid.is_empty() {
                    true => own.iter().any(|(own, _)| *own == name),
                    false => own.contains(&(name, uid)),
                };
                let Some(target) = target.filter(|target| !is_own(&target.name, &target.uid)) else {
                    continue;
                };
                let namespace = inputs.service.key.namespace.clone();
                let key = ObjectKey { namespace, name: target.name.clone() };
                are_gone |= inputs.objects.is_gone(&key, &target.uid);
                missing.insert(key.name);
            }
        }
        (!missing.is_empty()).then(|| Self {
            pods: missing.into_iter().collect(),
            none_is_left: inputs.counts.receiving == Some(0),
            is_attached: matches!(inputs.selection, Selection::Attached { .. }),
            writer: Writer::Controller,
            endpoints: Vec::new(),
            are_gone,
            has_selector: inputs.service.selects_pods(),
            mirrored: BTreeSet::new(),
        })
    }

    /// Looks at the slices that nobody maintains, or that somebody else writes.
    fn of_written(inputs: &FaultInputs<'_>) -> Vec<Self> {
        Self::of(inputs.objects, inputs.service, inputs.selection, inputs.dead, inputs.counts.is_down())
    }

    /// Returns the findings about dead endpoints of a Service, one for each writer.
    pub(crate) fn of(
        objects: &Objects,
        service: &Service,
        selection: Selection<'_>,
        dead: &[DeadEndpoint],
        none_is_left: bool,
    ) -> Vec<Self> {
        let key = &service.key;
        let mut by_writer: BTreeMap<Writer, Vec<DeadEndpoint>> = BTreeMap::new();
        for slice in objects.slices_of(key) {
            let writer = match slice.metadata.labels.get(LABEL_MANAGED_BY) {
                _ if is_left(objects, key, selection, slice) => Writer::Nobody,
                Some(_) if is_mirrored(slice) => {
                    let write = objects.endpoints_writes.get(key);
                    Writer::Endpoints(write.map(|write| write.by.clone()))
                }
                manager => Writer::Manager(manager.cloned()),
            };
            // EP065 tells of cluster IPs.
            let is_of =
                |dead: &&DeadEndpoint| dead.slice == slice.metadata.name && dead.why != WhyDead::ClusterIp;
            let dead = dead.iter().filter(is_of);
            // A hand-over keeps pods that are not ready for a moment.
            let is_held = writer == Writer::Nobody && !matches!(selection, Selection::None);
            let dead: Vec<_> = dead.filter(|dead| !is_held || !dead.may_come_back()).cloned().collect();
            if !dead.is_empty() {
                by_writer.entry(writer).or_default().extend(dead);
            }
        }
        let mirrors = objects.slices_of(key).iter().filter(|slice| is_mirrored(slice));
        let mirrors: BTreeSet<&Text> = mirrors.map(|slice| &slice.metadata.name).collect();
        let is_mirror = |slice: &&Text| mirrors.contains(slice);
        let one = |(writer, endpoints): (Writer, Vec<DeadEndpoint>)| {
            let pods: BTreeSet<&Text> = endpoints.iter().filter_map(|dead| dead.pod.as_ref()).collect();
            Self {
                pods: pods.into_iter().cloned().collect(),
                none_is_left,
                is_attached: service.endpoint_selector().is_some(),
                writer,
                has_selector: service.selects_pods(),
                mirrored: endpoints.iter().map(|dead| &dead.slice).filter(is_mirror).cloned().collect(),
                are_gone: endpoints.iter().any(|dead| !dead.may_come_back()),
                endpoints,
            }
        };
        by_writer.into_iter().map(one).collect()
    }

    fn slices(&self) -> BTreeSet<&Text> {
        self.endpoints.iter().map(|dead| &dead.slice).collect()
    }

    fn slices_named(&self) -> String {
        let slices: Vec<Text> = self.slices().into_iter().cloned().collect();
        format!("{} {}", if slices.len() == 1 { "slice" } else { "slices" }, names(&slices))
    }

    /// Returns what to do about slices that nobody maintains.
    fn care(&self) -> String {
        let look = match (self.is_attached, self.has_selector) {
            (true, _) => {
                "Look why the endpoint selector controller leaves them: does it run, and do its events on the Service name a right that it lacks or another maker? Until then,"
            }
            (false, true) => {
                "Look why the endpoint selector controller leaves them: does it run? Until then,"
            }
            (false, false) => "Restore the selector, or write other endpoints for the Service and",
        };
        // The controller would make a mirror again.
        let from_endpoints = "correct or delete the Endpoints, which kube-controller-manager mirrors to";
        let mirrored: Vec<Text> = self.mirrored.iter().cloned().collect();
        let delete = match (mirrored.len(), self.slices().len()) {
            (0, _) => "delete the slices".to_owned(),
            (some, all) if some == all => format!("{from_endpoints} {}", self.slices_named()),
            _ => format!("{from_endpoints} {}, and delete the other slices", names(&mirrored)),
        };
        format!("{look} {delete}: clients reach addresses that other pods may have by now")
    }
}

/// Returns true if nobody maintains a slice: another controller left it when the Service lost its
/// selector, or began or ceased to name an EndpointSelector.
fn is_left(objects: &Objects, key: &ObjectKey, selection: Selection<'_>, slice: &EndpointSlice) -> bool {
    let is_mirror_left =
        || made_by_controller(objects, key) || objects.endpoints_stay(key).is_some_and(Keep::is_uncertain);
    let is_of_pods = slice.is_managed_by(ENDPOINTSLICE_CONTROLLER);
    match selection {
        Selection::Attached { .. } | Selection::Unusable { .. } => {
            is_of_pods || slice.is_managed_by(MIRRORING_CONTROLLER) && is_mirror_left()
        }
        Selection::Own(_) => slice.is_managed_by(SELECTOR_CONTROLLER),
        Selection::None => is_of_pods || slice.is_managed_by(SELECTOR_CONTROLLER),
        Selection::NotKnown { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn controllers_that_run_take_missing_pods_out() {
        let behind = example("ep089-missing-pods-served");
        assert!(behind.finds(Code::MissingPodsServed));
        assert!(!behind.served().finds(Code::MissingPodsServed));
    }

    #[test]
    fn a_slice_that_nobody_maintains_may_hold_a_pod_that_is_there() {
        let left = example("ep089-left-by-an-unknown-program");
        assert!(left.finds(Code::MissingPodsServed));
        let there = json!({
            "addresses": ["10.1.0.1"],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": "node-a",
            "targetRef": {"kind": "Pod", "namespace": "default", "name": "web-1"},
        });
        let kept = left.with("EndpointSlice/web-7kq2x", json!({"endpoints": [there]}));
        assert!(kept.finds(Code::SliceKept) && !kept.finds(Code::MissingPodsServed));
    }

    /// kube-controller-manager would make a mirror again that somebody deletes.
    #[test]
    fn the_endpoints_of_a_mirrored_slice_are_named_and_one_pod_once() {
        use kube_endpoint_core_model::ObjectKey;
        use kube_endpoint_core_model::well_known::MIRRORING_CONTROLLER;

        use crate::facts::objects::Objects;
        use crate::facts::options::Options;
        use crate::findings::testing::explain;

        let left = example("ep089-left-by-an-unknown-program");
        let of_pods = left.object("EndpointSlice/web-7kq2x");
        let mut mirrored = of_pods.clone();
        mirrored["metadata"]["name"] = json!("web-mirror");
        mirrored["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] =
            json!(MIRRORING_CONTROLLER);
        let endpoints = json!({
            "kind": "Endpoints", "apiVersion": "v1",
            "metadata": {
                "name": "web", "labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"},
                "managedFields": [{
                    "manager": "hyperkube", "operation": "Update", "time": "2026-01-01T00:00:06Z",
                    "fieldsV1": {"f:subsets": {}},
                }],
            },
            "subsets": [{
                "addresses": [{"ip": "10.1.0.9", "targetRef": of_pods["endpoints"][0]["targetRef"]}],
                "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            }],
        });
        let said = |slices: &[serde_json::Value]| {
            let others = ["Node/node-a", "Service/web", "EndpointSelector/web-stable", "Pod/web-1"];
            let others = others.map(|it| left.object(it)).into_iter().chain([endpoints.clone()]);
            let objects = Objects::read(others.chain(slices.iter().cloned())).unwrap();
            let (now, web) = ("2026-01-01T00:10:00Z".parse().unwrap(), ObjectKey::new("default", "web"));
            let topology = objects.topology();
            let explained = explain(&objects, &web, &topology, now, None, &Options::default()).unwrap();
            let advice = explained.to_do.into_iter().find(|it| it.code == Code::MissingPodsServed).unwrap();
            let commands: String = advice.remedy.commands().map(|it| format!("\n  {it}")).collect();
            format!("{}\n  {}{commands}", advice.message, advice.remedy.sentence)
        };
        let all = [of_pods.clone(), mirrored.clone()];
        insta::assert_snapshot!([said(&[of_pods]), said(&[mirrored]), said(&all)].join("\n"));
    }
}
