//! Applies planned writes as the API server would.

use kube_endpoint_core_model::display::PlannedObject;
use kube_endpoint_core_model::{EndpointSlice, Endpoints, Writes};
use serde::Serialize;
use serde_json::Value;

use crate::Cluster;
use crate::cluster::START_TIME;

/// An object that plans write.
pub trait Planned: PlannedObject + Serialize {
    /// Its API version.
    const API_VERSION: &'static str;
    /// Its kind.
    const KIND: &'static str;
}

impl Planned for EndpointSlice {
    const API_VERSION: &'static str = "discovery.k8s.io/v1";
    const KIND: &'static str = "EndpointSlice";
}

impl Planned for Endpoints {
    const API_VERSION: &'static str = "v1";
    const KIND: &'static str = "Endpoints";
}

impl Cluster {
    /// Applies planned writes. A second plan over the result has the writes that are still missing.
    ///
    /// # Panics
    ///
    /// If the API server would refuse a write, because it creates an object that exists, or
    /// replaces or deletes an object that does not exist with the same uid and version.
    #[track_caller]
    pub fn apply<T: Planned>(self, writes: &Writes<T>) -> Self {
        match self.states(writes).pop() {
            Some(last) => last,
            None => self,
        }
    }

    /// Returns the cluster after each single write, in the order of the writes.
    ///
    /// # Panics
    ///
    /// As [`apply`](Self::apply).
    #[track_caller]
    pub fn states<T: Planned>(&self, writes: &Writes<T>) -> Vec<Self> {
        let mut states = Vec::with_capacity(writes.len());
        let mut cluster = self.clone();
        for object in &writes.create {
            cluster.create(object);
            states.push(cluster.clone());
        }
        for object in &writes.update {
            let at = cluster.existing(object);
            let mut replacement = json_of(object);
            for kept in ["uid", "creationTimestamp"] {
                replacement["metadata"][kept] = cluster.objects()[at]["metadata"][kept].clone();
            }
            let generation = cluster.objects()[at]["metadata"]["generation"].as_i64().unwrap_or_default();
            replacement["metadata"]["generation"] = (generation + 1).into();
            assert_eq!(
                replacement["addressType"],
                cluster.objects()[at]["addressType"],
                "the address type of a slice never changes"
            );
            cluster.replace(at, replacement);
            states.push(cluster.clone());
        }
        for object in &writes.delete {
            let at = cluster.existing(&**object);
            cluster.take(at);
            states.push(cluster.clone());
        }
        states
    }

    #[track_caller]
    fn create<T: Planned>(&mut self, object: &T) {
        let metadata = object.metadata();
        let mut created = json_of(object);
        if metadata.name.is_empty() {
            assert!(!metadata.generate_name.is_empty(), "a {} with neither name nor generateName", T::KIND);
            let names = (1..).map(|number: u32| format!("{}{number:05}", metadata.generate_name));
            let unused = |name: &String| self.find(T::KIND, &metadata.namespace, name).is_none();
            created["metadata"]["name"] = names.into_iter().find(unused).unwrap_or_default().into();
        }
        assert!(
            metadata.uid.is_empty() && metadata.resource_version.is_none(),
            "a created {} with a uid or a version",
            T::KIND
        );
        created["metadata"]["creationTimestamp"] = START_TIME.into();
        created["metadata"]["generation"] = 1.into();
        self.insert(created);
    }

    /// Returns the position of an object that a write replaces or deletes.
    #[track_caller]
    fn existing<T: Planned>(&self, object: &T) -> usize {
        let metadata = object.metadata();
        let Some(at) = self.find(T::KIND, &metadata.namespace, &metadata.name) else {
            panic!("there is no {} {}", T::KIND, metadata.key());
        };
        let existing = &self.objects()[at]["metadata"];
        assert_eq!(existing["uid"], *metadata.uid, "uid of the {} {}", T::KIND, metadata.key());
        assert_eq!(
            existing["resourceVersion"],
            metadata.resource_version.to_string(),
            "version of the {} {}",
            T::KIND,
            metadata.key()
        );
        at
    }
}

#[track_caller]
fn json_of<T: Planned>(object: &T) -> Value {
    let mut json = match serde_json::to_value(object) {
        Ok(json) => json,
        Err(error) => panic!("a {} that cannot be serialized: {error}", T::KIND),
    };
    json["apiVersion"] = T::API_VERSION.into();
    json["kind"] = T::KIND.into();
    json
}
