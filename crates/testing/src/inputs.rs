//! The inputs of a plan for one Service.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_endpoint_core_model::{EndpointSlice, Endpoints, Node, ObjectKey, Pod, Service, Text, slice_labels};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Cluster;

/// The inputs of a plan for one Service.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inputs {
    /// Namespace and name of the Service, and of its Endpoints.
    pub key: ObjectKey,
    /// The Service, if there is one.
    pub service: Option<Service>,
    /// The pods that the Service selects, sorted by name.
    pub pods: Vec<Arc<Pod>>,
    /// All nodes, by name.
    pub nodes: BTreeMap<Text, Arc<Node>>,
    /// The slices that are labelled with the Service's name, of all managers, sorted by name.
    pub slices: Vec<Arc<EndpointSlice>>,
    /// The Endpoints of the Service's name, if there are any.
    pub endpoints: Option<Endpoints>,
}

impl Inputs {
    /// Returns the Service.
    ///
    /// # Panics
    ///
    /// If the cluster does not contain it.
    #[track_caller]
    pub fn service(&self) -> &Service {
        let Some(service) = &self.service else { panic!("there is no Service {}", self.key) };
        service
    }

    /// Returns the slices that a controller plans over: labelled with its name as manager, and not
    /// being deleted.
    pub fn slices_managed_by(&self, manager: &str) -> Vec<Arc<EndpointSlice>> {
        let mut is_planned = slice_labels::planned_by(manager);
        self.slices.iter().filter(|slice| is_planned(slice)).cloned().collect()
    }
}

impl Cluster {
    /// Calls a plan for one Service and returns its result.
    ///
    /// # Panics
    ///
    /// If an object is no valid Kubernetes object.
    #[track_caller]
    pub fn plan<R>(&self, service: &str, plan: impl FnOnce(&Inputs) -> R) -> R {
        plan(&self.inputs(service))
    }

    /// Returns the inputs of a plan for one Service.
    ///
    /// # Panics
    ///
    /// If an object is no valid Kubernetes object.
    #[track_caller]
    pub fn inputs(&self, service: &str) -> Inputs {
        let view: Option<Service> = self.object("Service", service).map(read);
        let selector = view.as_ref().and_then(|view| view.selector.clone());
        let mut pods: Vec<Arc<Pod>> = match selector {
            Some(selector) => {
                let pods = self.objects_of("Pod").map(read::<Pod>);
                pods.filter(|pod| selector.selects(&pod.labels)).map(Arc::new).collect()
            }
            None => Vec::new(),
        };
        pods.sort_by(|one, other| one.key.cmp(&other.key));
        let of_service = |slice: &EndpointSlice| slice.service_key().is_some_and(|key| *key.name == *service);
        let mut slices: Vec<Arc<EndpointSlice>> =
            self.objects_of("EndpointSlice").map(read).filter(of_service).map(Arc::new).collect();
        slices.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        let nodes = self.objects_of("Node").map(read::<Node>);
        Inputs {
            key: ObjectKey::new(self.current_namespace(), service),
            service: view,
            pods,
            nodes: nodes.map(|node| (node.name.clone(), Arc::new(node))).collect(),
            slices,
            endpoints: self.object("Endpoints", service).map(read),
        }
    }
}

#[track_caller]
pub(crate) fn read<T: DeserializeOwned>(object: &Value) -> T {
    match T::deserialize(object) {
        Ok(view) => view,
        Err(error) => panic!("{} {}: {error}", object["kind"], object["metadata"]["name"]),
    }
}
